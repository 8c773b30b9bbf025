// Package webpush sends notifications to browsers, by Web Push (RFC 8030): New makes the
// transport.Sender. It reads apps with their VAPID keys from the apps file (config.go, apps.go), encrypts
// each notification for its browser (encrypt.go), signs who sends it (vapid.go), sends it over the
// connections to the push service of its endpoint (push.go, hosts.go), and decides what the answer means
// (answer.go). Browsers tell fanfare the endpoints, so that a user may name any: delivery/address says which
// addresses are never connected to. The connections come from delivery/h2 and delivery/exchange.
package webpush
