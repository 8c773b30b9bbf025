"""Server-sent events as they come over the wire."""

from __future__ import annotations

import codecs
import re
from typing import Iterator, Optional

_LINE = re.compile(r"\r\n|\n|\r(?!$)")


class EventParser:
    """Reads events from bytes that come in pieces."""

    def __init__(self, id: str = "") -> None:
        """id is the one after which the stream was opened."""
        self.id = id
        """The id of the last whole event."""
        self.retry: Optional[float] = None
        """How many seconds after its end the stream may be opened again, if the server said so."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest, self._event, self._id = "", "", id
        self._data: list[str] = []

    def push(self, piece: bytes) -> Iterator[tuple[str, str, str]]:
        """Takes a piece and gives the events that are whole now: name, data and id."""
        *lines, self._rest = _LINE.split(self._rest + self._decoder.decode(piece))
        for line in lines:
            if line:
                self._field(line)
                continue
            event, data = self._event or "message", self._data
            self._event, self._data, self.id = "", [], self._id
            if data:
                yield event, "\n".join(data), self.id

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isdigit():
            self.retry = int(value) / 1000
