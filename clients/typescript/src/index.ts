/** A client of fanfare for Node and browsers. */
export { Client, type Schemas } from "./client.js";
export type { CallOptions, ClientOptions, TokenSource } from "./caller.js";
export { Disconnected, FanfareError, Problem, type FieldError } from "./errors.js";
export type { StreamEvent, StreamOptions } from "./stream.js";
export { verifyWebhook, type Fact, type WebhookBatch, type WebhookHeaders } from "./webhook.js";
export { Fail, Job, Release, Worker, type WorkerOptions } from "./worker.js";
export { registerWebPush, type WebPushOptions, type WebPushRegistration } from "./webpush.js";
