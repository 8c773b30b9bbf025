// Package web does what all calls over HTTP have in common. It knows no noun, no route and no
// store: its dependencies come by [Options], and it serves a table of [Route].
//
// A request passes through, in this order:
//
//	id -> log and metrics -> panics -> headers -> local only, as long as there is no key ->
//	route -> origin -> key and scope, or user token -> rate limit -> number in flight ->
//	deadline ->
//	body and parameters -> rules -> method -> answer
//
// A method has the form func(ctx, *request) (*Reply[T], error); [Handle] makes
// an endpoint of it. The tags of its request struct name the values that come
// from the path, the query and the headers; its field Body takes the JSON, and a
// pointer there means that the body may be left out. A field of type api.Idempotency is
// filled from the Idempotency-Key header, an embedded [Page] says which part of
// a list is wanted. Errors become problems (RFC 9457); the table of codes and
// statuses is in api.
//
// A route that is open to user tokens ([Route.For]) limits them to their own user: the
// parameters named user, and the body's fields with the tag subject, must name that user or be
// left out. A method without such fields uses [UserOf].
//
// Streams ([HandleStream]) and long polls ([Endpoint.LongPoll]) have no deadline.
// They are bounded by their number and end when the process stops.
package web
