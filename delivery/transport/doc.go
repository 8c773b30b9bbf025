// Package transport is what all push services have in common: the Sender that
// each service's package implements, the Notification it is given, and the
// Answer and Outcome it gives back. It knows no service.
package transport
