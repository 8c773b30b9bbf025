// A service worker that shows fanfare's notifications. Copy it to your own site; pages register it with
// navigator.serviceWorker.register('worker.js').

// A browser that shows a notification by itself may ask the worker first, without data. A worker that shows nothing lets it.
self.addEventListener('push', (event) => event.data && event.waitUntil(show(event.data.json())))

// show shows a notification. A push that shows none costs the permission after a while.
function show({ title, body, tag, icon, badge, image, actions, require_interaction, app_badge, ...rest }) {
  // The number on the icon of an installed page. A browser without it shows the notification all the same.
  if (app_badge !== undefined) self.navigator.setAppBadge?.(app_badge).catch(() => {})
  return self.registration.showNotification(title ?? '', {
    body, tag, icon, badge, image, actions, // one with the same tag is replaced
    requireInteraction: require_interaction ?? false,
    renotify: Boolean(tag),
    data: rest, // event_id, type, object, data, url
  })
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close()
  event.waitUntil(bringUp(event.notification.data.url))
})

// bringUp brings the notification's page to the front, or opens it. Without a url, that is the page that is
// open already, else the site's first one.
async function bringUp(url) {
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true })
  const wanted = url && new URL(url, self.location).href
  const found = windows.find((w) => !wanted || w.url === wanted)
  return found ? found.focus() : self.clients.openWindow(wanted ?? '/')
}
