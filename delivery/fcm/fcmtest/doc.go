// Package fcmtest is a stand-in for Firebase Cloud Messaging: real HTTP/2 over TLS on a loopback address,
// FCM's rules for requests and messages, a token endpoint that verifies signed claims, scripted answers
// and faults, and a ledger of what arrived. Tests start one with Start.
package fcmtest
