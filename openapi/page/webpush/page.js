// Subscribes this browser to a user's notifications.

const $ = (id) => document.getElementById(id)
const say = (text) => { $('state').textContent = text }

// call calls fanfare, which serves this page itself. A page of another origin calls it under its own
// address, if FANFARE_ALLOWED_ORIGINS has that origin.
async function call(method, path, body) {
  const headers = { 'Content-Type': 'application/json' }
  if ($('token').value) headers.Authorization = `Bearer ${$('token').value}`
  const answer = await fetch(new URL(`../../v1/${path}`, location), { method, headers, body: body && JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${answer.status} ${text && JSON.parse(text).detail}`)
  return text && JSON.parse(text)
}

// subscribe asks for the permission, subscribes with the app's public key, and registers what comes of it.
// A page of yours does this whenever the user is there: it costs one call, and the browser may have renewed
// its subscription meanwhile. replaces then removes the one before.
async function subscribe() {
  const topic = $('topic').value
  const { key } = await call('GET', `webpush/${encodeURIComponent(topic)}/key`)
  if (await Notification.requestPermission() !== 'granted') throw new Error('the browser does not allow notifications')
  await navigator.serviceWorker.register('worker.js')
  const { pushManager } = await navigator.serviceWorker.ready
  const subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })
  const { token } = await call('POST', devices(), { platform: 'webpush', topic, locale: navigator.language, subscription, replaces: before() })
  localStorage.setItem(devices(), token)
  say(`subscribed as ${token}`)
}

// unsubscribe ends the subscription, here and at the server.
async function unsubscribe() {
  const registration = await navigator.serviceWorker.getRegistration()
  const subscription = await registration?.pushManager.getSubscription()
  await subscription?.unsubscribe()
  if (before()) await call('DELETE', `${devices()}/${before()}`)
  localStorage.removeItem(devices())
  say('not subscribed')
}

const devices = () => `users/${encodeURIComponent($('user').value)}/devices`
const before = () => localStorage.getItem(devices()) ?? undefined

// run runs one of them and says how it went.
async function run(step) {
  say('...')
  try { await step() } catch (err) { say(String(err)) }
}
$('form').onsubmit = (event) => { event.preventDefault(); run(subscribe) }
$('unsubscribe').onclick = () => run(unsubscribe)
