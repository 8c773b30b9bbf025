// Package handlers is fanfare's HTTP interface: it turns requests into api types and back. It has no
// business rules and no Redis keys. router.go lists every route, and the file of a noun has its calls.
// Each call is one method that takes the request and returns a reply or an error, mostly with
// one call of a store.
//
// Decoding, validation, keys, limits, problems and streams are the same for all calls, and are
// done around them in package web.
package handlers
