// A page in Chromium, of another origin than the server, uses the client as it is.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "fanfare";
import { Server, withKey } from "./server.js";

const chromium = ["chromium", "chromium-browser", "google-chrome"].find((name) => !spawnSync(name, ["--version"]).error);
const subscription = {
  endpoint: "https://fcm.googleapis.com/fcm/send/ts", expirationTime: null,
  keys: { p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", auth: "BTBZMqHH6r4Tts7J_aSIgg" },
};

// There is no push service here, so the page has a browser's answers of its own: what the client asks for is checked.
const page = `<!doctype html><script type="importmap">{"imports": {"fanfare": "/dist/index.js"}}</script><script type="module">
import { Client, registerWebPush } from "fanfare";
const asked = [];
Notification.requestPermission = async () => "granted";
const subscription = { toJSON: () => (${JSON.stringify(subscription)}), unsubscribe: async () => { asked.push("unsubscribed"); } };
Object.defineProperty(navigator, "serviceWorker", { value: {
  register: async (url) => { asked.push(url); },
  ready: Promise.resolve({ pushManager: { subscribe: async (options) => { asked.push(options); return subscription; } } }),
} });
const tell = (path, body) => fetch(path, { method: "POST", body: JSON.stringify(body) });
try {
  const { url } = await (await fetch("/session")).json();
  const client = new Client(url, { token: async () => (await (await fetch("/session")).json()).token });
  const texts = [];
  const sent = await client.postMessage("team", { sender: "bob", text: "from the page" });
  for await (const event of client.streamMessages("bob")) {
    texts.push(event.data.text);
    if (event.data.id === sent.id) break;
  }
  let problem;
  await client.getPendingMessages("alice").catch((err) => { problem = [err.name, err.code]; });
  const options = { user: "bob", topic: "web.example", serviceWorker: "worker.js" };
  const first = await registerWebPush(client, options), again = await registerWebPush(client, options);
  const { items } = await client.call("GET", "/v1/users/bob/devices");
  await again.unregister();
  const { items: after } = await client.call("GET", "/v1/users/bob/devices");
  await tell("/result", { texts, problem, same: first.token === again.token, items, after, asked });
} catch (err) { await tell("/result", { error: String(err.stack ?? err) }); }
</script>`;

test("a page calls, follows and registers", { skip: !chromium && "there is no Chromium" }, async (t) => {
  let result = (_: unknown) => {};
  const told = new Promise<Record<string, unknown>>((resolve) => { result = (value) => resolve(value as Record<string, unknown>); });
  const { env, key } = await withKey(t);
  let backend: Client;
  const site = createServer(async (request, answer) => {
    if (request.url === "/session") {
      const { token } = await backend.postToken("bob", { scopes: ["chat", "devices"] });
      return answer.end(JSON.stringify({ url: server.url, token }));
    }
    if (request.url === "/result") {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      result(JSON.parse(Buffer.concat(parts).toString()));
      return answer.end();
    }
    const file = /^\/dist\/(\w+\.js)$/.exec(request.url ?? "")?.[1];
    if (!file) return answer.writeHead(200, { "Content-Type": "text/html" }).end(page);
    const text = await readFile(new URL(`./node_modules/fanfare/dist/${file}`, import.meta.url));
    return answer.writeHead(200, { "Content-Type": "text/javascript" }).end(text);
  });
  await once(site.listen(0, "127.0.0.1"), "listening");
  t.after(() => { site.closeAllConnections(); site.close(); });
  const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  const server = await Server.start(t, { ...env, FANFARE_ALLOWED_ORIGINS: origin });
  backend = new Client(server.url, { key });
  await backend.createChat({ id: "team", creator: "alice", members: ["bob"], message: "hello" });
  const profile = await mkdtemp(join(tmpdir(), "fanfare-ts-browser-"));
  const browser = spawn(chromium!, ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", `--user-data-dir=${profile}`, `${origin}/`], { stdio: "ignore" });
  const exit = once(browser, "exit");
  t.after(async () => {
    browser.kill("SIGTERM");
    await exit;
    await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  });
  const { items, asked, ...rest } = await told as { items: { origin: string; state: string }[]; asked: unknown[] };
  assert.deepEqual(rest, { texts: ["hello", "from the page"], problem: ["Problem", "forbidden"], same: true, after: [] });
  assert.deepEqual(items.map((d) => [d.origin, d.state]), [["https://fcm.googleapis.com", "active"]]);
  const { key: pushKey } = await backend.getPushKey("web.example");
  const subscribe = { userVisibleOnly: true, applicationServerKey: pushKey };
  assert.deepEqual(asked, ["worker.js", subscribe, "worker.js", subscribe, "unsubscribed"]);
});
