import { Disconnected, FanfareError, Problem, isPassing } from "./errors.js";
import { newKey, type Caller } from "./caller.js";
import { Deadline, backoff, now, pause } from "./time.js";
import type { Schemas } from "./client.js";

/** A job that a handler works on. */
export class Job<Payload = unknown> {
  /** The same at each attempt: an idempotency key for what the job does elsewhere. */
  readonly id: string;
  readonly type: string;
  /** The conflict key. */
  readonly key: string | undefined;
  readonly payload: Payload;
  /** 1 more than the failures and ended leases of the job. */
  readonly attempt: number;
  /** Rises within a queue. Send it along with what you write, and let the other side refuse a lower one. */
  readonly fence: number;
  /** The span of the call that enqueued the job, in the form of W3C Trace Context. */
  readonly traceparent: string | undefined;
  /** Ends when the job is cancelled, or no longer this worker's. Write nothing more then. */
  readonly signal: AbortSignal;
  readonly #held: () => boolean;

  constructor(claimed: Schemas["ClaimedJob"], signal: AbortSignal, held: () => boolean) {
    this.id = claimed.id;
    this.type = claimed.type;
    this.key = claimed.key;
    this.payload = claimed.payload as Payload;
    this.attempt = claimed.attempt;
    this.fence = claimed.fence;
    this.traceparent = claimed.traceparent;
    this.signal = signal;
    this.#held = held;
  }

  /** Whether the job is still this worker's. It asks the clock, also when timers are late. */
  held(): boolean { return this.#held(); }
}

/** Throw it to fail a job with a wait of your own. Any other error fails the job, too. */
export class Fail extends FanfareError {
  override name = "Fail";
  /** @param retryAfter the least time until the next attempt, in milliseconds */
  constructor(message: string, readonly retryAfter?: number) { super(message); }
}

/** Throw it to give a job back. Nothing counts. */
export class Release extends FanfareError {
  override name = "Release";
  /** @param retryAfter when others may claim the job, in milliseconds. Default: at once */
  constructor(readonly retryAfter?: number) { super("released"); }
}

/** How a worker works. */
export interface WorkerOptions {
  /** How many jobs it works on at once. Default: 1 */
  concurrency?: number | undefined;
  /** How long a job stays with a worker that died, in milliseconds. Default: 30,000 */
  lease?: number | undefined;
  /** Only jobs of these types. Default: all */
  types?: string[] | undefined;
  /** What the worker is called. Default: a random name */
  name?: string | undefined;
  /** Is told what went wrong; with the job, if it was about one. What it throws or rejects with goes to console.error. Default: console.error */
  onError?: ((err: unknown, job?: Job) => unknown) | undefined;
}

type Result = Omit<Schemas["JobResult"], "id" | "token">;

/**
 * Claims jobs of a queue and works on them. It renews each lease at a third of its time, completes a job when the handler
 * returns and fails it when the handler throws. A handler that computes without a pause also blocks the renewals.
 */
export class Worker<Payload = unknown> {
  readonly #client: Caller;
  readonly #queue: string;
  readonly #handler: (job: Job<Payload>) => unknown;
  readonly #options: WorkerOptions;
  readonly #lease: number;
  readonly #name: string;
  readonly #stop = new AbortController();

  constructor(client: Caller, queue: string, handler: (job: Job<Payload>) => unknown, options: WorkerOptions = {}) {
    this.#client = client;
    this.#queue = queue;
    this.#handler = handler;
    this.#options = options;
    this.#lease = options.lease ?? 30_000;
    this.#name = options.name ?? `js-${newKey()}`;
  }

  /** Ends when stop was called. Long jobs may look at it, and throw {@link Release}. */
  get stopping(): AbortSignal { return this.#stop.signal; }

  /** Has the worker claim nothing more. It is safe in a handler of SIGTERM. */
  stop(): void { this.#stop.abort(); }

  /**
   * Works until stop is called and all jobs are finished. What a claim brings after stop goes back uncounted.
   *
   * @throws {Problem} the server refuses the worker for good; the jobs in hand are finished before
   */
  async run(): Promise<void> {
    const busy = new Set<Promise<void>>(), max = this.#options.concurrency ?? 1;
    try {
      while (!this.stopping.aborted) {
        for (const [job, until] of await this.#claim(max - busy.size)) {
          const work = (this.stopping.aborted ? this.#tell(job, { outcome: "release" }) : this.#work(job, until))
            .catch((err: unknown) => this.#report(err))
            .then(() => { busy.delete(work); });
          busy.add(work);
        }
        if (busy.size >= max) await Promise.race(busy);
      }
    } finally {
      await Promise.all(busy);
    }
  }

  // #claim returns jobs, each with the end of its lease. A claim without an answer is repeated under its key, and gets the same
  // jobs. Their leases began with the first one.
  async #claim(max: number): Promise<[Schemas["ClaimedJob"], number][]> {
    const idempotencyKey = newKey(), sent = now();
    const body = {
      worker: this.#name, max: Math.min(max, 100), lease_ms: this.#lease,
      wait_ms: Math.floor(Math.min(this.#lease / 6, 30_000)),
      ...(this.#options.types && { types: this.#options.types }),
    };
    for (let n = 0; ; n++) {
      try {
        const options = { params: { queue: this.#queue }, idempotencyKey, attempts: 1 };
        const { jobs } = await this.#client.call<Schemas["ClaimedJobs"]>("POST", "/v1/queues/{queue}/claims", body, options);
        return jobs.map((job) => [job, sent + job.lease_ms]);
      } catch (err) {
        if (!(err instanceof Problem || err instanceof Disconnected) || !isPassing(err)) throw err;
        this.#report(err);
        await pause(backoff(n, err instanceof Problem ? err.retryAfter : 0), this.stopping);
        if (this.stopping.aborted || now() > sent + this.#lease * 2 / 3) return [];
      }
    }
  }

  async #work(claimed: Schemas["ClaimedJob"], until: number): Promise<void> {
    const lease = new Deadline(undefined, until - now()), ended = new AbortController();
    const job = new Job<Payload>(claimed, lease.signal, () => now() < until && !lease.signal.aborted);
    const renew = async () => {
      while (!ended.signal.aborted && job.held()) {
        await pause(until - now() - this.#lease * 2 / 3, ended.signal, lease.signal);
        if (ended.signal.aborted || !job.held()) return;
        const sent = now();
        const status = await this.#tell(claimed, { outcome: "renew", lease_ms: this.#lease }, { attempts: 1, timeout: until - sent })
          .catch((err: unknown) => this.#report(err, job));
        if (ended.signal.aborted) return;
        if (status === "ok") lease.extend((until = sent + this.#lease) - now());
        else if (status) lease.close();
        else await pause(Math.min(1_000, this.#lease / 10), ended.signal);
      }
    };
    const renewals = renew();
    const result = await this.#handle(job);
    ended.abort();
    lease.halt();
    await renewals;
    try {
      const status = await this.#tell(claimed, result, { attempts: Infinity, timeout: 300_000 });
      if (status !== "ok") this.#report(new FanfareError(`job ${job.id}: ${status}: "${result.outcome}" came too late`), job);
    } catch (err) {
      this.#report(err, job);
    } finally {
      lease.close();
    }
  }

  // #handle never rejects: the renewals of the job end when it is over.
  async #handle(job: Job<Payload>): Promise<Result> {
    try {
      await this.#handler(job);
      return { outcome: "complete" };
    } catch (err) {
      const wait = err instanceof Fail || err instanceof Release ? err.retryAfter : undefined;
      const later = wait === undefined ? {} : { retry_after_ms: Math.ceil(wait) };
      if (err instanceof Release) return { outcome: "release", ...later };
      this.#report(err, job);
      return { outcome: "fail", error: textOf(err).slice(0, 1_000), ...later };
    }
  }

  // #tell reports a result, and returns "ok", "job_lost" or "cancelled".
  async #tell({ id, token }: Schemas["ClaimedJob"], result: Result, limits: { attempts?: number; timeout?: number } = {}): Promise<string | undefined> {
    const body = { results: [{ id, token, ...result }] }, options = { params: { queue: this.#queue }, ...limits };
    const { results } = await this.#client.call<Schemas["JobAnswers"]>("POST", "/v1/queues/{queue}/results", body, options);
    return results[0]?.status;
  }

  // #report never throws: what happens to a job must not depend on who is told of it.
  #report(err: unknown, job?: Job): undefined {
    const failed = (thrown: unknown) => console.error("fanfare: onError has failed with", thrown, "when it was told", err);
    try {
      Promise.resolve((this.#options.onError ?? ((...what) => console.error(...what)))(err, job)).catch(failed);
    } catch (thrown) {
      failed(thrown);
    }
  }
}

// textOf also has a text for what cannot become a string, such as an object without a prototype.
function textOf(err: unknown): string {
  try {
    return String(err);
  } catch {
    return "an error without a text";
  }
}
