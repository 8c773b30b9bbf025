"""Connections to a server, which are kept and used again."""

from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
import time
from typing import Mapping, Optional, Union
from urllib.parse import urlsplit

from .errors import Disconnected


class Transport:
    """The connections to one server. Threads share it."""

    def __init__(self, url: str, context: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not the address of a server, such as https://fanfare.internal")
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._process = os.getpid()

    def request(self, method: str, target: str, headers: Mapping[str, str], body: Optional[bytes], within: float) -> Answer:
        """Sends a request and reads the whole answer within some seconds. Raises Disconnected."""
        end = time.monotonic() + within
        connection, sent = self._take(), False
        try:
            if connection is None:
                connection = self.connect(within)
            sent = True
            _wait_at_most(connection.sock, end)
            connection.request(method, self._prefix + target, body, dict(headers))
            _wait_at_most(connection.sock, end)
            sock, response = connection.sock, connection.getresponse()
            parts = []
            while not response.isclosed():  # a closed response has also closed the socket of an answer with Connection: close
                _wait_at_most(sock, end)
                part = response.read1(1 << 16)
                if not part:
                    break
                parts.append(part)
            if response.length:
                raise http.client.IncompleteRead(b"".join(parts), response.length)
            response.close()  # else the connection takes no other request
        except (OSError, http.client.HTTPException) as err:
            if connection is not None:
                connection.close()
            why = "no answer in time" if isinstance(err, (TimeoutError, socket.timeout)) else "no answer"
            raise Disconnected(f"{method} {target}: {why}: {err!r}", sent) from err
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self._give(connection)
        return Answer(response.status, response.headers, b"".join(parts))

    def connect(self, within: float) -> http.client.HTTPConnection:
        """Opens a connection of the caller's own."""
        connection: Union[http.client.HTTPConnection, http.client.HTTPSConnection]
        if self._context is not None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=within, context=self._context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=within)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def path(self, target: str) -> str:
        """The path of a target at the server."""
        return self._prefix + target

    def _take(self) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            if self._process != os.getpid():  # a fork shares connections, which two processes cannot use
                self._idle, self._process = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if connection.sock is not None and not _is_readable(connection.sock):
                    return connection
                connection.close()  # the server has closed it
        return None

    def _give(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()


class Answer:
    """A whole answer."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


_MOST_IDLE = 32


def _wait_at_most(sock: socket.socket, end: float) -> None:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time is over")
    sock.settimeout(left)


def _is_readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])
