// Package fanfare calls a fanfare server: push, chat, flash sale, jobs, locks, values and counters, over HTTP.
// It needs nothing but the standard library.
//
//	c, err := fanfare.New("http://127.0.0.1:8080", fanfare.Options{Key: os.Getenv("FANFARE_KEY")})
//	id, err := c.SendEvent(ctx, fanfare.Event{Type: "photo.shared", Audience: fanfare.Audience{Users: []string{"bob"}}})
//
// # Calls
//
// The methods of Client are those that most programs need. Call makes any other call of the contract
// (docs/spec/http.md). Every method takes Settings: an IdempotencyKey, a Timeout, headers, or how often to try.
//
// A call that may succeed later is repeated: after a network error, a time-out, 408, 429 and a 5xx that the
// server marks as retryable. Between two attempts is a random wait that grows, and at least what Retry-After
// says. A POST has an Idempotency-Key, so that the repeat of a call whose answer was lost has no second effect.
// Calls that could have one are not repeated when the outcome of the first attempt is unknown: those whose
// answer is a secret, and changes with If-Match or If-None-Match, whose repeat would be refused because the first
// attempt succeeded. A 409 is never repeated, even if it is retryable: whether to wait for units that are
// sold out or for a lock that somebody holds is up to the caller.
//
// Live Activities have RegisterActivity, PutBroadcast, GetLiveObject and their like (docs/live.md). An update of what they show
// is an Event with Live.
//
// # Errors
//
// A call that fails returns a *CallError. If the server answered, it wraps a *Problem, and CodeOf returns the
// problem's code. CallError.Unknown says that the call may have happened.
//
// # Streams and workers
//
// StreamMessages and StreamSale are iterators that survive restarts of the server and cut connections, and
// Worker claims jobs of a queue and does them.
package fanfare
