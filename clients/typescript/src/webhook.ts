import { FanfareError } from "./errors.js";

/** One thing that happened. */
export interface Fact {
  /** The same each time that the fact is sent: whoever keeps it can leave out repeats. */
  id: string;
  type: string;
  /** What it happened to. */
  key: string;
  at: string;
  data: unknown;
}

/** The body of a webhook's request. */
export interface WebhookBatch {
  webhook: string;
  /** How many facts before these are lost, because they were kept no longer. */
  gap?: number;
  facts: Fact[];
}

/** Headers of a request, as fetch has them or as Node has them. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/** How far the time in a request may be from now, in seconds. An older one may be recorded and sent again. */
const tolerance = 300;

const encoder = new TextEncoder();

/**
 * Checks that one of the secrets has signed a request of a webhook, and reads its body. The body is what arrived, byte for
 * byte. While a secret is being replaced, give both.
 *
 * @throws {FanfareError} none of the secrets has signed it, or its time is more than 5 minutes from now
 */
export async function verifyWebhook(secrets: string | string[], headers: WebhookHeaders, body: string | Uint8Array): Promise<WebhookBatch> {
  const id = header(headers, "webhook-id"), at = header(headers, "webhook-timestamp");
  if (!id || !/^\d{1,15}$/.test(at)) throw new FanfareError("no request of this webhook: it has no webhook-id or webhook-timestamp");
  if (Math.abs(Date.now() / 1000 - Number(at)) > tolerance) throw new FanfareError("no request of this webhook: its time is too far from now");
  const raw = typeof body === "string" ? encoder.encode(body) : body;
  const head = encoder.encode(`${id}.${at}.`), signed = new Uint8Array(head.length + raw.length);
  signed.set(head);
  signed.set(raw, head.length);
  const signatures = header(headers, "webhook-signature").split(" ").filter((one) => one.startsWith("v1,"));
  for (const secret of [secrets].flat()) {
    const key = await crypto.subtle.importKey("raw", keyOf(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const one of signatures) { // verify takes the same time whatever the signature is
      const signature = bytes(one.slice(3));
      if (signature && await crypto.subtle.verify("HMAC", key, signature, signed)) return JSON.parse(new TextDecoder().decode(raw)) as WebhookBatch;
    }
  }
  throw new FanfareError("no request of this webhook: none of its signatures is by a secret");
}

function header(headers: WebhookHeaders, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  for (const [key, value] of Object.entries(headers)) if (key.toLowerCase() === name) return [value ?? ""].flat().join(" ");
  return "";
}

function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const key = bytes(secret.replace(/^whsec_/, ""));
  if (!key?.length) throw new TypeError("a webhook's secret is whsec_ and base64");
  return key;
}

function bytes(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    return undefined; // it is no base64
  }
}
