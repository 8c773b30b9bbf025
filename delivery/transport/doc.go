// Package transport has what all push services share: the Sender that the package of each service
// implements, the Notification that it gets, and the Answer and Outcome that it returns. Senders
// chooses a sender by platform. The package knows no push service.
package transport
