import assert from "node:assert/strict";
import { test } from "node:test";
import { FanfareError, verifyWebhook } from "fanfare";

// The example that Standard Webhooks publishes.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const body = '{"test": 2432232314}';
const second = 1614265330;
const signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";

const headers = (changes: Record<string, string> = {}) =>
  ({ "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": String(second), "Webhook-Signature": signature, ...changes });

test("a request that a secret has signed", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: second * 1000 });
  const want = { test: 2432232314 };
  for (const secrets of [secret, [secret], secret.slice(6), ["whsec_AAAA", secret]]) assert.deepEqual(await verifyWebhook(secrets, headers(), body), want);
  assert.deepEqual(await verifyWebhook(secret, new Headers(headers()), new TextEncoder().encode(body)), want);
  assert.deepEqual(await verifyWebhook(secret, headers({ "Webhook-Signature": `${wrong} v2,x ${signature} ${wrong}` }), body), want);
  for (const off of [-300, 300]) {
    t.mock.timers.setTime((second + off) * 1000);
    assert.deepEqual(await verifyWebhook(secret, headers(), body), want);
  }
});

test("a request that no secret has signed", async (t) => {
  await assert.rejects(verifyWebhook(secret, headers(), body), FanfareError); // of 2021
  t.mock.timers.enable({ apis: ["Date"], now: second * 1000 });
  const refused = (secrets: string | string[], h: Record<string, string>, b: string) => assert.rejects(verifyWebhook(secrets, h, b), FanfareError);
  await refused(secret, headers(), body + " ");
  await refused("whsec_AAAA", headers(), body);
  await refused([], headers(), body);
  for (const one of ["", "v1,", wrong, `v2${signature.slice(2)}`, signature.slice(3), "v1,ä"]) await refused(secret, headers({ "Webhook-Signature": one }), body);
  for (const one of ["", "msg_x"]) await refused(secret, headers({ "Webhook-Id": one }), body);
  for (const one of ["", "1614265330.0", "x"]) await refused(secret, headers({ "Webhook-Timestamp": one }), body);
  for (const off of [-301, 301]) {
    t.mock.timers.setTime((second + off) * 1000);
    await refused(secret, headers(), body);
  }
});

test("a secret that is none", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: second * 1000 });
  for (const one of ["", "whsec_", "whsec_?"]) await assert.rejects(verifyWebhook(one, headers(), body), TypeError);
});
