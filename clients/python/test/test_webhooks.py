"""Requests of webhooks, with the example that Standard Webhooks publishes."""

import time
import unittest
from typing import Any, Dict
from unittest import mock

from fanfare import FanfareError, verify_webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
SECOND = 1614265330
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
WRONG = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="


def headers(**changes: str) -> Dict[str, str]:
    own = {"id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "timestamp": str(SECOND), "signature": SIGNATURE, **changes}
    return {f"Webhook-{name.title()}": value for name, value in own.items()}


def verify(secrets: Any = SECRET, body: Any = BODY, off: float = 0, **changes: str) -> Dict[str, Any]:
    with mock.patch.object(time, "time", lambda: SECOND + off):
        return verify_webhook(secrets, headers(**changes), body)


class Webhooks(unittest.TestCase):
    def test_what_is_signed(self) -> None:
        for case in (
            {}, {"secrets": SECRET[6:]}, {"secrets": ["whsec_AAAA", SECRET]}, {"body": BODY.decode()}, {"off": 300}, {"off": -300},
            {"signature": f"{WRONG} v2,x {SIGNATURE} {WRONG}"},
        ):
            with self.subTest(case):
                self.assertEqual(verify(**case), {"test": 2432232314})  # type: ignore[arg-type]

    def test_what_is_not(self) -> None:
        for case in (
            {"off": 301}, {"off": -301}, {"body": BODY + b" "}, {"secrets": "whsec_AAAA"}, {"secrets": []}, {"signature": WRONG}, {"signature": ""},
            {"signature": "v1,"}, {"signature": "v2" + SIGNATURE[2:]}, {"signature": "v1,ä"}, {"id": "msg_x"}, {"id": ""}, {"timestamp": ""},
            {"timestamp": "1614265330.0"}, {"timestamp": "²"}, {"timestamp": "1" * 5000},
        ):
            with self.subTest(case), self.assertRaises(FanfareError):
                verify(**case)  # type: ignore[arg-type]

    def test_a_request_of_2021(self) -> None:
        with self.assertRaises(FanfareError):
            verify_webhook(SECRET, headers(), BODY)

    def test_a_secret_that_is_none(self) -> None:
        for secret in ("whsec_?", "whsec_", ""):
            with self.subTest(secret), self.assertRaises(ValueError):
                verify(secrets=secret)
