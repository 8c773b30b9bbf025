// Package webpushtest is a stand-in for the push services of browsers: real HTTP/2 over TLS on a loopback
// address, which answers for every host. It has the browsers, too: it makes their subscriptions, and
// decrypts what it gets with their keys. It applies the rules of RFC 8030, 8188, 8291 and 8292 strictly,
// and has scripted answers and faults, and a ledger of what arrived. Tests start one with Start.
package webpushtest
