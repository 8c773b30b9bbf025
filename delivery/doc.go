// Package delivery sends notifications to phones and records their results.
//
// Notifications come from the queue of notifications (delivery.go), or directly from package
// targeting (event.go). Each waits until its app has room (windows.go) and until earlier sends to
// its token have ended. Then it is checked and given to a transport.Sender without waiting for the
// answer (all in chain.go) or, if something stands in the way, in a goroutine (send.go). The answer
// becomes a result, and may drop a device (answer.go), make a device back off (backoff.go) or pause
// an app (pause.go). The device's platform decides which sender gets it
// (work.go has the platform, and transport.Senders the senders).
package delivery
