// Package fcm sends notifications to Firebase Cloud Messaging, by its HTTP v1 API: New makes the
// transport.Sender. It reads service accounts from the apps file (config.go), exchanges signed claims for
// access tokens (token.go), finds the app of a notification (apps.go), sends the notification
// over the connections of the app's service account (push.go), and decides what the answer means
// (answer.go). The connections come from delivery/h2 and delivery/exchange.
package fcm
