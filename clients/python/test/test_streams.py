"""Streams of real servers, over cuts, silence and tokens that end."""

import threading
import unittest
from typing import Any, List, Optional

from fanfare import Client, FanfareError, Problem
from fanfare.sse import EventParser
from support import KEY, Proxy, Server, until, with_key


class Parser(unittest.TestCase):
    def test_events_are_read_from_pieces_of_any_size(self) -> None:
        text = (
            ': hello\n\nretry: 1500\r\n\r\nid: 7\nevent: message\ndata: {"a":\ndata: 1}\n\nid: 8\n\rdata:ü\r\rdata\n\n: beat\n\nid: 9\n\ndata: late'
        ).encode()
        want = [("message", '{"a":\n1}', "7"), ("message", "ü", "8"), ("message", "", "8")]
        for size in range(1, len(text) + 1):
            parser = EventParser()
            got = [event for at in range(0, len(text), size) for event in parser.push(text[at : at + size])]
            self.assertEqual((got, parser.id, parser.retry), (want, "9", 1.5), f"pieces of {size}")


class Streams(unittest.TestCase):
    def test_a_stream_begins_resumes_after_an_id_and_is_closed(self) -> None:
        client = Client(Server(self).url)
        client.create_chat({"id": "team", "creator": "alice", "members": ["bob"], "message": "one"})
        client.post_message("team", {"sender": "alice", "text": "two", "data": {"k": "v"}})
        with client.stream_messages("bob") as stream:
            first = next(stream)
        self.assertEqual((first.event, first.data["text"]), ("message", "one"))
        stream = client.stream_messages("bob", last_event_id=first.id)
        second = next(stream)
        self.assertEqual((second.data["text"], second.data["data"]), ("two", {"k": "v"}))
        threading.Timer(0.1, stream.close).start()
        self.assertEqual(list(stream), [])

    def test_a_gap_is_told(self) -> None:
        client = Client(Server(self, FANFARE_CHAT_MAX_MESSAGES="2").url)
        client.create_chat({"id": "team", "creator": "alice", "members": ["bob"]})
        for i in range(5):
            client.post_message("team", {"sender": "alice", "text": str(i)})
        with client.stream_messages("bob") as stream:
            gap, *messages = (next(stream) for _ in range(3))
        self.assertEqual((gap.event, gap.data["first_id"]), ("gap", 4))
        self.assertEqual([m.data["text"] for m in messages], ["3", "4"])

    def test_a_stream_that_falls_silent_is_opened_again(self) -> None:
        server = Server(self)
        proxy, client = Proxy(self, server.url), Client(server.url)
        client.create_chat({"id": "team", "creator": "alice", "members": ["bob"], "message": "0"})
        cuts: List[FanfareError] = []
        seen: List[str] = []
        with Client(proxy.url).stream_messages("bob", silence=1, on_cut=cuts.append) as stream:
            for event in stream:
                seen.append(event.data["text"])
                if len(seen) == 3:
                    break
                proxy.freeze()
                client.post_message("team", {"sender": "alice", "text": str(len(seen))})
        self.assertEqual(seen, ["0", "1", "2"])
        self.assertTrue(len(cuts) >= 2 and all("silent" in str(why) for why in cuts), cuts)

    def test_a_stream_outlives_its_token_and_ends_if_there_is_no_other(self) -> None:
        server = Server(self, **with_key(self))
        backend = Client(server.url, key=KEY)
        backend.create_chat({"id": "team", "creator": "alice", "members": ["bob"], "message": "0"})
        made: List[str] = []

        def token() -> Optional[str]:
            if len(made) == 2:
                return None
            made.append(backend.post_token("bob", {"scopes": ["chat"], "ttl_seconds": 2})["token"])
            return made[-1]

        seen: List[str] = []
        cuts: List[str] = []
        ended: List[Any] = []

        def follow() -> None:
            try:
                for event in Client(server.url, token=token).stream_messages("bob", on_cut=lambda why: cuts.append(str(why))):
                    seen.append(event.data["text"])
            except FanfareError as err:
                ended.append(err)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        until(lambda: len(made) == 2, "another token")
        backend.post_message("team", {"sender": "alice", "text": "1"})
        thread.join(60)
        self.assertRegex(str(ended), "no user token")
        self.assertEqual(seen, ["0", "1"])
        self.assertIn("expired", cuts[0])

    def test_a_stream_that_is_refused_for_good_ends_with_the_problem(self) -> None:
        with self.assertRaises(Problem) as caught:
            next(Client(Server(self, **with_key(self)).url, key="wrong").stream_sale("s"))
        self.assertEqual(caught.exception.status, 401)

    def test_the_stock_of_a_sale_is_followed(self) -> None:
        client, left = Client(Server(self).url), []
        client.put_sale("s", {"items": [{"sku": "a", "stock": 2}], "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"})
        with client.stream_sale("s") as stream:
            for event in stream:
                left.append(event.data["available"]["a"])
                if event.data["state"] == "sold_out":
                    break
                client.post_reservation("s", {"user": "alice", "lines": [{"sku": "a", "quantity": 1}]})
        self.assertEqual(left, [2, 1, 0])
