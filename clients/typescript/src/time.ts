/** Milliseconds of a clock that only goes forward. */
export function now(): number {
  return performance.now();
}

/** Waits, and less long if one of the signals is aborted. */
export function pause(ms: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve) => {
    if (signals.some((signal) => signal?.aborted)) return resolve();
    const end = () => {
      clearTimeout(timer);
      for (const signal of signals) signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(ms, longest));
    for (const signal of signals) signal?.addEventListener("abort", end, { once: true });
  });
}

// setTimeout fires at once for more than this.
const longest = 2 ** 31 - 1;

/** How long to wait before repetition n (0, 1, 2 ...): exponential, with full jitter, on top of what the server asks for. */
export function backoff(n: number, retryAfter = 0): number {
  return retryAfter + Math.random() * Math.min(10_000, 500 * 2 ** n);
}

/** A signal that ends when the caller's ends, or after some time. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #end = () => this.#controller.abort();
  /** Whether the time is over. */
  passed = false;

  constructor(outer: AbortSignal | undefined, ms: number) {
    this.#outer = outer;
    if (outer?.aborted) this.#end();
    outer?.addEventListener("abort", this.#end, { once: true });
    this.extend(ms);
  }

  get signal(): AbortSignal { return this.#controller.signal; }

  /** Begins the time again. */
  extend(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { this.passed = true; this.#end(); }, Math.min(Math.max(0, ms), longest));
  }

  /** Stops the clock. */
  halt(): void {
    clearTimeout(this.#timer);
  }

  /** Frees what it holds, and ends the signal. */
  close(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener("abort", this.#end);
    this.#end();
  }
}
