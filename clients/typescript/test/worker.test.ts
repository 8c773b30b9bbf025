import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { test, type TestContext } from "node:test";
import { Client, Fail, Problem, Release, Worker, type Job, type WorkerOptions } from "fanfare";
import { Proxy } from "./proxy.js";
import { Server, until, withKey } from "./server.js";

const quick = { FANFARE_RETRY_BASE: "1ms", FANFARE_RETRY_MAX: "20ms" };

// A worker that runs until the test ends, and what was reported.
function running(t: TestContext, client: Client, handler: (job: Job) => unknown, options: WorkerOptions = {}) {
  const errors: unknown[] = [], worker = new Worker(client, "q", handler, { onError: (err) => errors.push(err), ...options });
  const run = worker.run();
  t.after(async () => { worker.stop(); await run.catch(() => {}); });
  return { worker, run, errors };
}

const state = async (client: Client, id: string) => (await client.getJob(id)).state;

test("jobs are completed, failed, put off and given back", async (t) => {
  const server = await Server.start(t, quick), client = new Client(server.url);
  const { items } = await client.postJobBatch("q", [
    { type: "fine", payload: { n: 1 }, key: "k" }, { type: "fails", max_attempts: 2 }, { type: "later" }, { type: "release" },
  ]);
  const seen: [string, number][] = [], fences: number[] = [];
  const { errors } = running(t, client, (job) => {
    seen.push([job.type, job.attempt]);
    fences.push(job.fence);
    assert(job.held() && !job.signal.aborted);
    if (job.type === "fine") assert.deepEqual([job.payload, job.key, job.id], [{ n: 1 }, "k", items[0]?.id]);
    if (job.type === "fails") throw new Error("too bad");
    if (job.type === "later" && job.attempt === 1) throw new Fail("not yet", 1_500);
    if (job.type === "release" && !seen.some(([type], i) => type === "release" && i < seen.length - 1)) throw new Release(1);
  });
  const [fine, fails, later, release] = items.map(({ id }) => id) as [string, string, string, string];
  await until(async () => await state(client, fine) === "done" && await state(client, fails) === "dead" && await state(client, release) === "done");
  assert.equal((await client.getJob(later)).state, "scheduled");
  await until(async () => await state(client, later) === "done");
  const attempts = (type: string) => seen.filter(([of]) => of === type).map(([, attempt]) => attempt);
  assert.deepEqual([attempts("fails"), attempts("later"), attempts("release")], [[1, 2], [1, 2], [1, 1]]);
  assert.deepEqual(fences, [...fences].sort((a, b) => a - b));
  const { items: letters } = await client.call<{ items: { last_error: string }[] }>("GET", "/v1/dead-letters", undefined, { query: { kind: "job" } });
  assert.deepEqual(letters.map((l) => l.last_error), ["Error: too bad"]);
  assert.equal(errors.length, 3);
});

test("a job fails, and the worker goes on, whatever is thrown and whatever onError does", async (t) => {
  const server = await Server.start(t, quick), client = new Client(server.url), told: unknown[] = [];
  const { items } = await client.postJobBatch("q", [{ type: "error", max_attempts: 1 }, { type: "textless", max_attempts: 1 }, { type: "fine" }]);
  const { worker, run } = running(t, client, (job) => {
    if (job.type === "error") throw new Error("too bad");
    if (job.type === "textless") throw Object.create(null);
  }, { lease: 900, onError: (err) => {
    told.push(err);
    if (told.length === 1) throw new Error("onError is broken");
    return Promise.reject(new Error("onError is broken"));
  } });
  const ended = run.then(() => undefined, (err: unknown) => err);
  const states = async () => Promise.all(items.map(({ id }) => state(client, id)));
  await until(async () => (await states()).every((s) => s === "dead" || s === "done"));
  assert.deepEqual([await states(), told.length], [["dead", "dead", "done"], 2]);
  worker.stop();
  assert.equal(await ended, undefined);
  const { items: letters } = await client.call<{ items: { last_error: string }[] }>("GET", "/v1/dead-letters", undefined, { query: { kind: "job" } });
  assert.deepEqual(letters.map((l) => l.last_error).sort(), ["Error: too bad", "an error without a text"]);
});

test("a long job keeps its lease, and many jobs are worked on at once", async (t) => {
  const server = await Server.start(t), client = new Client(server.url);
  const { items } = await client.postJobBatch("q", Array.from({ length: 6 }, () => ({ type: "t" })));
  let now = 0, most = 0, done = 0;
  running(t, client, async (job) => {
    most = Math.max(most, ++now);
    await sleep(1_500);
    assert(job.held() && job.attempt === 1);
    now--;
    done++;
  }, { lease: 500, concurrency: 3 });
  await until(async () => (await Promise.all(items.map(({ id }) => state(client, id)))).every((s) => s === "done"));
  assert.deepEqual([most, done], [3, 6]);
});

test("a handler is told that its job was cancelled", async (t) => {
  const server = await Server.start(t), client = new Client(server.url);
  const { id } = await client.postJob("q", { type: "t" });
  let told = false, held = true;
  running(t, client, async (job) => {
    await client.cancelJob(id);
    await sleep(20_000, undefined, { signal: job.signal }).catch(() => { told = true; held = job.held(); });
    throw new Error("cancelled");
  }, { lease: 900 });
  await until(() => told);
  assert.equal(held, false);
  await until(async () => await state(client, id) === "cancelled"); // the worker has still to say so
});

test("a handler is told that its lease is over, and another worker gets the job", async (t) => {
  const server = await Server.start(t), proxy = await Proxy.start(t, server.url), client = new Client(server.url);
  const { id } = await client.postJob("q", { type: "t" });
  let lost = 0;
  running(t, new Client(proxy.url, { attemptTimeout: 300 }), async (job) => {
    proxy.loses = () => true;
    const began = performance.now();
    await sleep(20_000, undefined, { signal: job.signal }).catch(() => { lost = performance.now() - began; });
    assert(!job.held());
    proxy.loses = () => false;
    throw new Error("lost");
  }, { lease: 900 });
  await until(() => lost > 0);
  assert(lost <= 900, `told after ${lost} ms`); // it counts from before the claim
  proxy.loses = () => false;
  const attempts: number[] = [];
  running(t, client, (job) => { attempts.push(job.attempt); });
  await until(async () => await state(client, id) === "done");
});

test("stop drains: jobs in hand are finished, and no other is begun", async (t) => {
  const server = await Server.start(t), client = new Client(server.url);
  const { items } = await client.postJobBatch("q", Array.from({ length: 5 }, () => ({ type: "t" })));
  const begun: string[] = [];
  const { worker, run } = running(t, client, async (job) => {
    begun.push(job.id);
    worker.stop();
    assert(worker.stopping.aborted);
    await sleep(200);
  }, { concurrency: 2 });
  await run;
  const states = await Promise.all(items.map(({ id }) => state(client, id)));
  assert.deepEqual(states.filter((s) => s === "done").length, begun.length);
  assert.deepEqual(states.filter((s) => s === "queued").length, items.length - begun.length);
  const idle = new Worker(client, "other", () => assert.fail("a job"));
  const ended = idle.run();
  idle.stop();
  await ended;
});

test("a worker whose answers are lost gets each job once, and need not wait for leases", async (t) => {
  const server = await Server.start(t), proxy = await Proxy.start(t, server.url), client = new Client(server.url);
  const { items } = await client.postJobBatch("q", Array.from({ length: 12 }, () => ({ type: "t" })));
  let n = 0;
  proxy.loses = () => n++ % 2 === 0;
  const seen: string[] = [];
  const { worker, run } = running(t, new Client(proxy.url), (job) => { seen.push(`${job.id} ${job.attempt}`); }, { concurrency: 4 });
  await until(async () => (await Promise.all(items.map(({ id }) => state(client, id)))).every((s) => s === "done"));
  proxy.loses = () => false;
  worker.stop();
  await run;
  assert.deepEqual(seen.sort(), items.map(({ id }) => `${id} 1`).sort()); // no lease had to end
});

test("a worker that is refused ends with the Problem", async (t) => {
  const { env } = await withKey(t), server = await Server.start(t, env);
  await assert.rejects(new Worker(new Client(server.url, { key: "wrong" }), "q", () => {}).run(), (err) => err instanceof Problem && err.status === 401);
});
