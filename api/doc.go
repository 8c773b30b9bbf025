// Package api defines fanfare's vocabulary: requests and responses, limits, error codes and the
// rules for requests. It does no I/O. Every other package of fanfare may import it, and it imports none of them.
package api
