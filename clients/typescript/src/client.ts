import { Caller, type CallOptions } from "./caller.js";
import type { components } from "./schema.js";
import type { StreamEvent, StreamOptions } from "./stream.js";

/** The types of requests and answers, as in the contract. */
export type Schemas = components["schemas"];

/** A list's page, and what it is about. */
export type Page = { limit?: number; cursor?: string };

/**
 * A client of fanfare. Its methods are named after the operations of `/openapi.json` and take what those take; `call` makes
 * any other call.
 */
export class Client extends Caller {
  // Push

  /** Posts an event: something happened that users may want to know. */
  postEvent(event: Schemas["EventRequest"], options?: CallOptions) {
    return this.call<Schemas["EventAccepted"]>("POST", "/v1/events", event, options);
  }

  /** Posts up to 1,000 events, all or none. */
  postEventBatch(events: Schemas["EventRequest"][], options?: CallOptions) {
    return this.call<Schemas["EventBatchAccepted"]>("POST", "/v1/events/batch", { events }, options);
  }

  /** Reports what became of an event. */
  getEvent(id: string, options?: CallOptions) {
    return this.#with<Schemas["EventReport"]>({ id }, options)("GET", "/v1/events/{id}");
  }

  /** Cancels an event: one second later nothing more of it is sent. */
  cancelEvent(id: string, options?: CallOptions) {
    return this.#with<Schemas["EventReport"]>({ id }, options)("POST", "/v1/events/{id}/cancel");
  }

  /** Says that a user opened a notification of an event: in an app, with the `event_id` of its payload. */
  postOpened(id: string, body: Schemas["OpenedRequest"], options?: CallOptions) {
    return this.#with<void>({ id }, options)("POST", "/v1/events/{id}/opened", body);
  }

  /** Says that a user dismissed it. */
  postDismissed(id: string, body: Schemas["OpenedRequest"], options?: CallOptions) {
    return this.#with<void>({ id }, options)("POST", "/v1/events/{id}/dismissed", body);
  }

  /** Says how events of a type look on phones. */
  putEventType(type: string, body: Schemas["EventTypeRequest"], options?: CallOptions) {
    return this.#with<Schemas["EventType"]>({ type }, options)("PUT", "/v1/event-types/{type}", body);
  }

  /** Registers a phone of a user. */
  putDevice(user: string, token: string, body: Schemas["DeviceRequest"], options?: CallOptions) {
    return this.#with<Schemas["Device"]>({ user, token }, options)("PUT", "/v1/users/{user}/devices/{token}", body);
  }

  /** Registers a browser of a user. Pages call `registerWebPush`. */
  postDevice(user: string, body: Schemas["BrowserRequest"], options?: CallOptions) {
    return this.#with<Schemas["Device"]>({ user }, options)("POST", "/v1/users/{user}/devices", body);
  }

  /** Removes a device of a user. */
  deleteDevice(user: string, token: string, options?: CallOptions) {
    return this.#with<void>({ user, token }, options)("DELETE", "/v1/users/{user}/devices/{token}");
  }

  /** Reads the number on the icon of a user's app. */
  getBadge(user: string, options?: CallOptions) {
    return this.#with<Schemas["Badge"]>({ user }, options)("GET", "/v1/users/{user}/badge");
  }

  /** Sets it; with `clear` the user's iPhones show it at once. */
  putBadge(user: string, body: Schemas["BadgeRequest"], options?: CallOptions) {
    return this.#with<Schemas["Badge"]>({ user }, options)("PUT", "/v1/users/{user}/badge", body);
  }

  /** Adds to it. */
  postBadge(user: string, body: Schemas["BadgeChange"], options?: CallOptions) {
    return this.#with<Schemas["Badge"]>({ user }, options)("POST", "/v1/users/{user}/badge", body);
  }

  /** Registers the token of a Live Activity of a user, or of an Android phone. */
  putActivity(user: string, token: string, body: Schemas["ActivityRequest"], options?: CallOptions) {
    return this.#with<Schemas["Activity"]>({ user, token }, options)("PUT", "/v1/users/{user}/activities/{token}", body);
  }

  /** Lists the activities of a user that have not ended. */
  listActivities(user: string, query: Page = {}, options?: CallOptions) {
    return this.#with<Schemas["ActivityList"]>({ user }, { ...options, query })("GET", "/v1/users/{user}/activities");
  }

  /** Removes the activities with a token; with `object` only the one that shows it. */
  deleteActivity(user: string, token: string, query: { object?: string } = {}, options?: CallOptions) {
    return this.#with<void>({ user, token }, { ...options, query })("DELETE", "/v1/users/{user}/activities/{token}");
  }

  /** Gives an object a channel of APNs: an update of it is then one request, for any number of phones. */
  putBroadcast(object: string, body: Schemas["BroadcastRequest"], options?: CallOptions) {
    return this.#with<Schemas["Broadcast"]>({ object }, options)("PUT", "/v1/broadcasts/{object}", body);
  }

  /** Reads the broadcast of an object. */
  getBroadcast(object: string, options?: CallOptions) {
    return this.#with<Schemas["Broadcast"]>({ object }, options)("GET", "/v1/broadcasts/{object}");
  }

  /** Lists the broadcasts, by object. */
  listBroadcasts(query: Page = {}, options?: CallOptions) {
    return this.call<Schemas["BroadcastList"]>("GET", "/v1/broadcasts", undefined, { ...options, query });
  }

  /** Deletes the channel of an object. */
  deleteBroadcast(object: string, options?: CallOptions) {
    return this.#with<void>({ object }, options)("DELETE", "/v1/broadcasts/{object}");
  }

  /** Reads how many activities show an object, and which update came last. */
  getLiveObject(object: string, options?: CallOptions) {
    return this.#with<Schemas["LiveObject"]>({ object }, options)("GET", "/v1/live/{object}");
  }

  /** Reads the public key with which pages subscribe. */
  getPushKey(topic: string, options?: CallOptions) {
    return this.#with<Schemas["PushKey"]>({ topic }, options)("GET", "/v1/webpush/{topic}/key");
  }

  // Chat

  /** Makes a chat. */
  createChat(body: Schemas["ChatRequest"], options?: CallOptions) {
    return this.call<Schemas["Chat"]>("POST", "/v1/chats", body, options);
  }

  /** Adds a member, who sees what is sent from now on, or from the start. */
  joinChat(chat: string, user: string, body: Schemas["JoinRequest"] = {}, options?: CallOptions) {
    return this.#with<Schemas["ChatMember"]>({ chat, user }, options)("PUT", "/v1/chats/{chat}/members/{user}", body);
  }

  /** Removes a member. The last one to leave deletes the chat. */
  leaveChat(chat: string, user: string, options?: CallOptions) {
    return this.#with<void>({ chat, user }, options)("DELETE", "/v1/chats/{chat}/members/{user}");
  }

  /** Sends a message. */
  postMessage(chat: string, body: Schemas["ChatMessageRequest"], options?: CallOptions) {
    return this.#with<Schemas["ChatMessageSent"]>({ chat }, options)("POST", "/v1/chats/{chat}/messages", body);
  }

  /** Reads messages of a chat as one of its members sees them. */
  listMessages(chat: string, query: { user?: string; after?: number; before?: number; limit?: number; epoch?: string }, options?: CallOptions) {
    return this.#with<Schemas["ChatMessages"]>({ chat }, { ...options, query })("GET", "/v1/chats/{chat}/messages");
  }

  /** Lists the messages that a user has not acknowledged, in all chats. */
  getPendingMessages(user: string, query: { limit?: number; wait_ms?: number } = {}, options?: CallOptions) {
    return this.#with<Schemas["PendingChats"]>({ user }, { ...options, query })("GET", "/v1/users/{user}/messages/pending");
  }

  /** Acknowledges what a user has read: the last message's id, by chat. */
  ackMessages(user: string, acks: Record<string, number>, options?: CallOptions) {
    return this.#with<Schemas["Acks"]>({ user }, options)("POST", "/v1/users/{user}/messages/ack", { acks });
  }

  /** Follows all chats of a user. */
  streamMessages(user: string, options?: StreamOptions): AsyncGenerator<StreamEvent<Schemas["StreamEvents"]>, void, undefined> {
    return this.stream("/v1/users/{user}/messages/stream", { ...options, params: { user } });
  }

  // Flash sale

  /** Makes or changes a sale. With `If-Match` in the headers it changes only the version that was read. */
  putSale(sale: string, body: Schemas["SaleRequest"], options?: CallOptions) {
    return this.#with<Schemas["Sale"]>({ sale }, options)("PUT", "/v1/sales/{sale}", body);
  }

  /** Reads a sale and its stock. */
  getSale(sale: string, options?: CallOptions) {
    return this.#with<Schemas["Sale"]>({ sale }, options)("GET", "/v1/sales/{sale}");
  }

  /** Reserves units. Give one Idempotency-Key to each wish of a buyer, so that a second click reserves nothing more. */
  postReservation(sale: string, body: Schemas["ReservationRequest"], options?: CallOptions) {
    return this.#with<Schemas["Reservation"]>({ sale }, options)("POST", "/v1/sales/{sale}/reservations", body);
  }

  /** Sells what is reserved. */
  confirmReservation(sale: string, id: string, options?: CallOptions) {
    return this.#with<Schemas["Reservation"]>({ sale, id }, options)("POST", "/v1/sales/{sale}/reservations/{id}/confirm");
  }

  /** Gives back what is reserved. */
  releaseReservation(sale: string, id: string, options?: CallOptions) {
    return this.#with<Schemas["Reservation"]>({ sale, id }, options)("POST", "/v1/sales/{sale}/reservations/{id}/release");
  }

  /** Follows the stock of a sale. */
  streamSale(sale: string, options?: StreamOptions): AsyncGenerator<StreamEvent<Schemas["StockEvents"]>, void, undefined> {
    return this.stream("/v1/sales/{sale}/stream", { ...options, params: { sale } });
  }

  // Jobs

  /** Enqueues a job. */
  postJob(queue: string, job: Schemas["JobRequest"], options?: CallOptions) {
    return this.#with<Schemas["JobAccepted"]>({ queue }, options)("POST", "/v1/queues/{queue}/jobs", job);
  }

  /** Enqueues up to 1,000 jobs, all or none. */
  postJobBatch(queue: string, jobs: Schemas["JobRequest"][], options?: CallOptions) {
    return this.#with<Schemas["JobBatchAccepted"]>({ queue }, options)("POST", "/v1/queues/{queue}/jobs/batch", { jobs });
  }

  /** Reads a job. */
  getJob(id: string, options?: CallOptions) {
    return this.#with<Schemas["Job"]>({ id }, options)("GET", "/v1/jobs/{id}");
  }

  /** Cancels a job. */
  cancelJob(id: string, options?: CallOptions) {
    return this.#with<void>({ id }, options)("DELETE", "/v1/jobs/{id}");
  }

  // Locks

  /** Acquires a lock. Count the lease from before the call. */
  acquireLock(lock: string, body: Schemas["LockAcquire"] = {}, options?: CallOptions) {
    return this.#with<Schemas["LockHold"]>({ lock }, options)("POST", "/v1/locks/{lock}/acquire", body);
  }

  /** Begins the lease again. */
  renewLock(lock: string, token: string, options?: CallOptions) {
    return this.#with<Schemas["LockHold"]>({ lock }, options)("POST", "/v1/locks/{lock}/renew", { token });
  }

  /** Says that the work is done: nobody gets the lock while that is remembered. */
  finishLock(lock: string, token: string, options?: CallOptions) {
    return this.#with<Schemas["Lock"]>({ lock }, options)("POST", "/v1/locks/{lock}/done", { token });
  }

  /** Says that the work failed, which counts as an attempt. */
  failLock(lock: string, token: string, options?: CallOptions) {
    return this.#with<Schemas["Lock"]>({ lock }, options)("POST", "/v1/locks/{lock}/fail", { token });
  }

  /** Gives the lock back, which does not count. */
  releaseLock(lock: string, token: string, options?: CallOptions) {
    return this.#with<Schemas["Lock"]>({ lock }, options)("POST", "/v1/locks/{lock}/release", { token });
  }

  // Values and counters

  /** Reads a value; with `version` and `wait_ms` it waits for another version. */
  getValue(value: string, query: { version?: number; wait_ms?: number } = {}, options?: CallOptions) {
    return this.#with<Schemas["Value"]>({ value }, { ...options, query })("GET", "/v1/values/{value}");
  }

  /** Writes a value. With `If-Match` in the headers it replaces only the version that was read. */
  putValue(value: string, body: Schemas["ValueRequest"], options?: CallOptions) {
    return this.#with<Schemas["ValueVersion"]>({ value }, options)("PUT", "/v1/values/{value}", body);
  }

  /** Deletes a value. */
  deleteValue(value: string, options?: CallOptions) {
    return this.#with<void>({ value }, options)("DELETE", "/v1/values/{value}");
  }

  /** Reads a counter. */
  getCounter(counter: string, options?: CallOptions) {
    return this.#with<Schemas["Counter"]>({ counter }, options)("GET", "/v1/counters/{counter}");
  }

  /** Makes a counter, or replaces its number and settings. */
  putCounter(counter: string, body: Schemas["CounterRequest"], options?: CallOptions) {
    return this.#with<Schemas["Counter"]>({ counter }, options)("PUT", "/v1/counters/{counter}", body);
  }

  /** Adds to a counter, unless it would leave its bounds. */
  addToCounter(counter: string, body: Schemas["CounterAdd"], options?: CallOptions) {
    return this.#with<Schemas["CounterChange"]>({ counter }, options)("POST", "/v1/counters/{counter}/add", body);
  }

  // Users' own access

  /** Makes a token with which an app or a page calls for one user. */
  postToken(user: string, body: Schemas["TokenRequest"], options?: CallOptions) {
    return this.#with<Schemas["Token"]>({ user }, options)("POST", "/v1/users/{user}/tokens", body);
  }

  /** Ends all tokens of a user. */
  revokeTokens(user: string, options?: CallOptions) {
    return this.#with<void>({ user }, options)("POST", "/v1/users/{user}/tokens/revoke");
  }

  /** Makes a ticket for one EventSource. The streams of this client need none: they send the token in a header. */
  postTicket(user: string, options?: CallOptions) {
    return this.#with<Schemas["Ticket"]>({ user }, options)("POST", "/v1/users/{user}/tickets");
  }

  #with<T>(params: Record<string, string>, options: CallOptions = {}) {
    return (method: "GET" | "PUT" | "POST" | "DELETE", path: string, body?: unknown) => this.call<T>(method, path, body, { ...options, params });
  }
}
