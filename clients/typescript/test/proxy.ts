// A proxy that loses answers, and one that falls silent.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

export class Proxy {
  url = "";
  /** Whether the next answer is lost: its request has arrived, and the connection is cut in its place. */
  loses: () => boolean = () => false;
  /** How many answers were lost. */
  lost = 0;
  readonly #sockets = new Set<Socket>();

  static async start(t: TestContext, target: string): Promise<Proxy> {
    const proxy = new Proxy(), { port, hostname } = new URL(target);
    const listener = createServer((client) => {
      const server = connect(Number(port), hostname);
      for (const [from, to] of [[client, server], [server, client]] as const) {
        proxy.#sockets.add(from);
        from.on("error", () => {}).on("close", () => { proxy.#sockets.delete(from); to.destroy(); });
      }
      client.on("data", (data) => server.write(data));
      server.on("data", (data) => {
        if (!proxy.loses()) return client.write(data);
        proxy.lost++;
        return client.destroy();
      });
    });
    await once(listener.listen(0, "127.0.0.1"), "listening");
    t.after(() => { listener.close(); proxy.cut(); });
    proxy.url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
    return proxy;
  }

  /** Cuts all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Passes nothing on any more over the connections that are open, without closing them. */
  freeze(): void {
    for (const socket of this.#sockets) socket.removeAllListeners("data").pause();
  }
}
