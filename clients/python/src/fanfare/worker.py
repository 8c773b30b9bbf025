"""Workers, which claim jobs of a queue and work on them."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Callable, Optional, Sequence

from .caller import Caller, backoff
from .errors import Disconnected, FanfareError, Problem, is_passing

_log = logging.getLogger("fanfare")


class Job:
    """A job that a handler works on."""

    def __init__(self, claimed: dict[str, Any], until: float) -> None:
        self.id: str = claimed["id"]
        """The same at each attempt: an idempotency key for what the job does elsewhere."""
        self.type: str = claimed["type"]
        self.key: Optional[str] = claimed.get("key")
        """The conflict key."""
        self.payload: Any = claimed.get("payload")
        self.attempt: int = claimed["attempt"]
        """1 more than the failures and ended leases of the job."""
        self.fence: int = claimed["fence"]
        """Rises within a queue. Send it along with what you write, and let the other side refuse a lower one."""
        self.traceparent: Optional[str] = claimed.get("traceparent")
        """The span of the call that enqueued the job, in the form of W3C Trace Context."""
        self._token: str = claimed["token"]
        self._until = until
        self._lost = threading.Event()

    def held(self) -> bool:
        """Tells whether the job is still this worker's, and not cancelled. Write nothing more once it is False."""
        return not self._lost.is_set() and time.monotonic() < self._until

    def sleep(self, seconds: float) -> bool:
        """Sleeps, less long if the job is not held any more. Returns held()."""
        end = time.monotonic() + seconds
        while self.held() and time.monotonic() < end:
            self._lost.wait(max(0.0, min(end, self._until) - time.monotonic()))
        return self.held()


class Fail(FanfareError):
    """Raise it to fail a job with a wait of your own. Any other exception fails the job, too."""

    def __init__(self, message: str, retry_after: Optional[float] = None) -> None:
        """retry_after is the least number of seconds until the next attempt."""
        super().__init__(message)
        self.retry_after = retry_after


class Release(FanfareError):
    """Raise it to give a job back. Nothing counts."""

    def __init__(self, retry_after: Optional[float] = None) -> None:
        """retry_after is in how many seconds others may claim the job; without it they may at once."""
        super().__init__("released")
        self.retry_after = retry_after


class Worker:
    """Claims jobs of a queue and works on them in threads.

    It renews each lease at a third of its time, completes a job when the handler returns and fails it when the handler
    raises. What goes wrong is logged by the logger "fanfare".
    """

    def __init__(
        self,
        client: Caller,
        queue: str,
        handler: Callable[[Job], object],
        *,
        concurrency: int = 1,
        lease: float = 30,
        types: Optional[Sequence[str]] = None,
        name: Optional[str] = None,
    ) -> None:
        """concurrency: how many jobs it works on at once. lease: how many seconds a job stays with a worker that died.
        types: only jobs of these types. name: what the worker is called."""
        self._client, self._queue, self._handler = client, queue, handler
        self._concurrency, self._lease = concurrency, lease
        self._claim_body: dict[str, Any] = {
            "worker": name or f"{socket.gethostname()}-{os.getpid()}",
            "lease_ms": int(lease * 1000),
            "wait_ms": int(min(lease / 6, 30) * 1000),
        }
        if types:
            self._claim_body["types"] = list(types)
        self._stop, self._ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._held: set[Job] = set()

    @property
    def stopping(self) -> bool:
        """Whether stop was called. Long jobs may look at it, and raise Release."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Has the worker claim nothing more. It is safe in a handler of SIGTERM."""
        self._stop.set()

    def run(self) -> None:
        """Works until stop is called and all jobs are finished. What a claim brings after stop goes back uncounted.

        Raises Problem if the server refuses the worker for good; the jobs in hand are finished before.
        """
        self._ended.clear()
        keeper = threading.Thread(target=self._keep, name="fanfare-renewals", daemon=True)
        keeper.start()
        busy: set[Future[None]] = set()
        try:
            with ThreadPoolExecutor(self._concurrency, "fanfare-worker") as threads:
                while not self._stop.is_set():
                    for job in self._claim(self._concurrency - len(busy)):
                        with self._lock:
                            self._held.add(job)
                        busy.add(threads.submit(self._work, job))
                    if len(busy) >= self._concurrency:
                        wait(busy, return_when=FIRST_COMPLETED)
                    busy = {work for work in busy if not work.done()}
        finally:  # the threads have finished their jobs
            self._ended.set()
            keeper.join()

    def _claim(self, most: int) -> list[Job]:
        """Claims jobs. A claim without an answer is repeated under its key, and gets the same jobs, whose leases began with
        the first one."""
        body, key = {**self._claim_body, "max": min(most, 100)}, secrets.token_hex(16)
        sent, tries = time.monotonic(), 0
        while True:
            try:
                path, params = "/v1/queues/{queue}/claims", {"queue": self._queue}
                answer = self._client.call("POST", path, body, params=params, idempotency_key=key, attempts=1)
                return [Job(claimed, sent + claimed["lease_ms"] / 1000) for claimed in answer["jobs"]]
            except (Problem, Disconnected) as err:
                if not is_passing(err):
                    raise
                _log.warning("claim jobs of %s: %s", self._queue, err)
                self._stop.wait(backoff(tries, err.retry_after if isinstance(err, Problem) else None))
                tries += 1
            if self._stop.is_set() or time.monotonic() > sent + self._lease * 2 / 3:
                return []

    def _work(self, job: Job) -> None:
        try:
            result = {"outcome": "release"} if self._stop.is_set() else self._handle(job)
        finally:
            with self._lock:
                self._held.discard(job)
        try:
            status = self._tell([job], result, attempts=float("inf"), timeout=300)[0]
            if status != "ok":
                _log.warning("job %s: %s: %r came too late", job.id, status, result["outcome"])
        except FanfareError as err:
            _log.error("job %s: %r is not on record: %s", job.id, result["outcome"], err)

    def _handle(self, job: Job) -> dict[str, Any]:
        try:
            self._handler(job)
            return {"outcome": "complete"}
        except Release as err:
            return {"outcome": "release", **_later(err.retry_after)}
        except Fail as err:
            _log.warning("job %s failed: %s", job.id, err)
            return {"outcome": "fail", "error": str(err)[:1000], **_later(err.retry_after)}
        except BaseException as err:  # whatever ends a handler ends its job alone
            _log.exception("job %s failed", job.id)
            return {"outcome": "fail", "error": repr(err)[:1000]}

    def _keep(self) -> None:
        """Renews the leases of all jobs that are held, until the worker has ended."""
        pause = 0.0
        while not self._ended.wait(pause):
            due = time.monotonic() + self._lease * 2 / 3
            with self._lock:
                jobs = [job for job in self._held if job._until <= due and job.held()][:100]
            pause = min(1.0, self._lease / 20)
            if not jobs:
                continue
            sent = time.monotonic()
            try:
                statuses = self._tell(jobs, {"outcome": "renew", "lease_ms": int(self._lease * 1000)}, attempts=1, timeout=self._lease / 3)
            except FanfareError as err:
                _log.warning("renew %d leases: %s", len(jobs), err)
                continue
            for job, status in zip(jobs, statuses):
                if status == "ok":
                    job._until = sent + self._lease
                else:
                    job._lost.set()

    def _tell(self, jobs: Sequence[Job], result: dict[str, Any], **limits: float) -> list[str]:
        """Reports a result of jobs, and returns "ok", "job_lost" or "cancelled" for each."""
        body = {"results": [{"id": job.id, "token": job._token, **result} for job in jobs]}
        answer = self._client.call("POST", "/v1/queues/{queue}/results", body, params={"queue": self._queue}, **limits)
        return [one["status"] for one in answer["results"]]


def _later(seconds: Optional[float]) -> dict[str, int]:
    return {} if seconds is None else {"retry_after_ms": int(seconds * 1000)}
