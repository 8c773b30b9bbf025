package targeting

import (
	"context"
	"slices"
	"sync"

	"fanfare/store/devices"
	"fanfare/store/queue"
)

// sqlPages are the pages that wait for SQL or are being targeted with it. The pages of one shard
// of events belong to one goroutine, which works on them in their order until each is finished.
type sqlPages struct {
	mu      sync.Mutex
	waiting map[int][]*page // by shard; a shard without an entry has no goroutine
	held    int             // pages that wait or are worked on, of all shards
	parts   int             // parts of large audiences that are worked on
}

// eventsOfAPart is how many small events a part counts as, among those that ask SQL.
const eventsOfAPart = 10

// addParts counts so many more parts, unless there are too many.
func (s *sqlPages) addParts(n, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.parts > 0 && s.parts+n > most {
		return false
	}
	s.parts += n
	return true
}

// add takes as many of the pages as there is room for, and reports whether the shard needs
// a goroutine.
func (s *sqlPages) add(shard int, pages []*page, most int) (taken int, begin bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[int][]*page{}
	}
	if taken = min(len(pages), most-s.held); taken == 0 {
		return 0, false
	}
	before, running := s.waiting[shard]
	s.waiting[shard], s.held = append(before, pages[:taken]...), s.held+taken
	return taken, !running
}

// next gives a shard's goroutine the waiting pages, and takes the pages that it finished off the
// count. When no page is left the goroutine ends.
func (s *sqlPages) next(shard, finished int) []*page {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= finished
	pages := s.waiting[shard]
	if len(pages) == 0 {
		delete(s.waiting, shard)
		return nil
	}
	s.waiting[shard] = nil
	return pages
}

// mostForSQL is how many pages may wait for SQL: a quarter of what this process may have
// claimed, so that a hanging SQL leaves room for events that do not need it.
func (t *Targeting) mostForSQL() int {
	return max(t.o.InFlight/4, 1)
}

// leaveToSQL gives pages to the goroutine that asks SQL for their shard. Pages that find
// no room go back to the queue.
func (t *Targeting) leaveToSQL(ctx context.Context, shard int, pages []*page) {
	taken, begin := t.sql.add(shard, pages, t.mostForSQL())
	for _, p := range pages[taken:] {
		p.c.Finish(queue.Result{Outcome: queue.Defer, Untouched: true, Reason: "many events wait for SQL"})
	}
	if !begin {
		return
	}
	t.sending.Go(func() {
		for pages := t.sql.next(shard, 0); pages != nil; pages = t.sql.next(shard, len(pages)) {
			t.work(ctx, alive(slices.Clone(pages)), nil)
		}
	})
}

// leftToSQL are the users of those pages that were claimed together and left to the goroutine that asks SQL.
type leftToSQL map[string]bool

// divide separates the pages that continue in the goroutine that asks SQL: those with users who are
// not cached, and those after them that have a user in common with them, so that the events of a batch
// keep their order. They are left as if they had never been read.
func (l leftToSQL) divide(pages []*page) (warm, forSQL []*page) {
	for _, p := range pages {
		missed := slices.ContainsFunc(p.targets, func(d devices.Target) bool { return d.Err != nil })
		if !missed && (len(l) == 0 || !slices.ContainsFunc(p.others, func(user string) bool { return l[user] })) {
			warm = append(warm, p)
			continue
		}
		for _, user := range p.others {
			l[user] = true
		}
		forSQL = append(forSQL, &page{c: p.c, job: p.job, changed: p.changed, newer: p.newer})
	}
	return warm, forSQL
}
