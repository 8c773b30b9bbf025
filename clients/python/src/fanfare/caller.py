"""Calls, which are repeated where that is safe."""

from __future__ import annotations

import json
import random
import re
import secrets
import ssl
import threading
import time
from typing import Any, Callable, Mapping, Optional, Union
from urllib.parse import quote, urlencode

from .errors import Disconnected, FanfareError, Problem, is_passing, may_have_happened
from .stream import Stream
from .transport import Answer, Transport

TokenSource = Callable[[], Optional[str]]
"""Gives a user token, a fresh one each time. It returns None if there is none any more: nobody is logged in."""

Values = Mapping[str, Union[str, int, bool, None]]

# The POSTs whose answer is a secret take no Idempotency-Key.
_SECRET = re.compile(r"/v1/(keys|users/[^/]+/(tokens|tickets)|webhooks/[^/]+/secrets)")


class Caller:
    """Makes calls, repeats them where that is safe, and follows streams. Threads share it."""

    def __init__(
        self,
        url: str,
        *,
        key: Optional[str] = None,
        token: Union[str, TokenSource, None] = None,
        attempts: float = 5,
        timeout: float = 60,
        attempt_timeout: float = 10,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        """Opens nothing yet.

        url: where the server is, such as "https://fanfare.internal"; a path in front of /v1 is possible.
        key: an API key. token: a user token, or a function that gets one; it is called first, and when its last token
        has ended. attempts: how often a call is tried. timeout: how many seconds a call may take with all its repeats.
        attempt_timeout: how many seconds one try may take, beside the wait_ms of a call that waits.
        """
        if key and token:
            raise ValueError("give a key or a token, not both")
        self._transport = Transport(url, ssl_context)
        self._fixed = key or (token if isinstance(token, str) else None)
        self._source = token if callable(token) else None
        self._token: Optional[str] = None
        self._token_lock = threading.Lock()
        self._attempts, self._timeout, self._attempt_timeout = attempts, timeout, attempt_timeout

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Optional[Mapping[str, Union[str, int]]] = None,
        query: Optional[Values] = None,
        headers: Optional[Mapping[str, str]] = None,
        idempotency_key: Optional[str] = None,
        timeout: Optional[float] = None,
        attempts: Optional[float] = None,
    ) -> Any:
        """Makes a call and returns its JSON, or None for an answer without a body.

        params are the values of {name} in the path; they are escaped. What is None in the query is left out. A POST gets
        a new Idempotency-Key, the same for its repeats, unless there is one.

        The call is repeated after a Disconnected and after a problem that may pass, such as "overloaded", with an
        exponential backoff and at least Retry-After in between. A call that may have had an effect is repeated only if
        that does no harm: all but a POST without an Idempotency-Key and a PUT, PATCH or DELETE with a condition.

        Raises Problem if the server refuses it, and Disconnected if there was no answer.
        """
        request = _Request(method, path, body, params, query, headers, idempotency_key)
        end = time.monotonic() + (self._timeout if timeout is None else timeout) + request.wait
        tries, renewed = 0, False
        while True:
            try:
                return self._try(request, end)
            except (Problem, Disconnected) as err:
                if isinstance(err, Problem) and err.status == 401 and not renewed and self.forget(request.token):
                    renewed = True
                    continue
                pause = backoff(tries, err.retry_after if isinstance(err, Problem) else None)
                tries += 1
                late = tries >= (self._attempts if attempts is None else attempts) or time.monotonic() + pause >= end
                if late or not is_passing(err) or (may_have_happened(err) and not request.repeatable):
                    raise
            time.sleep(pause)

    def stream(
        self,
        path: str,
        *,
        params: Optional[Mapping[str, Union[str, int]]] = None,
        query: Optional[Values] = None,
        last_event_id: str = "",
        silence: float = 40,
        on_open: Optional[Callable[[], None]] = None,
        on_cut: Optional[Callable[[FanfareError], None]] = None,
    ) -> Stream:
        """Follows a stream of server-sent events until it is closed.

        A stream that was cut, or that is silent for longer than silence seconds (the server sends something every 15), is
        opened again exactly where it left off. So each event comes once, and what the server no longer keeps is told by an
        event "gap". last_event_id is the id of the last event that was seen before. on_open is told that the stream is
        open, and on_cut why it was cut or could not be opened.
        """
        target = fill(path, params) + search(query)
        return Stream(self, self._transport, target, last_event_id, silence, on_open, on_cut)

    def authorize(self, headers: dict[str, str]) -> Optional[str]:
        """Sets the header, and returns the token that a function gave."""
        token = self._fixed
        if self._source is not None:
            with self._token_lock:  # one call of the function for all threads
                if self._token is None:
                    self._token = self._source()
                token = self._token
            if token is None:
                raise FanfareError("there is no user token any more")
        if token:
            headers["Authorization"] = "Bearer " + token
        return token if self._source is not None else None

    def forget(self, token: Optional[str]) -> bool:
        """Drops a token that has ended, and says whether there may be another one."""
        if token is None:
            return False
        with self._token_lock:
            if self._token == token:
                self._token = None
        return True

    def _try(self, request: _Request, end: float) -> Any:
        headers = dict(request.headers)
        try:
            request.token = self.authorize(headers)
        except FanfareError:
            raise
        except Exception as err:
            raise Disconnected(f"no user token: {err!r}", False) from err
        within = min(self._attempt_timeout + request.wait, end - time.monotonic())
        answer = self._transport.request(request.method, request.target, headers, request.body, within)
        return _result(request, answer)


class _Request:
    """A call, as it is sent each time."""

    def __init__(
        self,
        method: str,
        path: str,
        body: Any,
        params: Optional[Mapping[str, Union[str, int]]],
        query: Optional[Values],
        headers: Optional[Mapping[str, str]],
        key: Optional[str],
    ) -> None:
        filled = fill(path, params)
        self.method, self.target = method, filled + search(query)
        self.headers = dict(headers or {})
        self.body = None if body is None else json.dumps(body).encode()
        if self.body is not None:
            self.headers["Content-Type"] = "application/json"
        elif method in ("POST", "PUT", "PATCH"):
            self.headers["Content-Length"] = "0"
        if key is not None:
            self.headers["Idempotency-Key"] = key
        names = {name.lower() for name in self.headers}
        if method == "POST" and "idempotency-key" not in names and not _SECRET.fullmatch(filled):
            self.headers["Idempotency-Key"] = secrets.token_hex(16)
        conditional = method != "GET" and not names.isdisjoint({"if-match", "if-none-match"})
        has_key = "idempotency-key" in names or "Idempotency-Key" in self.headers
        self.repeatable = has_key if method == "POST" else not conditional
        self.wait = (_wait_of(body) or _wait_of(query)) / 1000
        self.token: Optional[str] = None


def _result(request: _Request, answer: Answer) -> Any:
    if not 200 <= answer.status < 300 and answer.status != 304:
        raise Problem(answer.status, answer.headers, answer.body)
    if not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except ValueError as err:
        raise FanfareError(f"{request.method} {request.target}: the answer is not JSON: {answer.body[:200]!r}") from err


def fill(path: str, params: Optional[Mapping[str, Union[str, int]]]) -> str:
    """Puts the parameters into a path."""

    def value(match: re.Match[str]) -> str:
        given = str((params or {}).get(match[1], ""))
        if given in ("", ".", ".."):
            raise ValueError(f"{path}: {match[1]} can't be {given!r}")
        return quote(given, safe="")

    return re.sub(r"\{(\w+)\}", value, path)


def search(query: Optional[Values]) -> str:
    """Makes the query of a path."""
    text = {name: str(value).lower() if isinstance(value, bool) else value for name, value in (query or {}).items() if value is not None}
    return "?" + urlencode(text) if text else ""


def backoff(n: int, retry_after: Optional[float] = None) -> float:
    """Seconds before repetition n (0, 1, 2 ...): exponential, with full jitter, on top of what the server asks for."""
    return (retry_after or 0) + random.uniform(0, min(10, 0.5 * 2 ** min(n, 10)))


def _wait_of(source: Any) -> float:
    wait = source.get("wait_ms") if isinstance(source, Mapping) else None
    return wait if isinstance(wait, (int, float)) else 0
