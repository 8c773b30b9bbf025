package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// Failure table, O1, O2: the master of an event stays away, dead or hanging, while users open and dismiss its notifications. Their calls
// are answered 503, also those of users who were counted before. Those about an event on another master are counted meanwhile. When the
// master is back, repeats count each user once, and each count is told by one fact.
func TestO2_TheMasterOfAnEventIsAway(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ leave, back func(*storetest.RedisServer) }{
		"Dead":    {(*storetest.RedisServer).Kill, (*storetest.RedisServer).Restart},
		"Hanging": {(*storetest.RedisServer).Pause, (*storetest.RedisServer).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 24
			c := storetest.PrivateCluster(t, 0, "--appendonly", "yes", "--appendfsync", "always", "--cluster-require-full-coverage", "no")
			apns := apnstest.Start(t, apnstest.Options{})
			o := &openedAway{t: t, servers: mustServeMany(t, 2, quick(append(apns.Env(), "FANFARE_REDIS_URL="+c.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)...)}
			p := o.servers[0]
			p.mustRegister(n)
			p.must(201, nil, "PUT", "/v1/event-types/seen", map[string]any{"title": "New photo", "opened": true})
			p.mustTellFacts(api.FactNotificationOpened, api.FactNotificationDismissed)
			master := c.Nodes[0]
			there := shardsOn(t, c, "events", master)
			gone, other := o.mustPostOn(n, there, true), o.mustPostOn(n, there, false)
			for _, id := range []string{gone, other} {
				o.insist(id, n/2)
			}

			way.leave(master)
			p.each(n, func(i int) error { return o.wantRefused(gone, i) })
			o.insist(other, n)
			p.each(n, func(i int) error { return o.wantRefused(gone, i) })
			way.back(master)
			for range 2 {
				o.insist(gone, n)
				o.insist(other, n)
			}

			f := newTold()
			for _, id := range []string{gone, other} {
				var r api.EventReport
				p.must(200, &r, "GET", "/v1/events/"+id, nil)
				if *r.Opened != n || *r.Dismissed != n {
					t.Errorf("%d opened and %d dismissed it, want %d", *r.Opened, *r.Dismissed, n)
				}
				storetest.Eventually(t, time.Minute, "all are told", func() bool {
					f.read(t, p, 200*time.Millisecond)
					return f.openings(t, id, api.FactNotificationOpened) == n && f.openings(t, id, api.FactNotificationDismissed) == n
				})
			}
			if f.read(t, p, time.Second); f.gap != 0 || len(f.ids) != 4*n {
				t.Errorf("%d facts, want %d; a gap of %d", len(f.ids), 4*n, f.gap)
			}
		})
	}
}

// openedAway are servers that users tell what they did with notifications.
type openedAway struct {
	t       testing.TB
	servers []*program
}

// mustPostOn posts events to the first n users until one is in a shard on a master, or on none of its shards, and waits until it is done.
func (o *openedAway) mustPostOn(n int, there []bool, on bool) (id string) {
	o.t.Helper()
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	storetest.Eventually(o.t, time.Minute, "an event in such a shard", func() bool {
		var accepted struct{ ID string }
		o.servers[0].must(202, &accepted, "POST", "/v1/events", map[string]any{"type": "seen", "audience": map[string]any{"users": users}})
		id = accepted.ID
		shard, ok := queue.ParseID(id)
		return ok && there[shard] == on
	})
	storetest.Eventually(o.t, time.Minute, "it is done", func() bool {
		var r api.EventReport
		o.servers[0].must(200, &r, "GET", "/v1/events/"+id, nil)
		return r.State == api.EventDone
	})
	return id
}

// tell tells once that the i-th user did something with an event's notification.
func (o *openedAway) tell(id, what string, i int) (status int, answer []byte, err error) {
	return o.servers[i%len(o.servers)].try(http.MethodPost, "/v1/events/"+id+"/"+what, map[string]any{"user": fmt.Sprintf("user-%d", i)})
}

// insist tells for the first n users that they opened and dismissed an event's notification, each until it is counted. Meanwhile 503 is
// the only other answer.
func (o *openedAway) insist(id string, n int) {
	o.t.Helper()
	o.servers[0].each(n, func(i int) error {
		deadline := time.Now().Add(time.Minute)
		for _, what := range []string{"opened", "dismissed"} {
			for {
				status, answer, err := o.tell(id, what, i)
				if err == nil && status == http.StatusNoContent {
					break
				}
				if err != nil || status != http.StatusServiceUnavailable || time.Now().After(deadline) {
					return fmt.Errorf("user %d %s: %d %s %v", i, what, status, answer, err)
				}
				<-time.After(50 * time.Millisecond)
			}
		}
		return nil
	})
}

// wantRefused wants that the calls of a user are answered 503, and that a repeat is said to be of use.
func (o *openedAway) wantRefused(id string, i int) error {
	for _, what := range []string{"opened", "dismissed"} {
		status, answer, err := o.tell(id, what, i)
		var p api.Problem
		if err == nil {
			err = json.Unmarshal(answer, &p)
		}
		if err != nil || status != http.StatusServiceUnavailable || !p.Retryable || !slices.Contains([]api.Code{api.CodeUnavailable, api.CodeUnknownOutcome}, p.Code) {
			return fmt.Errorf("user %d %s while the master is away: %d %s %v", i, what, status, answer, err)
		}
	}
	return nil
}
