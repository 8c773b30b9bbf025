// Package transport is what all push services have in common: the Sender that
// each service's package implements, the Notification it is given, and the
// Answer and Outcome it gives back. Senders chooses among several by platform.
// It knows no service.
package transport
