// Package h2 is the client's side of HTTP/2 for one kind of use: many small POSTs
// under way at once on few connections to one server. It knows no push service.
//
// A Pool opens connections as requests need them, keeps within the limits of the
// peer and its own, and moves on when one ends (pool.go). A Waiter waits for room,
// and a Limiter lowers how many requests are under way when the server asks for
// less (wait.go, limiter.go). A Call is one request on a connection and what became
// of it, including whether the server may have processed a call that failed (call.go).
// No goroutine waits for any of these: their owners are told.
//
// Each connection has two goroutines (conn.go): one sends the frames that all calls
// left to be sent in one write, and keeps to the peer's windows (write.go); one
// reads what the peer sends (read.go). Frames and HPACK come from x/net/http2.
package h2
