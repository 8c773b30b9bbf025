"""Runs the code of the README: each block after the one that makes the client."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from fanfare import Client
from support import Server, until

with open(os.environ["FANFARE_README"]) as file:
    FIRST, CALLS, ERRORS, STREAM, WORKER = re.findall(r"^```python\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)


class Readme(unittest.TestCase):
    def setUp(self) -> None:
        self.url = Server(self).url
        self.client = Client(self.url)

    def run_block(self, block: str) -> "subprocess.Popen[str]":
        self.printed = tempfile.TemporaryFile("w+")
        self.addCleanup(self.printed.close)
        env = {**os.environ, "FANFARE_URL": self.url}
        program = subprocess.Popen([sys.executable, "-c", FIRST + block], env=env, stdout=self.printed, text=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def text(self) -> str:
        self.printed.seek(0)
        return self.printed.read()

    def test_calls_and_errors(self) -> None:
        for block, text in ((CALLS, "1 {'items': []}\n"), (ERRORS, "bounds 409 False 1\n")):
            self.assertEqual(self.run_block(block).wait(60), 0)
            self.assertEqual(self.text(), text)

    def test_stream(self) -> None:
        self.client.create_chat({"creator": "alice", "members": ["bob"], "message": "hello"})
        self.run_block(STREAM)
        until(lambda: self.text() == "alice hello\n", "a message")

    def test_worker(self) -> None:
        id = self.client.post_job("emails", {"type": "welcome", "payload": {"to": "bob"}})["id"]
        program = self.run_block(WORKER)
        until(lambda: self.client.get_job(id)["state"] == "done", "a job")
        program.send_signal(signal.SIGTERM)
        self.assertEqual(program.wait(60), 0)
        self.assertRegex(self.text(), r"^welcome \{'to': 'bob'\} 1 \d+\n$")
