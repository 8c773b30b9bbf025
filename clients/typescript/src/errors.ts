/** A field of a request that breaks a rule. */
export interface FieldError {
  /** The field's name in JSON, such as `recipients[3]`. */
  field: string;
  rule: string;
  message: string;
}

/** What went wrong with a call or a stream: a {@link Problem}, or a {@link Disconnected}. */
export class FanfareError extends Error {
  override name = "FanfareError";
}

/** An answer that is a refusal: the problem document of the server (RFC 9457), or an error of a proxy in between. */
export class Problem extends FanfareError {
  override name = "Problem";
  /** The HTTP status. */
  readonly status: number;
  /** What programs branch on, such as `sold_out`; "" if the answer came from a proxy. */
  readonly code: string;
  /** A sentence for people. */
  readonly detail: string;
  /** The fields that break a rule (`validation_failed`). */
  readonly errors: readonly FieldError[];
  /** Whether the same call, unchanged, may succeed later. */
  readonly retryable: boolean;
  /** Names the request in the server's log. */
  readonly requestId: string;
  /** How long to wait before the call is repeated, in milliseconds. */
  readonly retryAfter: number | undefined;
  /** The whole document, with facts such as `available`, `value` or `version`. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(status: number, headers: Headers, text: string) {
    const facts = parse(text, headers.get("Content-Type") ?? "");
    const code = string(facts.code), detail = string(facts.detail) || text.slice(0, 200);
    super(`${status} ${code || "without a code"}: ${detail}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.errors = Array.isArray(facts.errors) ? facts.errors : [];
    this.retryable = code ? facts.retryable === true : [429, 502, 503, 504].includes(status);
    this.requestId = string(facts.request_id) || (headers.get("X-Request-Id") ?? "");
    this.retryAfter = waitOf(facts.retry_after_ms, headers.get("Retry-After"));
    this.facts = facts;
  }
}

/** There was no answer: the connection failed or broke, or the time was over. `cause` is the reason. */
export class Disconnected extends FanfareError {
  override name = "Disconnected";
  /** false: the request certainly had no effect. true: it may have had one. */
  readonly mayHaveHappened: boolean;

  constructor(message: string, mayHaveHappened: boolean, cause?: unknown) {
    super(message, { cause });
    this.mayHaveHappened = mayHaveHappened;
  }
}

/** Whether a refused or unanswered call may have had an effect. */
export function mayHaveHappened(err: Problem | Disconnected): boolean {
  if (err instanceof Disconnected) return err.mayHaveHappened;
  return err.status >= 500 && (err.code === "" || err.code === "unknown_outcome" || err.code === "internal");
}

/**
 * Whether waiting a moment may help. A 409 is not among these errors, though some are `retryable`: `sold_out` or `lock_held`
 * is what the caller wanted to know, and when to ask again is the caller's choice.
 */
export function isPassing(err: Problem | Disconnected): boolean {
  return err instanceof Disconnected || (err.retryable && err.status !== 409);
}

function parse(text: string, type: string): Record<string, unknown> {
  try {
    const value: unknown = type.includes("json") ? JSON.parse(text) : {};
    return typeof value === "object" && value !== null ? value as Record<string, unknown> : {};
  } catch {
    return {};
  }
}

function string(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function waitOf(ms: unknown, header: string | null): number | undefined {
  if (typeof ms === "number") return ms;
  if (!header) return undefined;
  const seconds = /^\d+$/.test(header.trim()) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds * 1000);
}
