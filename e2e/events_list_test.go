package e2e

import (
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// listed reads all pages of the list of events.
func (p *program) listed(filter string) (ids []string) {
	p.t.Helper()
	for next := ""; ; {
		var page api.EventList
		p.must(200, &page, "GET", "/v1/events?limit=30"+filter+next, nil)
		for _, e := range page.Items {
			ids = append(ids, e.ID)
		}
		if page.Next == "" {
			return ids
		}
		next = "&cursor=" + page.Next
	}
}

// Events that real processes accepted are listed by each of them, each event once, also after the process
// that accepted them was killed and after Redis was killed and started again.
func TestN9_EventsOfKilledProcesses(t *testing.T) {
	t.Parallel()
	const batches, batch = 3, 50
	server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	vars := []string{"FANFARE_REDIS_URL=" + server.URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t)}
	first := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=api")...)
	other := mustServe(t, t.TempDir(), vars...)
	accepted := map[string]bool{}
	for i := range batches * 2 {
		p := []*program{first, other}[i%2]
		events := make([]map[string]any, batch)
		for n := range events {
			events[n] = map[string]any{"type": fmt.Sprint("batch.", i), "audience": map[string]any{"users": []string{"bob"}}, "alert": map[string]any{"title": "x"}}
		}
		var answer api.EventBatchAccepted
		p.must(202, &answer, "POST", "/v1/events/batch", map[string]any{"events": events})
		for _, e := range answer.Items {
			accepted[e.ID] = true
		}
	}
	first.kill()
	check := func(when, filter string, want int) {
		t.Helper()
		ids := other.listed(filter)
		seen := map[string]bool{}
		for _, id := range ids {
			if !accepted[id] || seen[id] {
				t.Errorf("%s: %s is listed twice, or was never accepted", when, id)
			}
			seen[id] = true
		}
		if len(ids) != want {
			t.Errorf("%s: %d events are listed, want %d", when, len(ids), want)
		}
	}
	check("after the kill", "", len(accepted))
	server.Kill()
	server.Restart()
	storetest.Eventually(t, time.Minute, "the list is there again", func() bool {
		status, _, err := other.try("GET", "/v1/events", nil)
		return err == nil && status == 200
	})
	check("after a restart of Redis", "", len(accepted))
	check("of a type", "&type=batch.1", batch)
	storetest.Eventually(t, time.Minute, "all events are done", func() bool { return len(other.listed("&state=done")) == len(accepted) })
	check("in another state", "&state=queued", 0)
}
