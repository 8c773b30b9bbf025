"""Workers on real servers, over lost answers, ended leases and kill -9."""

import logging
import shutil
import threading
import time
import unittest
from typing import Any, Callable, Dict, List, Tuple

from fanfare import Client, Fail, Job, Problem, Release, Worker
from support import Proxy, Server, until, with_key

QUICK = {"FANFARE_RETRY_BASE": "1ms", "FANFARE_RETRY_MAX": "20ms"}
logging.getLogger("fanfare").addHandler(logging.NullHandler())  # what fails on purpose is not shown


class Workers(unittest.TestCase):
    def begin(self, client: Client, handler: Callable[[Job], object], **options: Any) -> Tuple[Worker, threading.Thread]:
        """Starts a worker, which ends with the test."""
        worker = Worker(client, "q", handler, **options)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 60)
        self.addCleanup(worker.stop)
        return worker, thread

    def all_done(self, client: Client, ids: List[str]) -> bool:
        return all(client.get_job(id)["state"] == "done" for id in ids)

    def enqueue(self, client: Client, *jobs: Dict[str, Any]) -> List[str]:
        return [item["id"] for item in client.post_job_batch("q", jobs)["items"]]

    def test_jobs_are_completed_failed_put_off_and_given_back(self) -> None:
        client = Client(Server(self, **QUICK).url)
        fine, fails, later, release = self.enqueue(
            client, {"type": "fine", "payload": {"n": 1}, "key": "k"}, {"type": "fails", "max_attempts": 2}, {"type": "later"}, {"type": "release"}
        )
        seen: List[Tuple[str, int]] = []
        fences: List[int] = []
        wrong: List[Any] = []

        def handler(job: Job) -> None:
            seen.append((job.type, job.attempt))
            fences.append(job.fence)
            if not job.held() or (job.type == "fine" and (job.payload, job.key, job.id) != ({"n": 1}, "k", fine)):
                wrong.append(vars(job))
            if job.type == "fails":
                raise RuntimeError("too bad")
            if job.type == "later" and job.attempt == 1:
                raise Fail("not yet", 1.5)
            if job.type == "release" and len([one for one in seen if one[0] == "release"]) == 1:
                raise Release(0.001)

        self.begin(client, handler)
        until(lambda: self.all_done(client, [fine, release]) and client.get_job(fails)["state"] == "dead")
        self.assertEqual(client.get_job(later)["state"], "scheduled")
        until(lambda: self.all_done(client, [later]))
        of = {kind: [attempt for one, attempt in seen if one == kind] for kind, _ in seen}
        self.assertEqual(of, {"fine": [1], "fails": [1, 2], "later": [1, 2], "release": [1, 1]})
        self.assertEqual(fences, sorted(set(fences)))
        letters = client.call("GET", "/v1/dead-letters", query={"kind": "job"})["items"]
        self.assertEqual([one["last_error"] for one in letters], ["RuntimeError('too bad')"])
        self.assertEqual(wrong, [])

    def test_a_long_job_keeps_its_lease_and_many_are_worked_on_at_once(self) -> None:
        client, lock, busy, most, attempts = Client(Server(self).url), threading.Lock(), [], [], []
        ids = self.enqueue(client, *[{"type": "t"}] * 6)

        def handler(job: Job) -> None:
            with lock:
                busy.append(job)
                most.append(len(busy))
            attempts.append((job.sleep(1.5), job.attempt))
            with lock:
                busy.remove(job)

        self.begin(client, handler, lease=0.6, concurrency=3)
        until(lambda: self.all_done(client, ids))
        self.assertEqual((max(most), attempts), (3, [(True, 1)] * 6))

    def test_a_handler_is_told_that_its_job_was_cancelled(self) -> None:
        client, told = Client(Server(self).url), []
        (id,) = self.enqueue(client, {"type": "t"})

        def handler(job: Job) -> None:
            client.cancel_job(id)
            told.append((job.sleep(20), job.held()))
            raise RuntimeError("cancelled")

        self.begin(client, handler, lease=0.9)
        until(lambda: told)
        self.assertEqual(told, [(False, False)])
        until(lambda: client.get_job(id)["state"] == "cancelled")  # the worker has still to say that it is over

    def test_a_handler_is_told_that_its_lease_is_over_and_another_worker_gets_the_job(self) -> None:
        server = Server(self)
        proxy, client, lost, attempts = Proxy(self, server.url), Client(server.url), [], []
        (id,) = self.enqueue(client, {"type": "t"})

        def handler(job: Job) -> None:
            proxy.loses = lambda: True
            began = time.monotonic()
            held = job.sleep(20)
            lost.append((held, time.monotonic() - began))
            proxy.loses = lambda: False
            raise RuntimeError("lost")

        first, thread = self.begin(Client(proxy.url, attempt_timeout=0.3), handler, lease=0.9)
        until(lambda: lost)
        first.stop()
        thread.join(60)
        self.assertFalse(lost[0][0])
        self.assertLess(lost[0][1], 5)
        self.begin(client, lambda job: attempts.append(job.attempt))
        until(lambda: self.all_done(client, [id]))
        self.assertEqual(len(attempts), 1)

    def test_stop_drains(self) -> None:
        client, begun = Client(Server(self).url), []
        ids = self.enqueue(client, *[{"type": "t"}] * 5)

        def handler(job: Job) -> None:
            begun.append(job.id)
            worker.stop()
            time.sleep(0.2)

        worker, thread = self.begin(client, handler, concurrency=2)
        thread.join(60)
        self.assertTrue(worker.stopping)
        states = [client.get_job(id)["state"] for id in ids]
        self.assertEqual((states.count("done"), states.count("queued")), (len(begun), 5 - len(begun)))

    def test_a_worker_whose_answers_are_lost_gets_each_job_once(self) -> None:
        server = Server(self)
        proxy, client, seen, turns = Proxy(self, server.url), Client(server.url), [], iter(range(10**6))
        ids = self.enqueue(client, *[{"type": "t"}] * 12)
        proxy.loses = lambda: next(turns) % 2 == 0
        worker, thread = self.begin(Client(proxy.url), lambda job: seen.append((job.id, job.attempt)), concurrency=4)
        until(lambda: self.all_done(client, ids))
        proxy.loses = lambda: False
        worker.stop()
        thread.join(60)
        self.assertEqual(sorted(seen), [(id, 1) for id in sorted(ids)])  # no lease had to end

    def test_a_worker_that_is_refused_ends_with_the_problem(self) -> None:
        client = Client(Server(self, **with_key(self)).url, key="wrong")
        with self.assertRaises(Problem) as caught:
            Worker(client, "q", print).run()
        self.assertEqual(caught.exception.status, 401)


@unittest.skipUnless(shutil.which("redis-server") or shutil.which("valkey-server"), "there is no redis-server, whose data survives kill -9")
class Crash(unittest.TestCase):
    def test_nothing_is_lost_and_nothing_comes_twice_over_kill_9(self) -> None:
        server = Server(self, FANFARE_EMBEDDED="redis")
        client, count = Client(server.url, attempts=100), 150
        client.create_chat({"id": "team", "creator": "alice", "members": ["bob"]})
        client.put_counter("c", {"value": 0})
        posted: List[str] = []
        worked: List[str] = []
        seen = set()
        wrong: List[Any] = []
        stream = client.stream_messages("bob")

        def follow() -> None:
            last = 0
            for event in stream:
                # After a gap, which the server may tell of when its Redis was started anew, messages may come again.
                if event.event == "gap":
                    last = event.data["first_id"] - 1
                elif event.data["id"] != last + 1:
                    wrong.append((last, event))
                else:
                    last = event.data["id"]
                    seen.add(event.data["text"])

        def post() -> None:
            for i in range(count):
                client.post_message("team", {"sender": "alice", "text": str(i)})
                client.add_to_counter("c", {"delta": 1})
                posted.append(client.post_job("q", {"type": "t"})["id"])

        worker = Worker(client, "q", lambda job: worked.append(job.id) or time.sleep(0.02), concurrency=4)
        threads = [threading.Thread(target=one, daemon=True) for one in (follow, post, worker.run)]
        for thread in threads:
            thread.start()
        for at in (30, 90):
            until(lambda: len(posted) >= at)
            server.crash()
        until(lambda: len(posted) == count and len(seen) == count and len(worked) >= count, "the end")
        until(lambda: all(client.get_job(id)["state"] == "done" for id in posted))
        stream.close()
        worker.stop()
        for thread in threads:
            thread.join(60)
        self.assertEqual(wrong, [])
        self.assertEqual(sorted(worked), sorted(posted))
        items = client.list_messages("team", {"user": "bob", "after": 0, "limit": 500})["items"]
        self.assertEqual([m["text"] for m in items], [str(i) for i in range(count)])
        self.assertEqual(client.get_counter("c")["value"], count)
