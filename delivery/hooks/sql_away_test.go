package hooks

import (
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// counted is a process of which it is known how many facts it has sent that were taken, and how many requests were not.
type counted struct {
	sql           *storetest.Proxy // its way to the database
	taken, failed atomic.Int64
}

// startCounted starts one that forgets the webhooks two seconds after it could read them last.
func (w *world) startCounted(s *receiver) *counted {
	w.t.Helper()
	p, url := storetest.ProxyTo(w.t, w.url)
	c := &counted{sql: p}
	w.startWith(w.storeOn(url, 2*time.Second), poster(s), func(o *Options) {
		o.Locks = NewLocks(w.redis) // lanes stay where they are, also on a busy machine
		o.OnAnswer = func(outcome string, facts int) {
			if outcome == Outcomes[taken] {
				c.taken.Add(int64(facts))
			} else {
				c.failed.Add(1)
			}
		}
	})
	return c
}

// H4, H9: a process that is cut off from the database, and not from Redis, goes on for a while. Then it sends nothing more and leaves
// its lanes to a process that has the database. While no process has it, facts wait.
func TestH9_AProcessWithoutTheDatabaseLeavesItsLanes(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ begin, end func(*storetest.Proxy) }{
		"Refuses":   {(*storetest.Proxy).Cut, (*storetest.Proxy).Mend},
		"BlackHole": {func(p *storetest.Proxy) { p.Hold(true) }, func(p *storetest.Proxy) { p.Hold(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lanes, each = 2, 10
			w := setupSQL(t, lanes, storetest.MySQL(t))
			s := newReceiver(t, nil)
			_, secret := w.mustPut("shop", s.URL, each)
			s.expect(secret)
			facts := 0 // in each lane
			add := func() {
				facts += each
				for lane := range lanes {
					w.feed.add(lane, "a", "k", each)
				}
			}
			arrive := func(what string) {
				t.Helper()
				storetest.Eventually(t, time.Minute, what, func() bool { return s.count() == lanes*facts })
			}
			first := w.startCounted(s)
			add()
			arrive("the facts before the cut")
			second := w.startCounted(s)
			way.begin(first.sql)
			add()
			arrive("the facts right after the cut")
			storetest.Eventually(t, time.Minute, "the other process has all lanes", func() bool {
				before := second.taken.Load()
				add()
				arrive("the facts of every lane")
				return second.taken.Load() == before+lanes*each
			})
			left := first.taken.Load()
			add()
			arrive("the facts after the change")
			if n := first.taken.Load() - left; n != 0 {
				t.Errorf("the process that has left its lanes has sent %d facts", n)
			}
			way.begin(second.sql)
			storetest.Eventually(t, soon, "no process owns a lane", w.free)
			before, began := s.count(), time.Now()
			add()
			storetest.Eventually(t, soon, "each process has looked for webhooks again", func() bool { return time.Since(began) > time.Second })
			if n := s.count() - before; n != 0 {
				t.Errorf("%d facts were sent while no process had the database", n)
			}
			way.end(first.sql)
			arrive("the facts that waited")
			s.mustHaveAll(lanes, facts)
			// A request that is cut off because its process forgets the webhook is neither taken nor failed: its facts come again.
			storetest.Eventually(t, soon, "each answer is known", func() bool { return first.taken.Load()+second.taken.Load() >= int64(lanes*facts) })
			if n := first.taken.Load() + second.taken.Load(); first.failed.Load()+second.failed.Load() == 0 && n != int64(lanes*facts) {
				t.Errorf("%d facts were taken %d times, though no request failed", lanes*facts, n)
			}
		})
	}
}
