"""Calls against real servers, over a proxy that loses answers."""

import http.server
import json
import os
import re
import socket
import threading
import time
import unittest
from typing import Any, Callable, List, Tuple

from fanfare import Client, Disconnected, FanfareError, Problem
from fanfare.transport import Answer
from support import KEY, Proxy, Server, with_key

with open(os.environ["FANFARE_OPENAPI"]) as file:
    PATHS = json.load(file)["paths"]
WINDOW = {"starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"}


class Recorder(Client):
    """A client whose calls go nowhere."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.calls: List[Tuple[str, str, Any]] = []
        self._transport.request = self.record  # type: ignore[method-assign]

    def record(self, method: str, target: str, headers: Any, body: Any, within: float) -> Answer:
        self.calls.append((method, target, headers))
        return Answer(200, {}, b"{}")


def answering(test: unittest.TestCase, answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> str:
    """A server that answers POSTs as a test wants."""
    handler = type("Handler", (http.server.BaseHTTPRequestHandler,), {"do_POST": answer, "log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return f"http://127.0.0.1:{server.server_address[1]}"


class Contract(unittest.TestCase):
    def test_each_method_makes_the_call_of_its_name(self) -> None:
        client, found = Recorder(), 0
        for path, operations in PATHS.items():
            for method, operation in operations.items():
                name = re.sub(r"(?<!^)([A-Z])", lambda m: "_" + m[1].lower(), operation["operationId"])
                own = getattr(client, name, None)
                if own is None or name == "call":
                    continue
                found += 1
                params = [f"the-{one}" for one in re.findall(r"\{(\w+)\}", path)]
                want = re.sub(r"\{(\w+)\}", r"the-\1", path)
                if name.startswith("stream_"):
                    self.assertEqual(own(*params)._target, want)
                    continue
                needs_body = own.__func__.__code__.co_argcount - 1 > len(params) and name not in ("get_value", "get_pending_messages")
                own(*params, *([{"x": 1}] if needs_body else []))
                self.assertEqual(client.calls[-1][:2], (method.upper(), want + ("?x=1" if name == "list_messages" else "")), name)
        self.assertEqual(found, len([name for name in vars(Client) if not name.startswith("_")]))

    def test_a_post_has_a_new_key_exactly_where_the_contract_takes_one(self) -> None:
        client, seen = Recorder(), set()
        for path, operations in PATHS.items():
            if "post" in operations:
                client.call("POST", re.sub(r"\{\w+\}", "x", path), {})
                key = client.calls[-1][2].get("Idempotency-Key")
                self.assertEqual(key is not None, "Idempotency-Key" in json.dumps(operations["post"].get("parameters", [])), path)
                self.assertNotIn(key or path, seen)
                seen.add(key)
        self.assertGreater(len(seen), 30)

    def test_parameters_are_escaped_and_those_that_change_a_path_are_refused(self) -> None:
        client = Recorder()
        client.call("GET", "/v1/jobs/{id}", params={"id": "a/b?c"}, query={"x": "1&2", "y": None, "z": True})
        self.assertEqual(client.calls[0][1], "/v1/jobs/a%2Fb%3Fc?x=1%262&z=true")
        for id in ("", ".", ".."):
            self.assertRaises(ValueError, client.get_job, id)
        self.assertEqual(len(client.calls), 1)


class Calls(unittest.TestCase):
    def test_lost_answers_change_nothing(self) -> None:
        proxy = Proxy(self, Server(self).url)
        client, turns = Client(proxy.url, attempts=20), iter(range(10**6))
        chat = client.create_chat({"creator": "alice", "members": ["bob"]})["id"]
        client.put_counter("c", {"value": 0})
        proxy.loses = lambda: next(turns) % 2 == 0
        for i in range(1, 9):
            self.assertEqual(client.post_message(chat, {"sender": "alice", "text": str(i)})["id"], i)
            self.assertEqual(client.add_to_counter("c", {"delta": 1})["value"], i)
            client.post_job("q", {"type": "t", "payload": i})
        proxy.loses = lambda: False
        self.assertGreaterEqual(proxy.lost, 16)
        items = client.list_messages(chat, {"user": "bob", "after": 0})["items"]
        self.assertEqual([m["text"] for m in items], [str(i) for i in range(1, 9)])
        self.assertEqual(client.get_counter("c")["value"], 8)
        self.assertEqual(client.call("GET", "/v1/queues/q")["depth"], 8)

    def test_what_must_not_be_repeated_blindly_is_not(self) -> None:
        proxy = Proxy(self, Server(self, **with_key(self)).url)
        client = Client(proxy.url, key=KEY)
        version = client.put_value("v", {"value": 1})["version"]
        proxy.loses = lambda: True
        for call in (
            lambda: client.post_token("bob", {"scopes": ["chat"]}),
            lambda: client.put_value("v", {"value": 2}, headers={"If-Match": f'"{version}"'}),
        ):
            before = proxy.lost
            with self.assertRaises(Disconnected) as caught:
                call()
            self.assertTrue(caught.exception.may_have_happened)
            self.assertEqual(proxy.lost - before, 1)
        proxy.loses = lambda: False
        self.assertEqual(client.get_value("v")["value"], 2)

    def test_a_refusal_is_a_problem_and_is_not_repeated(self) -> None:
        client = Client(Server(self).url, attempts=10**6, timeout=10)
        with self.assertRaises(Problem) as caught:
            client.put_sale("s", {"items": [], **WINDOW})
        bad = caught.exception
        self.assertIsInstance(bad, FanfareError)
        self.assertEqual((bad.status, bad.code, bad.retryable, bad.errors[0]["field"]), (422, "validation_failed", False, "items"))
        self.assertRegex(bad.request_id, r"^[\w.-]+$")
        client.put_sale("s", {"items": [{"sku": "a", "stock": 1}], **WINDOW})
        held = client.post_reservation("s", {"user": "alice", "lines": [{"sku": "a", "quantity": 1}]})
        began = time.monotonic()
        with self.assertRaises(Problem) as caught:
            client.post_reservation("s", {"user": "bob", "lines": [{"sku": "a", "quantity": 1}]})
        self.assertLess(time.monotonic() - began, 5)  # repeats would go on for 10 s
        sold_out = caught.exception
        self.assertEqual((sold_out.code, sold_out.retryable, sold_out.facts["available"]), ("sold_out", True, {"a": 0}))
        self.assertEqual(client.confirm_reservation("s", held["id"])["state"], "sold")
        client.acquire_lock("l")
        with self.assertRaises(Problem) as caught:
            client.acquire_lock("l")
        self.assertGreater(caught.exception.retry_after or 0, 20)

    def test_live_activities_and_broadcasts(self) -> None:
        client, token = Client(Server(self).url), "a7" * 32
        app = {"topic": "com.example.app", "environment": "sandbox"}
        made = client.put_activity("bob", token, {**app, "platform": "apns", "kind": "update", "object": "match:7"})
        self.assertEqual(client.list_activities("bob")["items"], [made])
        channel = client.put_broadcast("match:7", {**app, "keep": "none", "ends_at": "2099-01-01T00:00:00Z"})
        self.assertEqual(channel["state"], "open")
        self.assertEqual(client.get_broadcast("match:7")["channel"], channel["channel"])
        self.assertEqual([b["object"] for b in client.list_broadcasts(query={"limit": 10})["items"]], ["match:7"])
        live = {"action": "update", "content_state": {"home": 1}}
        client.post_event({"type": "match", "audience": {"activities_of": "match:7"}, "live": live})
        found = client.get_live_object("match:7")
        self.assertEqual((found["activities"], found["broadcast"]["channel"]), ({"apns": 1}, channel["channel"]))
        client.delete_activity("bob", token, query={"object": "match:8"})
        self.assertEqual(len(client.list_activities("bob")["items"]), 1)
        client.delete_activity("bob", token)
        client.delete_broadcast("match:7")
        self.assertEqual(client.get_live_object("match:7")["activities"], {})
        with self.assertRaises(Problem) as caught:
            client.get_broadcast("match:7")
        self.assertEqual(caught.exception.code, "not_found")

    def test_what_passes_is_repeated_after_retry_after_under_the_same_key(self) -> None:
        keys: List[Any] = []
        times: List[float] = []

        def answer(request: http.server.BaseHTTPRequestHandler) -> None:
            keys.append(request.headers["Idempotency-Key"])
            times.append(time.monotonic())
            body = b'{"id": "e"}' if len(keys) > 2 else b'{"code": "overloaded", "retryable": true, "detail": "busy"}'
            request.send_response(202 if len(keys) > 2 else 503)
            request.send_header("Content-Type", "application/problem+json")
            request.send_header("Retry-After", "1")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)

        client = Client(answering(self, answer))
        self.assertEqual(client.post_event({"type": "t"}), {"id": "e"})
        self.assertEqual(len(set(keys)), 1)
        self.assertGreaterEqual(min(times[1] - times[0], times[2] - times[1]), 1)
        keys.clear()
        with self.assertRaises(Problem) as caught:
            client.post_event({"type": "t"}, timeout=0.9)
        self.assertEqual((caught.exception.code, caught.exception.retry_after), ("overloaded", 1))
        self.assertEqual(len(keys), 1)  # there is no time for another one

    def test_a_call_ends_in_time(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
        self.addCleanup(listener.close)
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}", attempt_timeout=0.05, attempts=3)
        with self.assertRaises(Disconnected) as caught:
            client.get_sale("s")
        self.assertIn("in time", str(caught.exception))
        self.assertTrue(caught.exception.may_have_happened)

    def test_a_server_that_is_not_there_has_done_nothing(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        with self.assertRaises(Disconnected) as caught:
            Client(f"http://127.0.0.1:{port}", attempts=2).post_token("bob", {"scopes": ["chat"]})
        self.assertFalse(caught.exception.may_have_happened)

    def test_a_connection_that_the_server_has_closed_is_not_used_again(self) -> None:
        server = Server(self, **with_key(self))
        client = Client(server.url, key=KEY, attempts=1)
        client.post_token("bob", {"scopes": ["chat"]})
        server.crash()
        client.post_token("bob", {"scopes": ["chat"]})

    def test_the_last_answer_of_a_connection_counts(self) -> None:
        bodies, asked = [b'{"id":"e"}', json.dumps({"id": "e" * 200_000}).encode()], []

        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.rfile.read(int(handler.headers["Content-Length"]))
            body = bodies[len(asked) % len(bodies)]
            asked.append(body)
            handler.send_response(202)
            handler.send_header("Connection", "close")
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        client = Client(answering(self, answer), attempts=1)
        for body in bodies:
            self.assertEqual(client.post_event({"type": "t"}), json.loads(body))
        self.assertEqual(len(asked), len(bodies))

    def test_a_token_that_has_ended_is_renewed_once(self) -> None:
        server = Server(self, **with_key(self))
        backend, made = Client(server.url, key=KEY), []

        def token() -> str:
            made.append(1)
            return "ended" if len(made) == 1 else str(backend.post_token("bob", {"scopes": ["chat"]})["token"])

        app = Client(server.url, token=token)
        self.assertEqual(app.get_pending_messages("bob"), {"chats": []})
        self.assertEqual(len(made), 2)
        with self.assertRaises(Problem) as caught:
            app.get_pending_messages("alice")
        self.assertEqual(caught.exception.code, "forbidden")
        with self.assertRaises(Problem) as caught:
            Client(server.url, token=lambda: made.append(1) or "wrong").get_pending_messages("bob")
        self.assertEqual((caught.exception.status, len(made)), (401, 4))
        self.assertRaisesRegex(FanfareError, "no user token", Client(server.url, token=lambda: None).get_pending_messages, "bob")
