// Package apns sends notifications to Apple: New makes the transport.Sender. It reads keys,
// certificates and the apps file (config.go, credentials.go) and keeps the provider tokens of each
// key (token.go). It finds the app of a notification (apps.go), sends the notification
// over the connections of the app's account (push.go), and decides what the answer means (answer.go).
// The connections come from delivery/h2. The library apns2, which only this package uses, has hosts,
// push types and reasons, and reads keys.
package apns
