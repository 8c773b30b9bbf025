import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Problem, type FanfareError } from "fanfare";
import { EventParser } from "./node_modules/fanfare/dist/sse.js";
import { Proxy } from "./proxy.js";
import { Server, until, withKey } from "./server.js";

test("events are read from pieces of any size, with every kind of line", () => {
  const text = ": hello\n\nretry: 1500\r\n\r\nid: 7\nevent: message\ndata: {\"a\":\ndata: 1}\n\nid: 8\n\rdata:x\r\rdata\n\n: beat\n\nid: 9\n\ndata: late";
  const whole = [...new EventParser().push(text)];
  assert.deepEqual(whole, [
    { event: "message", data: '{"a":\n1}', id: "7" }, { event: "message", data: "x", id: "8" }, { event: "message", data: "", id: "8" },
  ]);
  for (let size = 1; size < text.length; size++) {
    const parser = new EventParser(), events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual([events, parser.id, parser.retry], [whole, "9", 1500], `pieces of ${size}`);
  }
});

test("a stream begins, resumes after an id, and ends with its signal", async (t) => {
  const server = await Server.start(t), client = new Client(server.url);
  await client.createChat({ id: "team", creator: "alice", members: ["bob"], message: "one" });
  await client.postMessage("team", { sender: "alice", text: "two", data: { k: "v" } });
  let first: string | undefined;
  for await (const event of client.streamMessages("bob")) {
    assert(event.event === "message");
    assert.equal(event.data.text, "one");
    first = event.id;
    break;
  }
  const stop = new AbortController(), texts = [];
  for await (const event of client.streamMessages("bob", { lastEventId: first, signal: stop.signal })) {
    assert(event.event === "message");
    texts.push([event.data.text, event.data.data]);
    setTimeout(() => stop.abort(), 50);
  }
  assert.deepEqual(texts, [["two", { k: "v" }]]);
});

test("a gap is told", async (t) => {
  const server = await Server.start(t, { FANFARE_CHAT_MAX_MESSAGES: "2" }), client = new Client(server.url);
  await client.createChat({ id: "team", creator: "alice", members: ["bob"] });
  for (let i = 0; i < 5; i++) await client.postMessage("team", { sender: "alice", text: String(i) });
  const events = [];
  for await (const { event, data } of client.streamMessages("bob")) {
    events.push(event === "gap" ? data.first_id : event === "message" ? data.text : event);
    if (events.length === 3) break;
  }
  assert.deepEqual(events, [4, "3", "4"]);
});

test("a stream that falls silent is opened again, and misses nothing", async (t) => {
  const server = await Server.start(t), proxy = await Proxy.start(t, server.url), client = new Client(server.url);
  await client.createChat({ id: "team", creator: "alice", members: ["bob"], message: "0" });
  const cuts: FanfareError[] = [], seen: string[] = [];
  for await (const event of new Client(proxy.url).streamMessages("bob", { silence: 1_000, onCut: (why) => cuts.push(why) })) {
    assert(event.event === "message");
    seen.push(event.data.text);
    if (seen.length === 3) break;
    proxy.freeze();
    await client.postMessage("team", { sender: "alice", text: String(seen.length) });
  }
  assert.deepEqual(seen, ["0", "1", "2"]);
  assert(cuts.length >= 2 && cuts.every((why) => /silent/.test(why.message)), String(cuts));
});

test("a stream outlives its token, and ends if there is no other", async (t) => {
  const { env, key } = await withKey(t), server = await Server.start(t, env), backend = new Client(server.url, { key });
  await backend.createChat({ id: "team", creator: "alice", members: ["bob"], message: "0" });
  let made = 0, left = 2;
  const token = async () => {
    if (left-- <= 0) return undefined;
    made++;
    return (await backend.postToken("bob", { scopes: ["chat"], ttl_seconds: 2 })).token;
  };
  const seen: string[] = [], cuts: string[] = [];
  const follow = async () => {
    for await (const event of new Client(server.url, { token }).streamMessages("bob", { onCut: (why) => cuts.push(why.message) })) {
      assert(event.event === "message");
      seen.push(event.data.text);
    }
  };
  const following = follow().then(() => assert.fail("the stream ended without an error"), (err: unknown) => err);
  await until(() => seen.length === 1);
  await until(() => made === 2, "another token");
  await backend.postMessage("team", { sender: "alice", text: "1" });
  assert.match(String(await following), /no user token/);
  assert.deepEqual(seen, ["0", "1"]);
  assert.match(cuts[0] ?? "", /expired/);
});

test("a stream that is refused for good ends with the Problem", async (t) => {
  const { env } = await withKey(t), server = await Server.start(t, env);
  await assert.rejects(new Client(server.url, { key: "wrong" }).streamSale("s").next(), (err) => err instanceof Problem && err.status === 401);
});

test("the stock of a sale is followed", async (t) => {
  const server = await Server.start(t), client = new Client(server.url);
  await client.putSale("s", { items: [{ sku: "a", stock: 2 }], starts_at: "2026-01-01T00:00:00Z", ends_at: "2099-01-01T00:00:00Z" });
  const left = [];
  for await (const event of client.streamSale("s")) {
    assert(event.event === "stock");
    left.push(event.data.available.a);
    if (event.data.state === "sold_out") break;
    await client.postReservation("s", { user: "alice", lines: [{ sku: "a", quantity: 1 }] });
  }
  assert.deepEqual(left, [2, 1, 0]);
});
