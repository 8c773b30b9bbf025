// A real server for tests: on one port and one folder, so that it can be killed and started again.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { closeSync, openSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "node:test";

const program = process.env.FANFARE_PROGRAM;
assert(program, "FANFARE_PROGRAM names the server");

export class Server {
  url = "";
  #process: ChildProcess | undefined;

  private constructor(private readonly folder: string, private readonly env: Record<string, string>) {}

  /** Starts a server that ends with the test. Its Redis is in memory unless the variables say otherwise. */
  static async start(t: TestContext, env: Record<string, string> = {}): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "fanfare-ts-")), env);
    t.after(async () => {
      await server.end("SIGTERM");
      await rm(server.folder, { recursive: true, force: true });
    });
    await server.start();
    return server;
  }

  /** Starts it, again if need be, and waits until it answers. */
  async start(): Promise<void> {
    const name = join(this.folder, "log"), log = openSync(name, "w"); // only the log of this start
    const { PATH = "", HOME = "" } = process.env;
    this.#process = spawn(program!, [], {
      cwd: this.folder, stdio: ["ignore", log, log],
      env: { PATH, HOME, FANFARE_EMBEDDED: "memory", FANFARE_ADDR: this.url ? new URL(this.url).host : "127.0.0.1:0", ...this.env },
    });
    closeSync(log);
    await until(async () => {
      const text = await readFile(name, "utf8");
      assert.equal(this.#process?.exitCode, null, text);
      this.url = /"docs":"(http:\/\/[0-9.:]+)\/docs\/"/.exec(text)?.[1] ?? this.url;
      return this.url !== "" && (await fetch(`${this.url}/readyz`).catch(() => undefined))?.ok;
    });
  }

  /** Ends it, by kill -9 if not told otherwise. */
  async end(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const ended = this.#process;
    this.#process = undefined;
    if (!ended || ended.exitCode !== null || ended.signalCode !== null) return;
    const exit = once(ended, "exit");
    ended.kill(signal);
    await exit;
  }

  /** Kills it and starts it on the same data. */
  async crash(): Promise<void> {
    await this.end();
    await this.start();
  }
}

/** An API key with all scopes, and the variables of a server that has it. */
export async function withKey(t: TestContext): Promise<{ key: string; env: Record<string, string> }> {
  const folder = await mkdtemp(join(tmpdir(), "fanfare-ts-key-")), key = `ff_${"k".repeat(26)}_${"s".repeat(52)}`;
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "key"), key);
  return { key, env: { FANFARE_ADMIN_KEY_FILE: join(folder, "key") } };
}

/** Waits until something is true, for a minute at most. */
export async function until(condition: () => unknown, what = "the condition"): Promise<void> {
  for (const end = Date.now() + 60_000; ; await sleep(20)) {
    if (await condition()) return;
    assert(Date.now() < end, `${what} does not come true in a minute`);
  }
}
