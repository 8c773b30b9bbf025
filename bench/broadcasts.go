package main

import (
	"fmt"
	"net/http"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// matches is how many objects have a channel: at the pace of latencies each gets an update every ten seconds.
const matches = 10 * pace

// broadcasts measures updates of objects with a channel of APNs: how many requests one costs, whatever the number of
// subscribers, which only Apple knows, and how long it takes.
func broadcasts(w *world) sample {
	ends, channels := time.Now().Add(time.Hour).UnixMilli(), make([]string, matches)
	s := w.stage(plan{users: 1, also: func(s *stage) []string {
		for i := range channels {
			channels[i] = s.apns.AddChannel(apnstest.DefaultTopic, 0)
		}
		return nil
	}, fill: func(into tables) {
		into.rows("broadcasts (object, topic, environment, keep, channel, state, ends_at, asked_at, created_at, updated_at)", matches, func(i int) string {
			return fmt.Sprintf("('match:%d','%s','production','none','%s','open',%d,1,1,1)", i, apnstest.DefaultTopic, channels[i], ends)
		})
	}})
	first := 0 // of a round, so that no object gets two updates in a second
	update := func(n int) ([]byte, string) {
		at := (first + n) % matches
		return request(http.MethodPost, "/v1/events", fmt.Sprintf(
			`{"type":"match","audience":{"broadcast":"match:%d"},"live":{"action":"update","content_state":{"home":%d,"away":0,"minute":"63"}}}`, at, n)), channels[at]
	}
	l := s.arriving(pace, update)
	return w.turns(&side{name: "update", run: func(d time.Duration) sample {
		before := s.taken.Load()
		found := l.load(w.ctx, 2*d)
		s.rest("events", "notifications")
		found["requests"] = float64(s.taken.Load()-before) / found["count"]
		first += int(found["count"])
		return found
	}})
}
