// The server is killed with kill -9 and started again on its data, while calls, a stream and a worker go on.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Worker } from "fanfare";
import { Server, until } from "./server.js";

const lacks = ["redis-server", "valkey-server"].every((name) => spawnSync(name, ["--version"]).error) && "there is no redis-server, whose data survives kill -9";

test("nothing is lost and nothing comes twice over kill -9", { skip: lacks }, async (t) => {
  const server = await Server.start(t, { FANFARE_EMBEDDED: "redis" });
  const client = new Client(server.url, { attempts: 100 });
  await client.createChat({ id: "team", creator: "alice", members: ["bob"] });
  await client.putCounter("c", { value: 0 });
  const count = 150, stop = new AbortController(), seen = new Set<string>(), worked: string[] = [], enqueued: string[] = [];
  let last = 0;
  const follow = async () => {
    for await (const event of client.streamMessages("bob", { signal: stop.signal })) {
      // After a gap, which the server may tell of when its Redis was started anew, messages may come again.
      if (event.event === "gap") last = event.data.first_id - 1;
      if (event.event !== "message") continue;
      assert.equal(event.data.id, last + 1, "a message is missing or comes twice");
      last = event.data.id;
      seen.add(event.data.text);
    }
  };
  const worker = new Worker(client, "q", async (job) => {
    worked.push(job.id);
    await sleep(20);
  }, { concurrency: 4, onError: () => {} });
  const following = follow(), working = worker.run();
  let posted = 0;
  const post = async () => {
    for (; posted < count; posted++) {
      await client.postMessage("team", { sender: "alice", text: String(posted) });
      enqueued.push((await client.postJob("q", { type: "t" })).id);
      await client.addToCounter("c", { delta: 1 });
    }
  };
  const posting = post();
  for (const at of [30, 90]) {
    await until(() => posted >= at);
    await server.crash();
  }
  await posting;
  await until(() => seen.size >= count && worked.length >= count, "the end");
  await until(async () => (await Promise.all(enqueued.map((id) => client.getJob(id)))).every(({ state }) => state === "done"));
  stop.abort();
  worker.stop();
  await Promise.all([following, working]);
  const { items, last_id } = await client.listMessages("team", { user: "bob", after: 0, limit: 500 });
  assert.equal(last_id, count);
  assert.deepEqual(items.map((m) => m.text), Array.from({ length: count }, (_, i) => String(i)));
  assert.deepEqual(worked.sort(), enqueued.sort());
  assert.equal((await client.getCounter("c")).value, count);
});
