// Package apns sends notifications to Apple: New makes the transport.Sender. It
// reads keys, certificates and the apps file (config.go, credentials.go), keeps
// the provider tokens of each key (token.go), sends each notification over the
// connections of its app's account (sender.go, apps.go, push.go), and says what
// APNs' answers mean (answer.go, outcomes.go). The connections come from delivery/h2;
// apns2, which only this package knows, gives hosts, push types, reasons and the
// reading of keys.
package apns
