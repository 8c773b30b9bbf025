import { Disconnected, FanfareError, Problem, isPassing, mayHaveHappened } from "./errors.js";
import { follow, type Followed, type StreamEvent, type StreamOptions } from "./stream.js";
import { Deadline, backoff, now, pause } from "./time.js";

/** Gives a user token, a fresh one each time. It returns undefined if there is none any more: nobody is logged in. */
export type TokenSource = () => Promise<string | undefined> | string | undefined;

/** How a client calls. */
export interface ClientOptions {
  /** An API key. It belongs in a backend, never in a page. */
  key?: string | undefined;
  /** A user token, or a function that gets one. The function is called first, and when its last token has ended. */
  token?: string | TokenSource | undefined;
  /** How often a call is tried. Default: 5 */
  attempts?: number | undefined;
  /** How long a call may take with all its repeats, in milliseconds. Default: 60,000 */
  timeout?: number | undefined;
  /** How long one try may take, in milliseconds, beside the `wait_ms` of a call that waits. Default: 10,000 */
  attemptTimeout?: number | undefined;
  /** Another fetch. Default: the global one */
  fetch?: typeof fetch | undefined;
}

/** What one call may say. */
export interface CallOptions {
  /** The values of `{name}` in the path. They are escaped. */
  params?: Record<string, string | number> | undefined;
  /** The query. What is undefined is left out. */
  query?: Record<string, string | number | boolean | undefined> | undefined;
  headers?: Record<string, string> | undefined;
  /** The same key makes the same call once. Default: a POST gets a new one */
  idempotencyKey?: string | undefined;
  /** As in {@link ClientOptions}, for this call. */
  attempts?: number | undefined;
  timeout?: number | undefined;
  /** Ends the call. The call then throws the signal's reason, and may have happened. */
  signal?: AbortSignal | undefined;
}

type Method = "GET" | "PUT" | "POST" | "PATCH" | "DELETE";

// The POSTs whose answer is a secret take no Idempotency-Key.
const secret = /^\/v1\/(keys|users\/[^/]+\/(tokens|tickets)|webhooks\/[^/]+\/secrets)$/;

/** Makes calls, repeats them where that is safe, and follows streams. */
export class Caller {
  readonly #url: string;
  readonly #options: ClientOptions;
  readonly #fetch: typeof fetch;
  #token: Promise<string | undefined> | undefined;

  /** @param url where the server is, such as `https://fanfare.internal`; a path in front of `/v1` is possible */
  constructor(url: string, options: ClientOptions = {}) {
    this.#url = new URL(url).href.replace(/\/+$/, "");
    if (options.key && options.token) throw new TypeError("give a key or a token, not both");
    this.#options = options;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  /**
   * Makes a call and returns its JSON, or undefined for an answer without a body. The call is repeated after a
   * {@link Disconnected} and after a problem that may pass, such as `overloaded`, with an exponential backoff and at least
   * `Retry-After` in between. A call that may have had an effect is repeated only if that does no harm: all but a POST
   * without an Idempotency-Key and a PUT, PATCH or DELETE with a condition.
   *
   * @throws {Problem} the server refused it
   * @throws {Disconnected} there was no answer
   */
  async call<T = unknown>(method: Method, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
    const request = this.#request(method, path, body, options);
    const end = now() + (options.timeout ?? this.#options.timeout ?? 60_000) + request.wait;
    const attempts = options.attempts ?? this.#options.attempts ?? 5;
    for (let n = 0, renewed = false; ;) {
      try {
        return await this.#try<T>(request, end, options.signal);
      } catch (err) {
        if (!(err instanceof Problem || err instanceof Disconnected)) throw err;
        if (err instanceof Problem && err.status === 401 && !renewed && this.#forget(request.token)) {
          renewed = true;
          continue;
        }
        const wait = backoff(n, err instanceof Problem ? err.retryAfter : 0);
        n++;
        if (!isPassing(err) || (mayHaveHappened(err) && !request.repeatable) || n >= attempts || now() + wait >= end) throw err;
        await pause(wait, options.signal);
        options.signal?.throwIfAborted();
      }
    }
  }

  /**
   * Follows a stream of server-sent events for as long as `options.signal` lets it. A stream that was cut, or that is silent for
   * longer than the server's heartbeats allow, is opened again exactly where it left off. So each event comes once, and what
   * the server no longer keeps is told by an event `gap`. Ends with a {@link Problem} if the server refuses the stream for
   * good.
   */
  stream<E extends Followed = Followed>(path: string, options: StreamOptions = {}): AsyncGenerator<StreamEvent<E>, void, undefined> {
    const url = this.#url + fill(path, options.params) + search(options.query);
    let token: string | undefined;
    return follow<E>({
      open: async (headers, signal) => {
        const all = new Headers(headers);
        token = await this.#authorize(all);
        return this.#fetch(url, { headers: all, signal, cache: "no-store" });
      },
      renew: () => this.#forget(token),
    }, options);
  }

  #request(method: Method, path: string, body: unknown, options: CallOptions): Request {
    const filled = fill(path, options.params), headers = new Headers(options.headers);
    if (body !== undefined) headers.set("Content-Type", "application/json");
    if (options.idempotencyKey !== undefined) headers.set("Idempotency-Key", options.idempotencyKey);
    if (method === "POST" && !headers.has("Idempotency-Key") && !secret.test(filled)) headers.set("Idempotency-Key", newKey());
    const conditional = method !== "GET" && (headers.has("If-Match") || headers.has("If-None-Match"));
    return {
      method, headers, path: filled, url: this.#url + filled + search(options.query),
      body: body === undefined ? null : JSON.stringify(body),
      wait: waitOf(body) || waitOf(options.query),
      repeatable: method === "POST" ? headers.has("Idempotency-Key") : !conditional,
    };
  }

  async #try<T>(request: Request, end: number, outer: AbortSignal | undefined): Promise<T> {
    outer?.throwIfAborted();
    const limit = (this.#options.attemptTimeout ?? 10_000) + request.wait;
    const deadline = new Deadline(outer, Math.min(limit, end - now()));
    let sent = false;
    try {
      const headers = new Headers(request.headers);
      request.token = await this.#authorize(headers);
      sent = true;
      const { method, body, url } = request;
      const answer = await this.#fetch(url, { method, headers, body, signal: deadline.signal, cache: "no-store" });
      return result<T>(request, answer, await answer.text());
    } catch (err) {
      if (err instanceof FanfareError) throw err;
      outer?.throwIfAborted();
      const why = deadline.passed ? "no answer in time" : "no answer";
      throw new Disconnected(`${request.method} ${request.path}: ${why}: ${reason(err)}`, sent && !neverSent(err), err);
    } finally {
      deadline.close();
    }
  }

  // #authorize sets the header and returns the token that a function gave.
  async #authorize(headers: Headers): Promise<string | undefined> {
    const { key, token } = this.#options;
    if (typeof token !== "function") {
      if (key ?? token) headers.set("Authorization", `Bearer ${key ?? token}`);
      return undefined;
    }
    const pending = this.#token ??= Promise.resolve().then(token);
    const made = await pending.catch((err: unknown) => {
      if (this.#token === pending) this.#token = undefined;
      throw err;
    });
    if (made === undefined) {
      if (this.#token === pending) this.#token = undefined;
      throw new FanfareError("there is no user token any more");
    }
    headers.set("Authorization", `Bearer ${made}`);
    this.#made = made;
    return made;
  }

  #made: string | undefined;

  // #forget drops a token that has ended, and says whether there may be another one.
  #forget(token: string | undefined): boolean {
    if (token === undefined) return false;
    if (this.#made === token) this.#made = this.#token = undefined;
    return true;
  }
}

interface Request {
  method: Method;
  path: string;
  url: string;
  headers: Headers;
  body: string | null;
  /** The `wait_ms` of the call. */
  wait: number;
  repeatable: boolean;
  token?: string | undefined;
}

function result<T>(request: Request, answer: Response, text: string): T {
  if (!answer.ok && answer.status !== 304) throw new Problem(answer.status, answer.headers, text);
  if (text === "") return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch (err) {
    throw new FanfareError(`${request.method} ${request.path}: the answer is not JSON: ${text.slice(0, 200)}`, { cause: err });
  }
}

function fill(path: string, params: Record<string, string | number> = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(params[name] ?? "");
    if (value === "" || value === "." || value === "..") throw new TypeError(`${path}: ${name} can't be ${JSON.stringify(value)}`);
    return encodeURIComponent(value);
  });
}

function search(query: CallOptions["query"] = {}): string {
  const used = Object.entries(query).filter(([, value]) => value !== undefined);
  return used.length ? `?${new URLSearchParams(used.map(([name, value]) => [name, String(value)]))}` : "";
}

function waitOf(source: unknown): number {
  const wait = (source as { wait_ms?: unknown } | undefined | null)?.wait_ms;
  return typeof wait === "number" ? wait : 0;
}

/** A new Idempotency-Key. Pages without TLS have no crypto.randomUUID. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function reason(err: unknown): string {
  const cause = err instanceof Error && err.cause instanceof Error ? err.cause : err;
  return cause instanceof Error ? (cause as { code?: string }).code ?? cause.message : String(cause);
}

// neverSent tells whether no connection was made. Node says so; browsers do not.
function neverSent(err: unknown): boolean {
  const code = err instanceof Error ? (err.cause as { code?: unknown } | undefined)?.code : undefined;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(String(code));
}
