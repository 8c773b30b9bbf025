package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"

	"fanfare/store/storetest"
)

// Every accepted event has a report, however many events one shard gets in a minute.
func TestReportsOfABusyShard(t *testing.T) {
	t.Parallel()
	const batch = 100
	n := storetest.Sized(10_000, 4000)
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_SHARDS=1", "FANFARE_ROLES=api", "FANFARE_LOG_LEVEL=warn")
	posts := &poster{n: n, batch: batch, servers: func() []*program { return []*program{p} }}
	posts.start()
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	var missing atomic.Int64
	p.each(n, func(i int) error {
		status, answer, err := p.try("GET", "/v1/events/"+posts.ids[i], nil)
		switch {
		case err != nil:
			return err
		case status == 404:
			missing.Add(1)
		case status != 200:
			return fmt.Errorf("event %d: %d %s", i, status, answer)
		}
		return nil
	})
	if missing := missing.Load(); missing > 0 {
		t.Errorf("%d of %d accepted events have no report", missing, n)
	}
}
