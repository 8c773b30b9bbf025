// Package delivery brings events to phones in two steps. Targeting turns an
// accepted event into one notification per device: who gets it, opt-outs, mutes
// (targeting.go and the files beside it), and lets Delivery send those of few devices at
// once (one_hop.go).
// Delivery sends notifications through a transport.Sender and
// records what became of them (delivery.go, send.go): devices that are gone
// (device.go), devices that back off (backoff.go), apps that are paused
// (pause.go). Both work on queues of store/queue, where the HTTP side
// puts events. A notification's platform says which sender gets it; today that is APNs
// for all (message.go).
package delivery
