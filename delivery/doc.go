// Package delivery brings events to phones in two steps. Targeting turns an
// accepted event into one notification per device: who gets it, opt-outs, mutes
// (targeting.go). Delivery sends notifications through a transport.Sender and
// records what became of them (delivery.go, send.go): devices that are gone
// (device.go), devices that back off (backoff.go), apps that are paused
// (pause.go, probe.go). Both work on queues of store/queue, where the HTTP side
// puts events; which push service sends is not known here.
package delivery
