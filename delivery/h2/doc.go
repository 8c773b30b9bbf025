// Package h2 keeps HTTP/2 connections to one server for a client with many
// requests under way at once. It knows no push service.
//
// A Pool opens connections as requests need them, keeps within the limits of
// the peer and its own, finds out by PING that one is dead, and moves on when a
// GOAWAY ends one (pool.go, conn.go). A Call is one request on a connection;
// when it fails, the Call says whether the server may have processed it
// (call.go). The frames of many requests leave in one write (gather.go). A
// Limiter lowers how many requests are under way when the server asks for less
// (limiter.go). The framing itself is x/net/http2's.
package h2
