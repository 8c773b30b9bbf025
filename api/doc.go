// Package api is fanfare's language: requests and responses, limits, error codes and the rules
// that a request keeps. It does no I/O, so every other room may import it, and it imports none
// of them.
package api
