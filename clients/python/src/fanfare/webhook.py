"""Checks that a request comes from a webhook of fanfare."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from typing import Any, Iterable, Mapping, Union

from .errors import FanfareError

TOLERANCE = 300
"""How far the time in a request may be from now, in seconds. An older one may be recorded and sent again."""


def verify_webhook(secrets: Union[str, Iterable[str]], headers: Mapping[str, str], body: Union[bytes, str]) -> dict[str, Any]:
    """Checks that one of the secrets has signed a request, and returns its body: webhook, facts and perhaps gap.

    Headers may be written in any case. The body is what arrived, byte for byte. While a secret is being replaced, give
    both. A request that is not signed by any of them, or is older or newer than TOLERANCE, raises a FanfareError.
    """
    found = {name.lower(): value for name, value in headers.items()}
    name, at = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
    if not name or not (at.isascii() and at.isdigit() and len(at) < 16):
        raise FanfareError("no request of this webhook: it has no webhook-id or webhook-timestamp")
    if abs(time.time() - int(at)) > TOLERANCE:
        raise FanfareError("no request of this webhook: its time is too far from now")
    raw = body.encode() if isinstance(body, str) else body
    signed = False
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        want = "v1," + base64.b64encode(hmac.new(_key(secret), f"{name}.{at}.".encode() + raw, hashlib.sha256).digest()).decode()
        for one in found.get("webhook-signature", "").split():
            signed = hmac.compare_digest(one.encode(), want.encode()) or signed
    if not signed:
        raise FanfareError("no request of this webhook: none of its signatures is by a secret")
    batch: dict[str, Any] = json.loads(raw)
    return batch


def _key(secret: str) -> bytes:
    text = secret[len("whsec_"):] if secret.startswith("whsec_") else secret
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("a webhook's secret is whsec_ and base64")
    return key
