import type { Client } from "./client.js";
import { FanfareError } from "./errors.js";

/** What a page registers for. */
export interface WebPushOptions {
  /** The user of the client's token. */
  user: string;
  /** The app of Web Push, such as `shop`. */
  topic: string;
  /** Where the page's service worker is. Take the one that each server has at `/docs/webpush/worker.js` */
  serviceWorker: string | URL;
  /** Which texts the user gets. Default: the browser's language */
  locale?: string | undefined;
}

/** A page that gets notifications. */
export interface WebPushRegistration {
  /** The device's token at fanfare. */
  token: string;
  /** Ends the subscription, in the browser and at the server. */
  unregister(): Promise<void>;
}

/**
 * Asks the user for the permission, subscribes the browser and registers it. Call it from a click for the first time, and
 * then whenever the user is there: it costs two calls, and the browser may have renewed its subscription meanwhile. The
 * client's token needs the scope `devices`.
 *
 * @throws {FanfareError} the user does not allow notifications
 */
export async function registerWebPush(client: Client, options: WebPushOptions): Promise<WebPushRegistration> {
  const { user, topic } = options;
  const { key } = await client.getPushKey(topic);
  if (await Notification.requestPermission() !== "granted") throw new FanfareError("the user does not allow notifications");
  await navigator.serviceWorker.register(options.serviceWorker);
  const { pushManager } = await navigator.serviceWorker.ready;
  const subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const kept = `fanfare:${user}:${topic}`, before = localStorage.getItem(kept);
  const { token } = await client.postDevice(user, {
    platform: "webpush", topic, locale: options.locale ?? navigator.language,
    subscription: subscription.toJSON() as { endpoint: string; keys: { p256dh: string; auth: string } },
    ...(before && { replaces: before }),
  });
  localStorage.setItem(kept, token);
  return {
    token,
    async unregister() {
      await subscription.unsubscribe();
      await client.deleteDevice(user, token);
      localStorage.removeItem(kept);
    },
  };
}
