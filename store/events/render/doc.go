// Package render turns an event and its type's templates into the payload and the
// headers of a push notification. It is pure: it does no I/O and reads no clock, and
// equal events give equal bytes.
//
// Requests come here after api.Validator has checked them. The checks here depend
// on the event type as well: the names that a template prints, what its push type
// allows, and the size of the payload.
package render
