package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// counted sums up the last hour, as one of the processes answers.
func (p *program) counted() (sum api.StatsMinute) {
	p.t.Helper()
	var list api.StatsSeries
	p.must(200, &list, "GET", "/v1/stats/series?minutes=60", nil)
	for _, m := range list.Items {
		sum.Accepted += m.Accepted
		sum.Delivered += m.Platforms["apns"].Delivered
		sum.Opened += m.Opened
		if m.P50MS != nil {
			sum.P50MS, sum.P99MS = m.P50MS, m.P99MS
		}
		if m.Depth != nil {
			sum.Depth, sum.OldestAgeMS = m.Depth, m.OldestAgeMS
		}
	}
	return sum
}

// N18, O2: each of two processes shows what both did together, and how many users opened a notification at either. One of them stops in
// the middle of a minute.
func TestN18_ProcessesCountTogether(t *testing.T) {
	t.Parallel()
	const n = 200
	vars := []string{"FANFARE_REDIS_URL=" + storetest.Redis(t).URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t)}
	servers := mustServeMany(t, 2, vars...)
	servers[0].mustRegister(n)
	posts := &poster{n: n, servers: func() []*program { return servers }}
	posts.start()
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	const seen = 5
	mustOpen(t, servers, seen)
	if code, _ := servers[1].terminate(); code != 0 {
		t.Errorf("it stopped with %d", code)
	}
	complete := func() bool {
		sum := servers[0].counted()
		return sum.Accepted == n+1 && sum.Delivered == n+seen && sum.Opened == seen && sum.P50MS != nil && *sum.P50MS <= *sum.P99MS && sum.Depth != nil && *sum.Depth == 0
	}
	storetest.Eventually(t, 4*time.Minute, "all events are counted", complete)
	again := mustServeMany(t, 1, vars...)[0]
	if sum := again.counted(); sum.Accepted != n+1 || sum.Delivered != n+seen || sum.Opened != seen {
		t.Errorf("%+v", sum)
	}
}

// mustOpen sends an event to n users. Each of them opens it twice and dismisses it, at one server or the other, and counts once in the
// metrics of both together.
func mustOpen(t *testing.T, servers []*program, n int) {
	t.Helper()
	servers[0].must(201, nil, "PUT", "/v1/event-types/seen", map[string]any{"title": "New photo", "opened": true})
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	var event api.EventReport
	servers[0].must(202, &event, "POST", "/v1/events", map[string]any{"type": "seen", "audience": map[string]any{"users": users}})
	storetest.Eventually(t, time.Minute, "the event is done", func() bool {
		servers[0].must(200, &event, "GET", "/v1/events/"+event.ID, nil)
		return event.State == api.EventDone
	})
	for i, user := range users {
		for at, action := range []string{"opened", "opened", "dismissed"} {
			servers[(i+at)%2].must(204, nil, "POST", "/v1/events/"+event.ID+"/"+action, map[string]any{"user": user})
		}
	}
	for _, action := range []string{"opened", "dismissed"} {
		sum := 0
		for _, p := range servers {
			counted, err := strconv.Atoi(p.metric(`fanfare_notifications_opened_total{action="` + action + `"}`))
			storetest.Must(t, err)
			sum += counted
		}
		if sum != n {
			t.Fatalf("the metrics count %d users who %s it, want %d", sum, action, n)
		}
	}
}
