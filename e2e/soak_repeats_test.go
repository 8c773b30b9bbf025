package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// sending is a request that one of the slots sent.
type sending struct {
	slot  int
	event string
	apnstest.Request
}

// sendings are all requests, by notification: an event or a message of a chat, and a token.
func (s *soak) sendings() map[string][]sending {
	out := map[string][]sending{}
	for n, at := range s.slots {
		for _, r := range at.apns.Requests() {
			var payload struct {
				Event string `json:"event_id"`
				Data  struct {
					Post, Chat string
					Message    string `json:"message_id"`
				}
			}
			if err := json.Unmarshal(r.Payload, &payload); err != nil {
				s.failf("payload %s: %v", r.Payload, err)
			}
			key := pushKey(payload.Data.Post, r.Token)
			if payload.Data.Post == "" {
				key = messageKey(payload.Data.Chat, payload.Data.Message, r.Token)
			}
			out[key] = append(out[key], sending{n, payload.Event, r})
		}
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b sending) int { return a.At.Compare(b.At) })
	}
	return out
}

func pushKey(post, token string) string { return "event " + post + " " + token }

func messageKey(chat, id, token string) string { return "message " + chat + "/" + id + " " + token }

// taken are the requests that reached the device.
func taken(all []sending) (out []sending) {
	for _, r := range all {
		if r.Taken {
			out = append(out, r)
		}
	}
	return out
}

// checkRepeats: a notification that APNs accepted is sent again only if its record may not have
// reached Redis (A15), or its answer may not have reached the sender (A10).
func (s *soak) checkRepeats() {
	distinct := 0
	for key, all := range s.sendings() {
		got := taken(all)
		if len(got) > 0 {
			distinct++
		}
		for i, r := range got {
			if s.exposed(r) {
				s.count("notifications in the window of A10 and A15: the bound of repeats", 1)
			}
			if i == 0 {
				continue
			}
			before := got[i-1]
			if before.ID != r.ID || before.event != r.event {
				s.failf("%s was sent as %s of %s and again as %s of %s", key, before.ID, before.event, r.ID, r.event)
			}
			cause := s.excuse(before, r)
			s.count("repeat: "+cause, 1)
			if cause == "" {
				s.failf("%s was sent by %d at %s, answered at %s and sent again by %d at %s; faults: %s",
					key, before.slot, clock(before.At), clock(before.Answered), r.slot, clock(r.At), s.faultsAround(before.At, r.At))
			}
		}
	}
	s.count("notifications that reached APNs", distinct)
}

// The window around a fault: how long before it a record may have been under way, and how late a
// busy stand-in may have read requests that were sent before its end.
const (
	recordLag = 2 * time.Second
	readLag   = 2 * time.Second
)

// exposes reports whether a fault may have kept the record of a sending from Redis.
func (f *soakFault) exposes(r sending) bool {
	return f.loses && slices.Contains(f.slots, r.slot) && r.Answered.After(f.from.Add(-recordLag)) && r.At.Before(f.to.Add(readLag))
}

// exposed reports whether a sending may be repeated.
func (s *soak) exposed(r sending) bool {
	return r.Answered.IsZero() || slices.ContainsFunc(s.faults, func(f soakFault) bool { return f.exposes(r) })
}

// excuse is the reason why a notification could be sent again; "" if there is none.
func (s *soak) excuse(first, second sending) string {
	if first.Answered.IsZero() {
		return "APNs' answer was lost"
	}
	for _, f := range s.faults {
		if f.exposes(first) && second.At.After(f.from) {
			return f.what
		}
		// A frozen process may write a request that it had begun, once.
		if f.what == frozen && slices.Contains(f.slots, second.slot) && second.At.After(f.from) && second.At.Before(f.to.Add(recordLag)) {
			return f.what + ", begun before"
		}
	}
	return ""
}

// faultsAround lists the faults in an interval and in the few seconds before it.
func (s *soak) faultsAround(from, to time.Time) string {
	text := ""
	for _, f := range s.faults {
		if f.to.After(from.Add(-5*time.Second)) && f.from.Before(to) {
			text += fmt.Sprintf("%v of %v; ", f.fault, f.slots)
		}
	}
	return text
}
