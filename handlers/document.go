package handlers

import "fanfare/api"

// The general part of the OpenAPI document follows; each method's part stands above the method.
//
//	@title			fanfare
//	@version		1
//	@description	The real-time backend behind a web or mobile product: push notifications that are not lost, who was active last, group chat, and stock for a sale.
//	@description
//	@description	**Trying it out.** Register an event type, register a device, post an event, look at the event. Without APNs
//	@description	credentials the server logs what it would send, and counts it as delivered.
//	@description
//	@description	**Keys.** Send `Authorization: Bearer <api key>`; `fanfare keys create` makes one (press *Authorize* here to use it). A
//	@description	server on which no key was ever made answers this machine alone, without a key. Each call says which scope it needs;
//	@description	`admin` covers all.
//	@description
//	@description	**Users.** An app or a page calls with a user token instead (`POST /v1/users/{user}/tokens`, or signed by your backend):
//	@description	`Authorization: Bearer <user token>`. It opens the calls that say so, for its own user alone; where a call asks who
//	@description	acts, he may be left out. A browser's EventSource sends a ticket in its URL (`POST /v1/users/{user}/tickets`).
//	@description
//	@description	**Names.** Identifiers that you choose (users, objects, event types ...) are 1 to 128 bytes of `A-Z a-z 0-9 . _ : @ -`.
//	@description	Times are RFC 3339 in UTC with milliseconds; durations are integers named `*_ms` or `*_seconds`.
//	@description
//	@description	**Errors** are `application/problem+json` (RFC 9457) with a stable `code`, the `request_id` that finds the request in the
//	@description	log, and `errors` that name every failing field. 503 `unavailable` and `overloaded` mean that nothing happened: try again
//	@description	after `Retry-After`. 503 `unknown_outcome` means that it may have happened: the same call with the same
//	@description	`Idempotency-Key` finds out.
//	@description
//	@description	**Repeating safely.** Every POST takes an `Idempotency-Key`, but those whose answer is a secret. The same key with the same body gives the first answer again,
//	@description	with `Idempotent-Replayed: true` and no new effect, for 24 hours; with another body it is refused.
//	@license.name	MIT
//	@license.url	https://opensource.org/license/mit
//	@tag.name		push
//	@tag.description	Event types say how events look on a phone, devices where notifications go, preferences what a user does not want to hear. An event tells people that something happened; its report says whether they were told
//	@tag.name		recent contacts
//	@tag.description	Who of a user's contacts was active last: contacts, and uploads, which make a contact active
//	@tag.name		group chat
//	@tag.description	Chats for people who come and go: nothing is lost, whether anybody is connected or not
//	@tag.name		flash sale
//	@tag.description	Stock for a sale that everybody hits at once: reservations, orders, restocks
//	@tag.name		users' own access
//	@tag.description	Tokens and tickets with which an app or a page calls for its user, without an API key
//	@tag.name		operations
//	@tag.description	For those who run the server

// Route is what the document must say about a route.
type Route struct {
	Method, Pattern string
	// Scope is the scope that the caller's key must cover; "" for routes open to all.
	Scope api.Scope
	// User is the scope that a user token must carry to open the route; "": no user token opens
	// it.
	User api.UserScope
	// Tickets: a ticket opens it as well.
	Tickets bool
	// MaxBody is the limit of the request's body; 0: there is none.
	MaxBody int64
}

// Routes lists every route that the server has, HEAD and OPTIONS aside.
func Routes() []Route {
	var out []Route
	for _, rt := range (&server{}).routes() {
		out = append(out, Route{Method: rt.Method, Pattern: rt.Pattern, Scope: rt.Scope, User: rt.User, Tickets: rt.Tickets(), MaxBody: rt.MaxBody()})
	}
	return out
}
