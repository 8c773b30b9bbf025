"""Real servers for tests, and a proxy that loses answers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from typing import Any, Callable, Optional

PROGRAM = os.environ.get("FANFARE_PROGRAM", "")


def until(condition: Callable[[], Any], what: str = "the condition") -> None:
    """Waits until something is true, for a minute at most."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not come true in a minute")
        time.sleep(0.02)


class Server:
    """A server on one port and in one folder, so that it can be killed and started again."""

    def __init__(self, test: unittest.TestCase, **env: str) -> None:
        """Starts a server that ends with the test. Its Redis is in memory unless the variables say otherwise."""
        self.url = ""
        self._folder, self._env = tempfile.mkdtemp(prefix="fanfare-py-"), env
        self._process: Optional[subprocess.Popen[bytes]] = None
        test.addCleanup(shutil.rmtree, self._folder, True)
        test.addCleanup(self.end, signal.SIGTERM)
        self.start()

    def start(self) -> None:
        name = os.path.join(self._folder, "log")
        env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", ""), "FANFARE_EMBEDDED": "memory"}
        env["FANFARE_ADDR"] = self.url[len("http://") :] or "127.0.0.1:0"
        with open(name, "wb") as log:  # only the log of this start
            process = self._process = subprocess.Popen([PROGRAM], cwd=self._folder, env={**env, **self._env}, stdout=log, stderr=log)

        def answers() -> bool:
            with open(name) as log:
                text = log.read()
            if process.poll() is not None:
                raise AssertionError(text)
            found = re.search(r'"docs":"(http://[0-9.:]+)/docs/"', text)
            self.url = found[1] if found else self.url
            try:
                return bool(self.url) and urllib.request.urlopen(self.url + "/readyz", timeout=5).status == 200
            except OSError:
                return False

        until(answers, "a server")

    def end(self, signum: int = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signum)
            process.wait()

    def crash(self) -> None:
        """Kills it and starts it on the same data."""
        self.end()
        self.start()


KEY = f"ff_{'k' * 26}_{'s' * 52}"


def with_key(test: unittest.TestCase) -> dict[str, str]:
    """The variables of a server that has KEY, which has all scopes."""
    folder = tempfile.mkdtemp(prefix="fanfare-py-key-")
    test.addCleanup(shutil.rmtree, folder, True)
    with open(os.path.join(folder, "key"), "w") as file:
        file.write(KEY)
    return {"FANFARE_ADMIN_KEY_FILE": file.name}


class Proxy:
    """A proxy that can lose answers, and fall silent."""

    def __init__(self, test: unittest.TestCase, target: str) -> None:
        self._target = ("127.0.0.1", int(target.rpartition(":")[2]))
        self.loses: Callable[[], bool] = lambda: False
        """Whether the next answer is lost: its request has arrived, and the connection is cut in its place."""
        self.lost = 0
        self._frozen: set[socket.socket] = set()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        test.addCleanup(self.close)

    def freeze(self) -> None:
        """Passes nothing on any more over the connections that are open, without closing them."""
        self._frozen |= self._sockets

    def close(self) -> None:
        self._listener.close()
        for sock in list(self._sockets):
            _cut(sock)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            self._sockets |= {client, server}
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if source in self._frozen:
                    continue
                if answers and self.loses():
                    self.lost += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        _cut(source)
        _cut(sink)


def _cut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()
