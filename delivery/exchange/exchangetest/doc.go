// Package exchangetest has what the stand-ins for push services share that are made of net/http: real
// HTTP/2 over TLS on a loopback address, scripted answers, faults of connections, and a ledger of what
// arrived. It knows no push service: each stand-in has its own rules.
package exchangetest
