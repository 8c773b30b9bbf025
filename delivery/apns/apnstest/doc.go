// Package apnstest is a stand-in for APNs: real HTTP/2 over TLS on a loopback
// address, Apple's rules for headers, payloads and provider tokens, scripted
// answers and faults, and a ledger of what arrived. Tests start one with
// Start, programs such as benchmarks with New.
//
// It speaks HTTP/2 frame by frame, so that it can do what a real server does
// on a bad day: GOAWAY in the middle of requests, refused streams, settings
// that change, connections that fall silent.
package apnstest
