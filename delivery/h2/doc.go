// Package h2 is an HTTP/2 client for one kind of use: many small POSTs under way at once, on few
// connections to one server. It knows no push service.
//
// A Pool opens connections as requests need them, within its own limits and those of the peer, and
// replaces connections that end (pool.go). A Waiter waits for room on a connection, and wait.go says
// which one it gets. A Limiter lowers the number of requests under way when the server asks for fewer
// (limiter.go). A Call is one request on a connection, with its result. The result also says whether
// the server may have processed a call that failed (call.go). No goroutine waits for any of these: a
// method of the owner is called instead.
//
// Each connection has two goroutines (conn.go). One sends the calls, many with one write, when the system has
// room for them and within the windows of the peer (write.go). The other reads what the peer sends (read.go).
// Frames and HPACK come from x/net/http2.
package h2
