// Runs the code of README.md, which test.sh writes into files: each block after the one that makes the client.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "fanfare";
import { Server, until } from "./server.js";

// A program made of a block, and what it has printed.
function run(t: TestContext, block: number, url: string) {
  const program = spawn(process.execPath, [fileURLToPath(new URL(`readme-${block}.js`, import.meta.url))], {
    env: { ...process.env, FANFARE_URL: url }, stdio: ["ignore", "pipe", "inherit"],
  });
  const printed = { text: "" }, exit = once(program, "exit");
  program.stdout.on("data", (data) => { printed.text += data; });
  t.after(() => program.kill("SIGKILL"));
  return { program, printed, exit };
}

test("the code of the README runs", async (t) => {
  const { url } = await Server.start(t), client = new Client(url);
  for (const [block, text] of [[2, "1 { items: [] }\n"], [3, "bounds 409 false 1\n"]] as const) {
    const { printed, exit } = run(t, block, url);
    assert.deepEqual(await exit, [0, null]);
    assert.equal(printed.text, text);
  }
  await client.createChat({ creator: "alice", members: ["bob"], message: "hello" });
  const stream = run(t, 4, url);
  await until(() => stream.printed.text === "alice hello\n", "a message");
  const { id } = await client.postJob("emails", { type: "welcome", payload: { to: "bob" } });
  const worker = run(t, 5, url);
  await until(async () => (await client.getJob(id)).state === "done", "a job");
  worker.program.kill("SIGTERM");
  assert.deepEqual(await worker.exit, [0, null]);
  assert.match(worker.printed.text, /^welcome \{ to: 'bob' \} 1 \d+\n$/);
});
