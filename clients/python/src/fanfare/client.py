"""The client: a method for each operation that most programs use."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, cast

from .caller import Caller
from .stream import Stream

Json = dict[str, Any]


class Client(Caller):
    """A client of fanfare. Threads share it.

    Its methods are named after the operations of /openapi.json and take what those take, in dicts; `call` makes any other
    call. The options of each, such as idempotency_key, headers and timeout, are those of `call`.
    """

    # Push

    def post_event(self, event: Json, **options: Any) -> Json:
        """Posts an event: something happened that users may want to know."""
        return cast(Json, self.call("POST", "/v1/events", event, **options))

    def post_event_batch(self, events: Iterable[Json], **options: Any) -> Json:
        """Posts up to 1,000 events, all or none."""
        return cast(Json, self.call("POST", "/v1/events/batch", {"events": list(events)}, **options))

    def get_event(self, id: str, **options: Any) -> Json:
        """Reports what became of an event."""
        return self._get("/v1/events/{id}", options, id=id)

    def cancel_event(self, id: str, **options: Any) -> Json:
        """Cancels an event: one second later nothing more of it is sent."""
        return self._post("/v1/events/{id}/cancel", None, options, id=id)

    def post_opened(self, id: str, body: Json, **options: Any) -> None:
        """Says that a user opened a notification of an event."""
        self._post("/v1/events/{id}/opened", body, options, id=id)

    def post_dismissed(self, id: str, body: Json, **options: Any) -> None:
        """Says that a user dismissed it."""
        self._post("/v1/events/{id}/dismissed", body, options, id=id)

    def put_event_type(self, type: str, body: Json, **options: Any) -> Json:
        """Says how events of a type look on phones."""
        return self._put("/v1/event-types/{type}", body, options, type=type)

    def put_device(self, user: str, token: str, body: Json, **options: Any) -> Json:
        """Registers a phone of a user."""
        return self._put("/v1/users/{user}/devices/{token}", body, options, user=user, token=token)

    def post_device(self, user: str, body: Json, **options: Any) -> Json:
        """Registers a browser of a user with what its page has."""
        return self._post("/v1/users/{user}/devices", body, options, user=user)

    def delete_device(self, user: str, token: str, **options: Any) -> None:
        """Removes a device of a user."""
        self._delete("/v1/users/{user}/devices/{token}", options, user=user, token=token)

    def get_badge(self, user: str, **options: Any) -> Json:
        """Reads the number on the icon of a user's app."""
        return self._get("/v1/users/{user}/badge", options, user=user)

    def put_badge(self, user: str, body: Json, **options: Any) -> Json:
        """Sets it; with `clear` the user's iPhones show it at once."""
        return self._put("/v1/users/{user}/badge", body, options, user=user)

    def post_badge(self, user: str, body: Json, **options: Any) -> Json:
        """Adds `delta` to it."""
        return self._post("/v1/users/{user}/badge", body, options, user=user)

    def put_activity(self, user: str, token: str, body: Json, **options: Any) -> Json:
        """Registers the token of a Live Activity of a user, or of an Android phone."""
        return self._put("/v1/users/{user}/activities/{token}", body, options, user=user, token=token)

    def list_activities(self, user: str, **options: Any) -> Json:
        """Lists the activities of a user that have not ended."""
        return self._get("/v1/users/{user}/activities", options, user=user)

    def delete_activity(self, user: str, token: str, **options: Any) -> None:
        """Removes the activities with a token; with `object` in the query only the one that shows it."""
        self._delete("/v1/users/{user}/activities/{token}", options, user=user, token=token)

    def put_broadcast(self, object: str, body: Json, **options: Any) -> Json:
        """Gives an object a channel of APNs: an update of it is then one request, for any number of phones."""
        return self._put("/v1/broadcasts/{object}", body, options, object=object)

    def get_broadcast(self, object: str, **options: Any) -> Json:
        """Reads the broadcast of an object."""
        return self._get("/v1/broadcasts/{object}", options, object=object)

    def list_broadcasts(self, **options: Any) -> Json:
        """Lists the broadcasts, by object; `cursor` and `limit` are in the query."""
        return cast(Json, self.call("GET", "/v1/broadcasts", **options))

    def delete_broadcast(self, object: str, **options: Any) -> None:
        """Deletes the channel of an object."""
        self._delete("/v1/broadcasts/{object}", options, object=object)

    def get_live_object(self, object: str, **options: Any) -> Json:
        """Reads how many activities show an object, and which update came last."""
        return self._get("/v1/live/{object}", options, object=object)

    # Chat

    def create_chat(self, body: Json, **options: Any) -> Json:
        """Makes a chat."""
        return cast(Json, self.call("POST", "/v1/chats", body, **options))

    def join_chat(self, chat: str, user: str, body: Optional[Json] = None, **options: Any) -> Json:
        """Adds a member, who sees what is sent from now on, or from the start."""
        return self._put("/v1/chats/{chat}/members/{user}", body or {}, options, chat=chat, user=user)

    def leave_chat(self, chat: str, user: str, **options: Any) -> None:
        """Removes a member. The last one to leave deletes the chat."""
        self._delete("/v1/chats/{chat}/members/{user}", options, chat=chat, user=user)

    def post_message(self, chat: str, body: Json, **options: Any) -> Json:
        """Sends a message."""
        return self._post("/v1/chats/{chat}/messages", body, options, chat=chat)

    def list_messages(self, chat: str, query: Mapping[str, Any], **options: Any) -> Json:
        """Reads messages of a chat as the member `user` of the query sees them: `after`, `before`, `limit`, `epoch`."""
        return self._get("/v1/chats/{chat}/messages", {**options, "query": query}, chat=chat)

    def get_pending_messages(self, user: str, query: Optional[Mapping[str, Any]] = None, **options: Any) -> Json:
        """Lists the messages that a user has not acknowledged, in all chats; with `wait_ms` it waits for one."""
        return self._get("/v1/users/{user}/messages/pending", {**options, "query": query}, user=user)

    def ack_messages(self, user: str, acks: Mapping[str, int], **options: Any) -> Json:
        """Acknowledges what a user has read: the last message's id, by chat."""
        return self._post("/v1/users/{user}/messages/ack", {"acks": dict(acks)}, options, user=user)

    def stream_messages(self, user: str, **options: Any) -> Stream:
        """Follows all chats of a user. The options are those of `stream`."""
        return self.stream("/v1/users/{user}/messages/stream", params={"user": user}, **options)

    # Flash sale

    def put_sale(self, sale: str, body: Json, **options: Any) -> Json:
        """Makes or changes a sale. With If-Match in the headers it changes only the version that was read."""
        return self._put("/v1/sales/{sale}", body, options, sale=sale)

    def get_sale(self, sale: str, **options: Any) -> Json:
        """Reads a sale and its stock."""
        return self._get("/v1/sales/{sale}", options, sale=sale)

    def post_reservation(self, sale: str, body: Json, **options: Any) -> Json:
        """Reserves units. Give one idempotency_key to each wish of a buyer, so that a second click reserves nothing more."""
        return self._post("/v1/sales/{sale}/reservations", body, options, sale=sale)

    def confirm_reservation(self, sale: str, id: str, **options: Any) -> Json:
        """Sells what is reserved."""
        return self._post("/v1/sales/{sale}/reservations/{id}/confirm", None, options, sale=sale, id=id)

    def release_reservation(self, sale: str, id: str, **options: Any) -> Json:
        """Gives back what is reserved."""
        return self._post("/v1/sales/{sale}/reservations/{id}/release", None, options, sale=sale, id=id)

    def stream_sale(self, sale: str, **options: Any) -> Stream:
        """Follows the stock of a sale. The options are those of `stream`."""
        return self.stream("/v1/sales/{sale}/stream", params={"sale": sale}, **options)

    # Jobs

    def post_job(self, queue: str, job: Json, **options: Any) -> Json:
        """Enqueues a job."""
        return self._post("/v1/queues/{queue}/jobs", job, options, queue=queue)

    def post_job_batch(self, queue: str, jobs: Iterable[Json], **options: Any) -> Json:
        """Enqueues up to 1,000 jobs, all or none."""
        return self._post("/v1/queues/{queue}/jobs/batch", {"jobs": list(jobs)}, options, queue=queue)

    def get_job(self, id: str, **options: Any) -> Json:
        """Reads a job."""
        return self._get("/v1/jobs/{id}", options, id=id)

    def cancel_job(self, id: str, **options: Any) -> None:
        """Cancels a job."""
        self._delete("/v1/jobs/{id}", options, id=id)

    # Locks

    def acquire_lock(self, lock: str, body: Optional[Json] = None, **options: Any) -> Json:
        """Acquires a lock. Count the lease from before the call."""
        return self._post("/v1/locks/{lock}/acquire", body or {}, options, lock=lock)

    def renew_lock(self, lock: str, token: str, **options: Any) -> Json:
        """Begins the lease again."""
        return self._post("/v1/locks/{lock}/renew", {"token": token}, options, lock=lock)

    def finish_lock(self, lock: str, token: str, **options: Any) -> Json:
        """Says that the work is done: nobody gets the lock while that is remembered."""
        return self._post("/v1/locks/{lock}/done", {"token": token}, options, lock=lock)

    def fail_lock(self, lock: str, token: str, **options: Any) -> Json:
        """Says that the work failed, which counts as an attempt."""
        return self._post("/v1/locks/{lock}/fail", {"token": token}, options, lock=lock)

    def release_lock(self, lock: str, token: str, **options: Any) -> Json:
        """Gives the lock back, which does not count."""
        return self._post("/v1/locks/{lock}/release", {"token": token}, options, lock=lock)

    # Values and counters

    def get_value(self, value: str, query: Optional[Mapping[str, Any]] = None, **options: Any) -> Json:
        """Reads a value; with `version` and `wait_ms` it waits for another version."""
        return self._get("/v1/values/{value}", {**options, "query": query}, value=value)

    def put_value(self, value: str, body: Json, **options: Any) -> Json:
        """Writes a value. With If-Match in the headers it replaces only the version that was read."""
        return self._put("/v1/values/{value}", body, options, value=value)

    def delete_value(self, value: str, **options: Any) -> None:
        """Deletes a value."""
        self._delete("/v1/values/{value}", options, value=value)

    def get_counter(self, counter: str, **options: Any) -> Json:
        """Reads a counter."""
        return self._get("/v1/counters/{counter}", options, counter=counter)

    def put_counter(self, counter: str, body: Json, **options: Any) -> Json:
        """Makes a counter, or replaces its number and settings."""
        return self._put("/v1/counters/{counter}", body, options, counter=counter)

    def add_to_counter(self, counter: str, body: Json, **options: Any) -> Json:
        """Adds to a counter, unless it would leave its bounds."""
        return self._post("/v1/counters/{counter}/add", body, options, counter=counter)

    # Users' own access

    def post_token(self, user: str, body: Json, **options: Any) -> Json:
        """Makes a token with which an app or a page calls for one user."""
        return self._post("/v1/users/{user}/tokens", body, options, user=user)

    def revoke_tokens(self, user: str, **options: Any) -> None:
        """Ends all tokens of a user."""
        self._post("/v1/users/{user}/tokens/revoke", None, options, user=user)

    def post_ticket(self, user: str, **options: Any) -> Json:
        """Makes a ticket for one EventSource. The streams of this client need none: they send the token in a header."""
        return self._post("/v1/users/{user}/tickets", None, options, user=user)

    def _get(self, path: str, options: dict[str, Any], **params: str) -> Json:
        return cast(Json, self.call("GET", path, params=params, **options))

    def _put(self, path: str, body: Json, options: dict[str, Any], **params: str) -> Json:
        return cast(Json, self.call("PUT", path, body, params=params, **options))

    def _post(self, path: str, body: Optional[Json], options: dict[str, Any], **params: str) -> Json:
        return cast(Json, self.call("POST", path, body, params=params, **options))

    def _delete(self, path: str, options: dict[str, Any], **params: str) -> None:
        self.call("DELETE", path, params=params, **options)
