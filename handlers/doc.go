// Package handlers is fanfare's HTTP face: requests in, api types out. It
// holds no business rules and no Redis keys. Every route stands in router.go;
// what all of them share (decoding, validation, keys, limits, problems) is
// done once around them, so that a noun's file holds only its calls:
//
//	route -> key and scope -> rate limit -> room for it -> deadline ->
//	body and parameters -> rules -> method -> answer
//
// Streams (feed) and long polls (waiting) have no deadline; they are bounded by
// their number and end when the process does.
//
// A method has the form func(ctx, *request) (*reply[T], error). Its request
// struct says by tags what comes from the path and the query, and a field Body
// what comes as JSON; a pointer there means that the body may be left out.
package handlers
