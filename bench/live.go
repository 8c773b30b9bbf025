package main

import (
	"fmt"
	"net/http"
	"time"

	"fanfare/delivery/apns/apnstest"
)

// liveToken is the first token of the activities.
const liveToken = 1 << 26

// toActivities is a POST of an update of an object to all its activities.
var toActivities = request(http.MethodPost, "/v1/events",
	`{"type":"match","audience":{"activities_of":"match"},"live":{"action":"update","content_state":{"home":2,"away":1,"minute":63}}}`)

// activities compares an update of an object to 10,000 activities with an event to as many followers. Each update begins in
// a second of its own, and its time counts from then.
func activities(w *world) sample {
	n := w.few(10_000)
	s := w.stage(plan{users: 1, fans: n, fill: func(into tables) {
		into.rows("devices (token, user_id, platform, topic, environment, state, registered_at, object)", n, func(i int) string {
			return fmt.Sprintf("('%s','fan-%d','apns','%s','production','active',1,'match')", token(liveToken+i), i, apnstest.DefaultTopic+".push-type.liveactivity")
		})
	}})
	s.warm("fan-%d", n)
	return w.turns(s.oneFanOut(n), s.oneUpdate(n))
}

// oneUpdate is a side that posts one update to all activities and waits until it is delivered.
func (s *stage) oneUpdate(n int) *side {
	return &side{name: "update", stage: s, servers: []*process{s.server}, run: func(time.Duration) sample {
		s.pause(2 * time.Second) // the second of the update before is over
		before, began := s.taken.Load(), time.Now()
		s.each(1, func(c *caller, _ int) { must(c.send(toActivities, http.StatusAccepted)) })
		s.await(before + int64(n))
		return sample{"rate": float64(n) / time.Since(began).Seconds(), "count": float64(n)}
	}}
}
