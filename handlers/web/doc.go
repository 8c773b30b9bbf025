// Package web does what all calls over HTTP have in common. It knows no noun, no route and no
// store: it gets its dependencies in [Options], and it serves a table of [Route].
//
// A request passes these steps, in this order:
//
//	id -> log and metrics -> panics -> headers -> only this machine, as long as there is no key ->
//	route -> origin -> key and scope, or user token -> rate limit -> number in flight ->
//	deadline ->
//	body and parameters -> rules -> method -> answer
//
// A method has the form func(ctx, *request) (*Reply[T], error), and [Handle] makes an endpoint of
// it. The tags of the request struct name the values from the path, the query and the headers.
// The field Body takes the JSON; if it is a pointer, the body may be left out. A field of type
// api.Idempotency is filled from the Idempotency-Key header. An embedded [Page] has the parameters
// of a list. Errors become problems (RFC 9457); the table of codes and
// statuses is in api.
//
// A route that is open to user tokens ([Route.For]) limits them to their own user: the
// parameters named user, and the body's fields with the tag subject, must name that user or be
// left out. A method without such fields uses [UserOf]. A field of the body with the tag each:"50" lets
// every 50 of its entries count as one request of a user.
//
// Streams ([HandleStream]) and long polls ([Endpoint.LongPoll]) have no deadline.
// Their number is limited, and they end when the process stops.
package web
