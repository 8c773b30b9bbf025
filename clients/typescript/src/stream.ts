import { Disconnected, FanfareError, Problem, isPassing } from "./errors.js";
import { EventParser } from "./sse.js";
import { Deadline, pause } from "./time.js";

/** The events of a stream: their names, and the JSON that they carry. */
export type Followed = { event: string; data: unknown };

/** An event of a stream. */
export type StreamEvent<E extends Followed> = E & {
  /** Hand it to `lastEventId` to go on after this event, also in another process. */
  id: string;
};

/** How a stream is followed. */
export interface StreamOptions {
  params?: Record<string, string | number> | undefined;
  query?: Record<string, string | number | boolean | undefined> | undefined;
  /** The `id` of the last event that was seen before. Default: the stream begins where the contract says */
  lastEventId?: string | undefined;
  /** Ends the stream, without an error. */
  signal?: AbortSignal | undefined;
  /** A stream that is silent for longer, in milliseconds, is opened again. Default: 40,000; the server sends something every 15,000 */
  silence?: number | undefined;
  /** Is told that the stream is open. */
  onOpen?: (() => void) | undefined;
  /** Is told why the stream was cut, or could not be opened. It will be opened again. */
  onCut?: ((why: FanfareError) => void) | undefined;
}

/** How a client opens a stream, and renews its token. */
export interface Opener {
  open(headers: Record<string, string>, signal: AbortSignal): Promise<Response>;
  /** Drops the token, and says whether there may be another one. */
  renew(): boolean;
}

const openWithin = 10_000, longestPause = 30_000;

/** Follows a stream over all its connections. */
export async function* follow<E extends Followed>(opener: Opener, options: StreamOptions): AsyncGenerator<StreamEvent<E>, void, undefined> {
  let id = options.lastEventId ?? "", retry = 1_000, vain = 0, renewed = false;
  while (!options.signal?.aborted) {
    const parser = new EventParser(id), connection = new Deadline(options.signal, openWithin);
    let cut: FanfareError, wait = 0;
    try {
      const answer = await opener.open(id ? { "Last-Event-ID": id } : {}, connection.signal);
      if (!answer.ok || !answer.body) throw new Problem(answer.status, answer.headers, await answer.text());
      options.onOpen?.();
      renewed = false;
      cut = new Disconnected("the stream ended", false);
      for await (const text of texts(answer.body, connection, options.silence ?? 40_000)) {
        vain = 0;
        for (const raw of parser.push(text)) {
          if (raw.event === "bye") {
            cut = new FanfareError(`the stream ended: ${raw.data}`);
            opener.renew();
            continue;
          }
          yield { event: raw.event, data: JSON.parse(raw.data), id: raw.id } as StreamEvent<E>;
          id = raw.id;
        }
        id = parser.id;
      }
    } catch (err) {
      if (options.signal?.aborted) return;
      cut = asError(err, connection.passed);
      if (cut instanceof Problem && cut.status === 401 && !renewed && opener.renew()) renewed = true;
      else if (!(cut instanceof Problem || cut instanceof Disconnected) || !isPassing(cut)) throw cut;
      wait = cut instanceof Problem ? cut.retryAfter ?? 0 : 0;
    } finally {
      connection.close();
    }
    if (options.signal?.aborted) return;
    options.onCut?.(cut);
    retry = parser.retry ?? retry;
    // The server chose its first pause at random. The next ones grow, and are random again.
    const growing = vain ? Math.min(longestPause, retry * 2 ** vain) * (0.5 + Math.random() / 2) : retry;
    if (!renewed) await pause(wait + growing, options.signal);
    vain++;
  }
}

// texts reads the body, and ends the connection if it is silent for too long. The clock stops while the caller is busy.
async function* texts(body: ReadableStream<Uint8Array>, connection: Deadline, silence: number): AsyncGenerator<string> {
  const reader = body.getReader(), decoder = new TextDecoder();
  for (;;) {
    connection.extend(silence);
    const { done, value } = await reader.read();
    connection.halt();
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}

function asError(err: unknown, late: boolean): FanfareError {
  if (err instanceof FanfareError) return err;
  if (late) return new Disconnected("the stream was silent for too long", false, err);
  const cause = err instanceof Error && err.cause instanceof Error ? err.cause : err;
  return new Disconnected(`the stream was cut: ${cause instanceof Error ? cause.message : String(cause)}`, false, err);
}
