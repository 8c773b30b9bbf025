// A client in TypeScript: types made by openapi-typescript, calls by openapi-fetch.
// Usage: node out/client.js http://127.0.0.1:8080
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./fanfare.js";

const base = process.argv[2];
assert(base, "usage: client <address of a server>");
const api = createClient<paths>({ baseUrl: base });

// An answer of openapi-fetch: what went well, or a problem.
type Answer<T> = { data?: T; error?: components["schemas"]["Problem"]; response: Response };

// What went well; anything else ends the program.
function good<T>({ data, error, response }: Answer<T>): T {
  assert(data !== undefined, `${response.status} ${error?.code}: ${error?.detail}`);
  return data;
}

// An answer without a body.
function done({ error, response }: Answer<unknown>) {
  assert.equal(response.status, 204, `${error?.code}: ${error?.detail}`);
}

async function push() {
  const token = "75".repeat(32);
  const device = good(await api.PUT("/v1/users/{user}/devices/{token}", {
    params: { path: { user: "ts-bob", token } },
    body: { platform: "apns", topic: "com.example.app", environment: "sandbox", locale: "de-AT" },
  }));
  assert.equal(device.state, "active");
  assert.equal(device.locale, "de-AT");
  await eventType("ts-photo.shared");
  await tell("ts-photo-1", { users: ["ts-bob"] });
}

// Makes an event type once. Somebody who made it before would be told so, with what is there.
async function eventType(type: string) {
  const params = { path: { type }, header: { "If-None-Match": "*" } };
  const made = good(await api.PUT("/v1/event-types/{type}", { params, body: { title: "New photo" } }));
  const { error } = await api.PUT("/v1/event-types/{type}", { params, body: { title: "Other" } });
  assert.deepEqual([error?.code, error?.retryable, error?.event_type], ["version_mismatch", false, made]);
}

// Has the user of push join an open topic and posts an event to it.
async function topics() {
  const topic = "ts-news";
  done(await api.PUT("/v1/topics/{topic}", { params: { path: { topic } }, body: { open: true } }));
  done(await api.PUT("/v1/users/{user}/topics/{topic}", { params: { path: { user: "ts-bob", topic } } }));
  done(await api.POST("/v1/topics/{topic}/users", {
    params: { path: { topic } },
    body: { add: ["ts-carol"], remove: ["ts-dave"] },
  }));
  const members = good(await api.GET("/v1/topics/{topic}/users", { params: { path: { topic } } }));
  assert.deepEqual(members.items.map(({ user }) => user), ["ts-bob", "ts-carol"]);
  done(await api.DELETE("/v1/users/{user}/topics/{topic}", { params: { path: { user: "ts-carol", topic } } }));
  await tell("ts-news-1", { topic });
}

// Registers a browser with what its page has, and removes it.
async function browsers() {
  const path = { user: "ts-page" };
  const browser = good(await api.POST("/v1/users/{user}/devices", {
    params: { path, header: { "Idempotency-Key": "ts-browser-1" } },
    body: {
      platform: "webpush",
      topic: "shop",
      subscription: {
        endpoint: "https://fcm.googleapis.com/fcm/send/ts",
        expirationTime: null,
        keys: { p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", auth: "BTBZMqHH6r4Tts7J_aSIgg" },
      },
    },
  }));
  assert.equal(browser.origin, "https://fcm.googleapis.com");
  done(await api.DELETE("/v1/users/{user}/devices/{token}", { params: { path: { ...path, token: browser.token } } }));
  const { response } = await api.GET("/v1/webpush/{topic}/key", { params: { path: { topic: "shop" } } });
  assert.equal(response.status, 404);
}

// Sends devices and contacts in batches, and one that is refused.
async function movingIn() {
  const device = { user: "ts-erin", token: "76".repeat(32), platform: "apns", topic: "com.example.app", environment: "sandbox" } as const;
  done(await api.POST("/v1/devices/batch", {
    params: { header: { "Idempotency-Key": "ts-devices-1" } },
    body: { devices: [device] },
  }));
  const { error } = await api.POST("/v1/devices/batch", { params: {}, body: { devices: [device, device] } });
  assert.deepEqual(error?.errors?.map(({ field }) => field), ["devices[1].token"]);
  const path = { user: "ts-erin" };
  done(await api.POST("/v1/users/{user}/contacts/batch", {
    params: { path },
    body: { contacts: [{ contact: "ts-bob", relationship: "friend" }, { contact: "ts-carol", relationship: "family" }] },
  }));
  const contacts = good(await api.GET("/v1/users/{user}/contacts", { params: { path } }));
  assert.deepEqual(contacts.items.map(({ contact }) => contact), ["ts-bob", "ts-carol"]);
  await tell("ts-photo-2", { users: ["ts-erin"] });
}

// Erases a user and waits until that is done.
async function erase() {
  const { id } = good(await api.DELETE("/v1/users/{user}", { params: { path: { user: "ts-carol" } } }));
  for (let i = 0; i < 600; i++) {
    const operation = good(await api.GET("/v1/operations/{id}", { params: { path: { id } } }));
    if (operation.state === "done") return;
    await sleep(100);
  }
  assert.fail("the user was not erased in a minute");
}

// Posts an event to an audience with one device and waits until it is delivered.
async function tell(key: string, audience: components["schemas"]["Audience"]) {
  const accepted = good(await api.POST("/v1/events", {
    params: { header: { "Idempotency-Key": key } },
    body: {
      type: "photo.shared",
      audience,
      alert: { title: "New photo", body: "alice shared Summer" },
    },
  }));
  assert.ok("id" in accepted, "the answer of a dry run");
  const { id } = accepted;
  for (let i = 0; i < 300; i++) {
    const report = good(await api.GET("/v1/events/{id}", { params: { path: { id } } }));
    if (report.state === "done") {
      assert.equal(report.delivered, 1);
      return;
    }
    await sleep(100);
  }
  assert.fail("the event was not delivered in 30 s");
}

async function chat() {
  const { id } = good(await api.POST("/v1/chats", {
    params: {},
    body: { creator: "ts-alice", members: ["ts-bob"], message: "hello" },
  }));
  const first = await firstMessage("ts-bob");
  assert.deepEqual([first.chat, first.sender, first.text], [id, "ts-alice", "hello"]);
  const sent = good(await api.POST("/v1/chats/{chat}/messages", {
    params: { path: { chat: id } },
    body: { sender: "ts-alice", text: "look", data: { picture: "p1" } },
  }));
  const page = good(await api.GET("/v1/chats/{chat}/messages", {
    params: { path: { chat: id }, query: { user: "ts-bob", after: sent.id - 1 } },
  }));
  assert.deepEqual(page.items.map((m) => m.data), [{ picture: "p1" }]);
  done(await api.DELETE("/v1/chats/{chat}/messages/{id}", { params: { path: { chat: id, id: sent.id } } }));
  const after = good(await api.GET("/v1/chats/{chat}/messages", {
    params: { path: { chat: id }, query: { user: "ts-bob", after: sent.id - 1 } },
  }));
  assert.deepEqual(after.items.map((m) => [m.text, m.data, m.redacted]), [["", undefined, true]]);
  const { acked } = good(await api.POST("/v1/users/{user}/messages/ack", {
    params: { path: { user: "ts-bob" } },
    body: { acks: { [id]: first.id } },
  }));
  assert.equal(acked[id], first.id);
}

// The first message on a user's stream. The data of an event has a type of its own.
async function firstMessage(user: string): Promise<components["schemas"]["StreamMessage"]> {
  const { data, response } = await api.GET("/v1/users/{user}/messages/stream", {
    params: { path: { user } },
    parseAs: "stream",
    signal: AbortSignal.timeout(30_000),
  });
  assert(data, `the stream answers ${response.status}`);
  let text = "";
  for await (const part of data.pipeThrough(new TextDecoderStream())) {
    text += part;
    const event = /^event: message\ndata: (.*)\n\n/m.exec(text);
    if (event?.[1]) return JSON.parse(event[1]);
  }
  assert.fail("the stream ended");
}

async function sale() {
  const path = { sale: "ts-spring" };
  const made = good(await api.PUT("/v1/sales/{sale}", {
    params: { path },
    body: {
      items: [{ sku: "sneaker:42", stock: 3 }],
      starts_at: "2026-01-01T00:00:00Z",
      ends_at: "2099-01-01T00:00:00Z",
      max_hold_ms: 1800000,
    },
  }));
  assert.deepEqual([made.version, made.items[0]?.available], [1, 3]);
  const lines = [{ sku: "sneaker:42", quantity: 2 }];
  const reserved = good(await api.POST("/v1/sales/{sale}/reservations", {
    params: { path, header: { "Idempotency-Key": "ts-alice-1" } },
    body: { user: "ts-alice", lines },
  }));
  const { error } = await api.POST("/v1/sales/{sale}/reservations", {
    params: { path },
    body: { user: "ts-bob", lines },
  });
  assert.equal(error?.code, "sold_out");
  assert.equal(error.retryable, true);
  assert.equal(error.available?.["sneaker:42"], 1);
  const longer = good(await api.POST("/v1/sales/{sale}/reservations/{id}/extend", {
    params: { path: { ...path, id: reserved.id } },
    body: { hold_ms: 900000 },
  }));
  assert.ok(longer.expires_at! > reserved.expires_at!);
  const sold = good(await api.POST("/v1/sales/{sale}/reservations/{id}/confirm", {
    params: { path: { ...path, id: reserved.id } },
  }));
  assert.equal(sold.state, "sold");
  const read = good(await api.GET("/v1/sales/{sale}", { params: { path } }));
  const same = good(await api.PUT("/v1/sales/{sale}", { params: { path }, body: read }));
  assert.equal(same.version, 1);
  const all = good(await api.GET("/v1/sales/{sale}/reservations", { params: { path } }));
  assert.deepEqual(all.items.map((r) => r.id), [reserved.id]);
  const { error: kept } = await api.DELETE("/v1/sales/{sale}", { params: { path } });
  assert.equal(kept?.code, "sale_open");
}

await push();
await browsers();
await topics();
await movingIn();
await chat();
await sale();
await erase();
console.log("the client in TypeScript did all it tried");
