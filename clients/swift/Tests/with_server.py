"""Runs a command with a real server: FANFARE_URL and FANFARE_KEY, the same over a proxy that loses each second answer
(FANFARE_LOSSY), and over one whose connections fall silent after a second at most (FANFARE_SILENT)."""

import itertools
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/test"))
from support import KEY, Proxy, Server, with_key  # noqa: E402


class WithServer(unittest.TestCase):
    def test_the_command_succeeds(self) -> None:
        server = Server(self, **with_key(self))
        proxy, turn = Proxy(self, server.url), itertools.count()
        proxy.loses = lambda: next(turn) % 2 == 0
        silent, ended = Proxy(self, server.url), threading.Event()

        def freeze() -> None:
            while not ended.wait(1):
                silent.freeze()

        threading.Thread(target=freeze, daemon=True).start()
        self.addCleanup(ended.set)
        env = {**os.environ, "FANFARE_URL": server.url, "FANFARE_KEY": KEY, "FANFARE_LOSSY": proxy.url, "FANFARE_SILENT": silent.url}
        self.assertEqual(subprocess.run(COMMAND, env=env).returncode, 0)


if __name__ == "__main__":
    COMMAND = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
