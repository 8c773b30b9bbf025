// Package apnstest is a stand-in for APNs: real HTTP/2 over TLS on a loopback
// address, Apple's rules for headers, payloads and provider tokens, scripted
// answers and faults, and a ledger of what arrived. Tests start one with
// Start, programs such as benchmarks with New.
//
// It implements HTTP/2 frame by frame, so that it can simulate the faults of a real server: GOAWAY
// in the middle of requests, refused streams, settings that change, connections that become silent.
package apnstest
