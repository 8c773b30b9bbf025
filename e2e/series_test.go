package e2e

import (
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
		if m.P50MS != nil {
			sum.P50MS, sum.P99MS = m.P50MS, m.P99MS
		}
		if m.Depth != nil {
			sum.Depth, sum.OldestAgeMS = m.Depth, m.OldestAgeMS
		}
	}
	return sum
}

// N18: each of two processes shows what both did together. One of them stops in the middle of a minute.
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
	if code, _ := servers[1].terminate(); code != 0 {
		t.Errorf("it stopped with %d", code)
	}
	complete := func() bool {
		sum := servers[0].counted()
		return sum.Accepted == n && sum.Delivered == n && sum.P50MS != nil && *sum.P50MS <= *sum.P99MS && sum.Depth != nil && *sum.Depth == 0
	}
	storetest.Eventually(t, 4*time.Minute, "all events are counted", complete)
	again := mustServeMany(t, 1, vars...)[0]
	if sum := again.counted(); sum.Accepted != n || sum.Delivered != n {
		t.Errorf("%+v", sum)
	}
}
