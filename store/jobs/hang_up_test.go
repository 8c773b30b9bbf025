package jobs

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// J5: a hundred thousand waiting workers hang up at once, while jobs come. Nothing is held, and each job goes to a worker that
// comes then, without delay and with its first attempt.
func TestJ5_ManyWhoHangUp(t *testing.T) {
	t.Parallel()
	s, q, n := begin(t, storetest.Open(t, storetest.Redis(t).URL())), named("q"), storetest.Sized(100_000, 20_000)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	var all sync.WaitGroup
	var given atomic.Int64
	for i := range n {
		all.Go(func() {
			lease := int64(3_600_000)
			claim := &api.JobClaim{Worker: "w", LeaseMS: &lease}
			if i%10 == 0 {
				claim.Types = []string{"t", "u"}
			}
			claimed, _, err := s.Claim(ctx, ctx, q, claim, api.Idempotency{})
			if err != nil {
				t.Errorf("a wait: %v", err)
				return
			}
			given.Add(int64(len(claimed.Jobs)))
			s.GiveBack(ctx, q, claimed) // as the handler does for a caller who has left
		})
	}
	storetest.Eventually(t, time.Minute, "all wait", func() bool { return s.waiters(q) == n && s.listens(q) })
	hangUp()
	begun := time.Now()
	ids := map[string]bool{}
	for range 5 {
		ids[enqueue(t, s, q, api.JobRequest{})[0]] = true
	}
	for range 5 {
		j := eventually(t, s, q, time.Minute)
		if !ids[j.ID] || j.Attempt != 1 {
			t.Errorf("claimed %+v", j)
		}
		delete(ids, j.ID)
	}
	took := time.Since(begun)
	all.Wait()
	t.Logf("%d left within %v, 5 jobs went to others within %v, %d were given to those who left", n, time.Since(begun), took, given.Load())
	if took > lookEvery/2 {
		t.Errorf("jobs waited for %v while %d workers left", took, n)
	}
	if s.waiters(q) != 0 {
		t.Errorf("%d still wait", s.waiters(q))
	}
	mustCount(t, s, q, api.JobQueue{Running: 5})
	enqueue(t, s, q, api.JobRequest{})
	one(t, s, q, time.Minute)
	storetest.Eventually(t, soon, "nothing is left of the line", func() bool {
		s.rooms.mu.Lock()
		defer s.rooms.mu.Unlock()
		return len(s.rooms.open) == 0
	})
}
