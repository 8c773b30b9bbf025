package jobs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// J8: a call is answered by its deadline, however slow Redis is. Jobs that a claim gets later are given back, unless it has an
// Idempotency-Key and may be repeated.
func TestJ8_CallsEndAtTheirDeadline(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	s := begin(t, storetest.Open(t, server.URL()))
	proxy, url := storetest.ProxyTo(t, server.URL())
	// With a shorter time-out the answer would count as lost, and the job would stay held.
	slow := begin(t, storetest.OpenWith(t, redisdb.Options{URL: url, Timeout: time.Minute}))
	briefly := func(call func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		err := call(ctx)
		if took := time.Since(begun); err == nil || took > soon {
			t.Errorf("a call with a deadline of 100 ms ended after %v: %v", took, err)
		}
	}
	for _, most := range []int64{1, smallJobs + 1} {
		for _, once := range []api.Idempotency{{}, {Scope: "s", Key: fmt.Sprint(most)}} {
			q, lease := named("q"), int64(3_600_000)
			id := enqueue(t, s, q, api.JobRequest{})[0]
			gate := make(chan struct{})
			proxy.OnAnswer(func(*storetest.ProxyConn, []byte) storetest.Fate { <-gate; return storetest.Pass })
			claim := &api.JobClaim{Worker: "w", LeaseMS: &lease, Max: &most}
			briefly(func(ctx context.Context) error { _, _, err := slow.Claim(ctx, nil, q, claim, once); return err })
			storetest.Eventually(t, soon, "it gets the job", func() bool { return mustGet(t, s, id).State == api.JobRunning })
			close(gate)
			if once.Key == "" {
				if j := eventually(t, s, q, time.Minute); j.ID != id || j.Attempt != 1 {
					t.Errorf("claimed %+v", j)
				}
				continue
			}
			claimed, again, err := slow.Claim(t.Context(), nil, q, claim, once)
			if err != nil || !again || len(claimed.Jobs) != 1 {
				t.Errorf("the repeat: %+v, %v, %v", claimed, again, err)
			}
		}
	}
	jobs := make([]api.JobRequest, smallJobs+1)
	for i := range jobs {
		jobs[i].Type = "t"
	}
	proxy.Hold(true)
	defer proxy.Hold(false)
	briefly(func(ctx context.Context) error {
		_, _, err := slow.Enqueue(ctx, named("q"), jobs, api.Idempotency{})
		return err
	})
}

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
