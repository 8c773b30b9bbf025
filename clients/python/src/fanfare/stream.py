"""Streams that go on where they were cut."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional

from .errors import Disconnected, FanfareError, Problem, is_passing
from .sse import EventParser
from .transport import Transport

if TYPE_CHECKING:
    from .caller import Caller

_OPEN_WITHIN, _LONGEST_PAUSE = 10.0, 30.0


@dataclass(frozen=True)
class Event:
    """An event of a stream."""

    event: str
    """Its name, such as "message" or "gap"."""
    data: Any
    """Its JSON."""
    id: str
    """Hand it to last_event_id to go on after this event, also in another process."""


class Stream:
    """The events of a stream, over all its connections. One thread reads it; any thread may close it."""

    def __init__(
        self,
        caller: Caller,
        transport: Transport,
        target: str,
        last_event_id: str,
        silence: float,
        on_open: Optional[Callable[[], None]],
        on_cut: Optional[Callable[[FanfareError], None]],
    ) -> None:
        self._caller, self._transport, self._target = caller, transport, target
        self._id, self._silence = last_event_id, silence
        self._on_open, self._on_cut = on_open or (lambda: None), on_cut or (lambda why: None)
        self._closed = threading.Event()
        self._sock: Optional[socket.socket] = None
        self._token: Optional[str] = None
        self._events = self._follow()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """Waits for the next event. Raises Problem if the server refuses the stream for good."""
        return next(self._events)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], err: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream: the thread that waits for an event gets StopIteration."""
        self._closed.set()
        sock = self._sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already

    def _follow(self) -> Iterator[Event]:
        retry, vain, renewed = 1.0, 0, False
        while not self._closed.is_set():
            parser, wait = EventParser(self._id), 0.0
            try:
                for piece in self._connection():
                    vain, renewed = 0, False
                    yield from self._take(parser, piece)
                    self._id = parser.id
                cut: FanfareError = Disconnected("the stream ended", False)
            except (FanfareError, OSError, http.client.HTTPException, ValueError) as err:
                if self._closed.is_set():
                    return
                cut = _as_error(err)
                refused = isinstance(cut, Problem) and cut.status == 401 and not renewed
                if refused and self._caller.forget(self._token):
                    renewed = True
                elif not isinstance(cut, _Bye) and not (isinstance(cut, (Problem, Disconnected)) and is_passing(cut)):
                    raise cut from err
                wait = (cut.retry_after or 0.0) if isinstance(cut, Problem) else 0.0
            if self._closed.is_set():
                return
            self._on_cut(cut)
            retry = retry if parser.retry is None else parser.retry
            # The server chose its first pause at random. The next ones grow, and are random again.
            growing = min(_LONGEST_PAUSE, retry * 2 ** min(vain, 10)) * random.uniform(0.5, 1) if vain else retry
            if not renewed:
                self._closed.wait(wait + growing)
            vain += 1

    def _take(self, parser: EventParser, piece: bytes) -> Iterator[Event]:
        for event, data, id in parser.push(piece):
            if event == "bye":
                self._caller.forget(self._token)
                raise _Bye(f"the stream ended: {data}")
            yield Event(event, json.loads(data), id)
            self._id = id

    def _connection(self) -> Iterator[bytes]:
        """Opens the stream and gives what comes, piece by piece."""
        headers = {"Accept": "text/event-stream"}
        if self._id:
            headers["Last-Event-ID"] = self._id
        try:
            self._token = self._caller.authorize(headers)
        except FanfareError:
            raise
        except Exception as err:
            raise Disconnected(f"no user token: {err!r}", False) from err
        connection = self._transport.connect(_OPEN_WITHIN)
        try:
            sock = self._sock = connection.sock
            connection.request("GET", self._transport.path(self._target), headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                raise Problem(response.status, response.headers, response.read())
            self._on_open()
            sock.settimeout(self._silence)
            while not self._closed.is_set():
                piece = response.read1(1 << 16)
                if not piece:
                    return
                yield piece
        finally:
            self._sock = None
            connection.close()


class _Bye(FanfareError):
    """The token of the stream has ended."""


def _as_error(err: Exception) -> FanfareError:
    if isinstance(err, FanfareError):
        return err
    why = "was silent for too long" if isinstance(err, (TimeoutError, socket.timeout)) else f"was cut: {err!r}"
    return Disconnected(f"the stream {why}", False)
