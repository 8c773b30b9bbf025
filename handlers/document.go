package handlers

import "fanfare/handlers/web"

// The general part of the OpenAPI document follows. The parts of the calls are in the comments above their methods.
//
//	@title			fanfare
//	@version		1
//	@description	The real-time backend behind a web or mobile product: push notifications that are not lost, the most recently active contacts, group chat, and stock for a flash sale.
//	@description
//	@description	**Trying it out.** Register an event type and a device, post an event and read its report. Without APNs
//	@description	credentials the server logs each notification and counts it as delivered.
//	@description
//	@description	**Keys.** Send `Authorization: Bearer <api key>`; `fanfare keys create` makes one (press *Authorize* here to use it). Until
//	@description	the first key is made, a server answers only callers on its own machine, and needs no key. Each call says which scope
//	@description	it needs; `admin` covers all scopes.
//	@description
//	@description	**Users.** An app or a page calls with a user token instead (`POST /v1/users/{user}/tokens`, or signed by your backend):
//	@description	`Authorization: Bearer <user token>`. The token gives access to the calls that say so, and only to the data of its own
//	@description	user. Where a call asks for the acting user, that user may be left out. A browser's EventSource sends a ticket in its
//	@description	URL (`POST /v1/users/{user}/tickets`).
//	@description
//	@description	**Names.** Identifiers that you choose (users, objects, event types ...) are 1 to 128 bytes of `A-Z a-z 0-9 . _ : @ -`.
//	@description	Times are RFC 3339 in UTC with milliseconds, of the years 1970 to 9999; durations are integers named `*_ms` or `*_seconds`.
//	@description
//	@description	**Errors** are `application/problem+json` (RFC 9457) with a stable `code`, the `request_id` under which the log has
//	@description	the request, and `errors` that name every field that failed. 503 `unavailable` and `overloaded` mean that nothing
//	@description	happened: try again after `Retry-After`. 503 `unknown_outcome` means that the change may have happened: repeat the call
//	@description	with the same `Idempotency-Key` to find out.
//	@description
//	@description	**Repeating safely.** Every POST takes an `Idempotency-Key`, except those whose answer is a secret. For 24 hours the same
//	@description	key with the same body gives the first answer again, with `Idempotent-Replayed: true` and no new effect. The same key
//	@description	with another body is refused.
//	@license.name	MIT
//	@license.url	https://opensource.org/license/mit
//	@tag.name		push
//	@tag.description	Event types define how events look on a phone, devices are where notifications go, and preferences are what a user does not want to get. An event tells users that something happened; its report shows whether they got the notification
//	@tag.name		recent contacts
//	@tag.description	The most recently active contacts of a user: contacts, and uploads, which make a contact active
//	@tag.name		group chat
//	@tag.description	Chats whose members come and go: no message is lost, whether anybody is connected or not
//	@tag.name		flash sale
//	@tag.description	Stock for a sale that many users want at the same moment: reservations, orders, restocks
//	@tag.name		jobs
//	@tag.description	Queues of jobs for workers in any language: leases, retries, dead letters, conflict keys and unique jobs
//	@tag.name		locks
//	@tag.description	Locks with leases, fences and counted attempts, for work that any of several processes may do, and only one at a time
//	@tag.name		values and counters
//	@tag.description	Small JSON values with versions, that can be compared and set and waited for, and counters with bounds
//	@tag.name		facts
//	@tag.description	What happened to events, notifications and jobs, to read one after the other
//	@tag.name		users' own access
//	@tag.description	Tokens and tickets with which an app or a page calls for its user without an API key
//	@tag.name		operations
//	@tag.description	For operators of the server

// Routes lists every route of the server, without HEAD and OPTIONS.
func Routes() []web.Route { return (&server{}).routes() }
