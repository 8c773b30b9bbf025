"""What can go wrong with a call or a stream."""

from __future__ import annotations

import email.utils
import json
import time
from typing import Any, Mapping, Optional, Union


class FanfareError(Exception):
    """What went wrong with a call or a stream: a Problem, or Disconnected."""


class Problem(FanfareError):
    """An answer that is a refusal: the problem document of the server (RFC 9457), or an error of a proxy in between."""

    status: int
    """The HTTP status."""
    code: str
    """What programs branch on, such as "sold_out"; "" if the answer came from a proxy."""
    detail: str
    """A sentence for people."""
    errors: list[dict[str, Any]]
    """The fields that break a rule (validation_failed): field, rule and message."""
    retryable: bool
    """Whether the same call, unchanged, may succeed later."""
    request_id: str
    """Names the request in the server's log."""
    retry_after: Optional[float]
    """How long to wait before the call is repeated, in seconds."""
    facts: dict[str, Any]
    """The whole document, with facts such as available, value or version."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        facts = _parse(body, headers.get("Content-Type") or "")
        self.status = status
        self.code = facts.get("code", "")
        self.detail = facts.get("detail") or body[:200].decode(errors="replace")
        self.errors = facts.get("errors", [])
        self.retryable = facts.get("retryable") is True if self.code else status in (429, 502, 503, 504)
        self.request_id = facts.get("request_id") or headers.get("X-Request-Id") or ""
        self.retry_after = _wait(facts.get("retry_after_ms"), headers.get("Retry-After"))
        self.facts = facts
        super().__init__(f"{status} {self.code or 'without a code'}: {self.detail}")


class Disconnected(FanfareError):
    """There was no answer: the connection failed or broke, or the time was over. __cause__ is the reason."""

    may_have_happened: bool
    """False: the request certainly had no effect. True: it may have had one."""

    def __init__(self, message: str, may_have_happened: bool) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


def may_have_happened(problem: Union[Problem, Disconnected]) -> bool:
    """Tells whether a refused or unanswered call may have had an effect."""
    if isinstance(problem, Disconnected):
        return problem.may_have_happened
    return problem.status >= 500 and problem.code in ("", "unknown_outcome", "internal")


def is_passing(problem: Union[Problem, Disconnected]) -> bool:
    """Tells whether waiting a moment may help.

    A 409 is not among these errors, though some are retryable: "sold_out" or "lock_held" is what the caller wanted to
    know, and when to ask again is the caller's choice.
    """
    return isinstance(problem, Disconnected) or (problem.retryable and problem.status != 409)


def _parse(body: bytes, kind: str) -> dict[str, Any]:
    try:
        facts = json.loads(body) if "json" in kind else {}
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _wait(ms: Any, header: Optional[str]) -> Optional[float]:
    if isinstance(ms, (int, float)):
        return ms / 1000
    if not header:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
