import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { Client, Disconnected, FanfareError, Problem } from "fanfare";
import { Proxy } from "./proxy.js";
import { Server, withKey } from "./server.js";

type Document = { paths: Record<string, Record<string, { operationId: string; parameters?: { name?: string; in?: string }[] }>> };
const document = JSON.parse(await readFile(new URL("../../../openapi/openapi.json", import.meta.url), "utf8")) as Document;

// A client whose calls go nowhere, and what it calls.
function recorder(): { client: Client; calls: { method: string; path: string; headers: Headers }[] } {
  const calls: { method: string; path: string; headers: Headers }[] = [];
  const client = new Client("http://127.0.0.1:1", {
    fetch: async (url, init) => {
      calls.push({ method: init?.method ?? "GET", path: new URL(String(url)).pathname, headers: new Headers(init?.headers) });
      return new Response("{}");
    },
  });
  return { client, calls };
}

// A server that answers as a test wants.
async function answering(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => { server.closeAllConnections(); server.close(); });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const failure = (make: Promise<unknown>) => make.then(() => assert.fail("it went well"), (err: unknown) => err);

test("each method makes the call of its name in the contract", async () => {
  const { client, calls } = recorder();
  let found = 0;
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, { operationId }] of Object.entries(operations)) {
      const own = (client as unknown as Record<string, unknown>)[operationId];
      if (typeof own !== "function") continue;
      found++;
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => `the-${name}`);
      if (operationId.startsWith("stream")) {
        const stop = new AbortController(), onOpen = () => stop.abort();
        for await (const _ of own.call(client, ...names, { signal: stop.signal, onOpen })) assert.fail("an event");
      } else await own.call(client, ...(names.length ? names : [{}]));
      const last = calls.pop();
      assert.deepEqual([last?.method, last?.path], [method.toUpperCase(), path.replace(/\{(\w+)\}/g, "the-$1")], operationId);
    }
  }
  const own = Object.getOwnPropertyNames(Client.prototype).filter((name) => name !== "constructor");
  assert.equal(found, own.length);
});

test("a POST has a new Idempotency-Key exactly where the contract takes one", async () => {
  const { client, calls } = recorder();
  const seen = new Set<string>();
  for (const [path, { post }] of Object.entries(document.paths)) {
    if (!post) continue;
    await client.call("POST", path.replace(/\{\w+\}/g, "x"), {});
    const key = calls.at(-1)?.headers.get("Idempotency-Key") ?? "";
    assert.equal(key !== "", JSON.stringify(post.parameters ?? []).includes("Idempotency-Key"), path);
    assert(!key || !seen.has(key), `${path}: the key was used before`);
    seen.add(key);
  }
  assert(seen.size > 30);
});

test("parameters are escaped, and those that change a path are refused", async () => {
  const { client, calls } = recorder();
  await client.call("GET", "/v1/jobs/{id}", undefined, { params: { id: "a/b?c" }, query: { x: "1&2", y: undefined } });
  assert.equal(calls[0]?.path, "/v1/jobs/a%2Fb%3Fc");
  for (const id of ["", ".", ".."]) assert(await failure((async () => client.getJob(id))()) instanceof TypeError);
  assert.equal(calls.length, 1);
});

test("lost answers change nothing", async (t) => {
  const server = await Server.start(t), proxy = await Proxy.start(t, server.url);
  const client = new Client(proxy.url, { attempts: 20 });
  const { id: chat } = await client.createChat({ creator: "alice", members: ["bob"] });
  await client.putCounter("c", { value: 0 });
  let n = 0;
  proxy.loses = () => n++ % 2 === 0;
  for (let i = 1; i <= 10; i++) {
    const sent = await client.postMessage(chat, { sender: "alice", text: String(i) });
    assert.equal(sent.id, i);
    assert.equal((await client.addToCounter("c", { delta: 1 })).value, i);
    await client.postJob("q", { type: "t", payload: i });
  }
  proxy.loses = () => false;
  assert(proxy.lost >= 20, `${proxy.lost} answers were lost`);
  assert.deepEqual((await client.listMessages(chat, { user: "bob", after: 0 })).items.map((m) => Number(m.text)), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  assert.equal((await client.getCounter("c")).value, 10);
  assert.equal((await client.call<{ depth: number }>("GET", "/v1/queues/q")).depth, 10);
});

test("what must not be repeated blindly is not", async (t) => {
  const { env, key } = await withKey(t);
  const server = await Server.start(t, env), proxy = await Proxy.start(t, server.url);
  const client = new Client(proxy.url, { key });
  const { version } = await client.putValue("v", { value: 1 });
  proxy.loses = () => true;
  for (const call of [
    () => client.postToken("bob", { scopes: ["chat"] }),
    () => client.putValue("v", { value: 2 }, { headers: { "If-Match": `"${version}"` } }),
  ]) {
    const before = proxy.lost, err = await failure(call());
    assert(err instanceof Disconnected && err.mayHaveHappened, String(err));
    assert.equal(proxy.lost - before, 1);
  }
  proxy.loses = () => false;
  assert.equal((await client.getValue("v")).value, 2);
});

test("a refusal is a Problem, and is not repeated", async (t) => {
  const server = await Server.start(t);
  let tries = 0;
  const client = new Client(server.url, { fetch: (...request) => { tries++; return fetch(...request); } });
  const bad = await failure(client.putSale("s", { items: [], starts_at: "2026-01-01T00:00:00Z", ends_at: "2099-01-01T00:00:00Z" }));
  assert(bad instanceof Problem && bad instanceof FanfareError);
  assert.deepEqual([bad.status, bad.code, bad.retryable, bad.errors[0]?.field], [422, "validation_failed", false, "items"]);
  assert.match(bad.requestId, /^[\w.-]+$/);
  await client.putSale("s", { items: [{ sku: "a", stock: 1 }], starts_at: "2026-01-01T00:00:00Z", ends_at: "2099-01-01T00:00:00Z" });
  tries = 0;
  const held = await client.postReservation("s", { user: "alice", lines: [{ sku: "a", quantity: 1 }] });
  const soldOut = await failure(client.postReservation("s", { user: "bob", lines: [{ sku: "a", quantity: 1 }] }));
  assert(soldOut instanceof Problem);
  assert.deepEqual([soldOut.code, soldOut.retryable, soldOut.facts.available], ["sold_out", true, { a: 0 }]);
  assert.equal(tries, 2);
  assert.equal((await client.confirmReservation("s", held.id)).state, "sold");
  await client.acquireLock("l");
  const lockHeld = await failure(client.acquireLock("l"));
  assert(lockHeld instanceof Problem && lockHeld.retryAfter !== undefined && lockHeld.retryAfter > 20_000);
});

test("Live Activities and broadcasts", async (t) => {
  const client = new Client((await Server.start(t)).url), token = "a7".repeat(32);
  const made = await client.putActivity("bob", token, { platform: "apns", topic: "com.example.app", environment: "sandbox", kind: "update", object: "match:7" });
  assert.deepEqual((await client.listActivities("bob")).items, [made]);
  const ends_at = new Date(Date.now() + 3_600_000).toISOString();
  const { channel, state } = await client.putBroadcast("match:7", { topic: "com.example.app", environment: "sandbox", keep: "none", ends_at });
  assert.equal(state, "open");
  assert.equal((await client.getBroadcast("match:7")).channel, channel);
  assert.deepEqual((await client.listBroadcasts({ limit: 10 })).items.map((b) => b.object), ["match:7"]);
  await client.postEvent({ type: "match", audience: { activities_of: "match:7" }, live: { action: "update", content_state: { home: 1 } } });
  const { activities, broadcast } = await client.getLiveObject("match:7");
  assert.deepEqual([activities, broadcast?.channel], [{ apns: 1 }, channel]);
  await client.deleteActivity("bob", token, { object: "match:8" });
  assert.equal((await client.listActivities("bob")).items.length, 1);
  await client.deleteActivity("bob", token);
  await client.deleteBroadcast("match:7");
  assert.deepEqual((await client.getLiveObject("match:7")).activities, {});
  assert(((err) => err instanceof Problem && err.code === "not_found")(await failure(client.getBroadcast("match:7"))));
});

test("what passes is repeated after Retry-After, under the same key", async (t) => {
  const keys: unknown[] = [], times: number[] = [];
  const url = await answering(t, (request, answer) => {
    keys.push(request.headers["idempotency-key"]);
    times.push(performance.now());
    if (keys.length > 2) return answer.end('{"id":"e"}');
    answer.writeHead(503, { "Content-Type": "application/problem+json", "Retry-After": "1" });
    return answer.end('{"code":"overloaded","retryable":true,"detail":"busy"}');
  });
  assert.deepEqual(await new Client(url).postEvent({ type: "t", audience: { users: ["bob"] } }), { id: "e" });
  assert.equal(new Set(keys).size, 1);
  assert(times[1]! - times[0]! >= 999 && times[2]! - times[1]! >= 999, String(times));
  keys.length = 0;
  const busy = await failure(new Client(url).postEvent({ type: "t", audience: { users: ["bob"] } }, { timeout: 900 }));
  assert(busy instanceof Problem && busy.code === "overloaded" && busy.retryAfter === 1_000);
  assert.equal(keys.length, 1); // there is no time for another one
});

test("a call ends in time, or when its signal does", async (t) => {
  let tries = 0;
  const url = await answering(t, () => { tries++; });
  const client = new Client(url, { attemptTimeout: 50, attempts: 3 });
  const late = await failure(client.getSale("s"));
  assert(late instanceof Disconnected && late.mayHaveHappened);
  assert.equal(tries, 3);
  const stop = new AbortController(), reason = new Error("enough");
  setTimeout(() => stop.abort(reason), 20);
  assert.equal(await failure(new Client(url).getSale("s", { signal: stop.signal })), reason);
});

test("a server that is not there has done nothing", async () => {
  const gone = createServer();
  await once(gone.listen(0, "127.0.0.1"), "listening");
  const { port } = gone.address() as AddressInfo;
  await once(gone.close(), "close");
  const err = await failure(new Client(`http://127.0.0.1:${port}`, { attempts: 2 }).postToken("bob", { scopes: ["chat"] }));
  assert(err instanceof Disconnected && !err.mayHaveHappened, String(err));
});

test("a token that has ended is renewed once", async (t) => {
  const { env, key } = await withKey(t), server = await Server.start(t, env), backend = new Client(server.url, { key });
  let made = 0;
  const app = new Client(server.url, {
    token: async () => (made++ === 0 ? "ended" : (await backend.postToken("bob", { scopes: ["chat"] })).token),
  });
  const answers = await Promise.all([1, 2, 3].map(() => app.getPendingMessages("bob")));
  assert.deepEqual(answers, [{ chats: [] }, { chats: [] }, { chats: [] }]);
  assert(made >= 2 && made <= 3, `${made} tokens`); // one for all three
  const other = await failure(app.getPendingMessages("alice"));
  assert(other instanceof Problem && other.code === "forbidden");
  let asked = 0;
  const refused = await failure(new Client(server.url, { token: () => `wrong${asked++}` }).getPendingMessages("bob"));
  assert(refused instanceof Problem && refused.status === 401);
  assert.equal(asked, 2);
  assert.match(String(await failure(new Client(server.url, { token: () => undefined }).getPendingMessages("bob"))), /no user token/);
});
