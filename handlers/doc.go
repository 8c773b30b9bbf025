// Package handlers is fanfare's HTTP face: requests in, api types out. It holds
// no business rules and no Redis keys. Every route stands in router.go, and a
// noun's file has its calls: each is one method that takes the request and gives
// an answer or an error, mostly with one call of a store.
//
// What all calls share (decoding, validation, keys, limits, problems, streams) is
// done once around them, in package web.
package handlers
