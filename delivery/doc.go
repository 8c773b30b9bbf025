// Package delivery tells phones: it turns accepted events into notifications
// (targeting: who, which devices, opt-outs, mutes) and sends those through a
// push service (the Sender: APNs, or the log). It works on queues of
// store/queue and meets the HTTP side only there.
package delivery
