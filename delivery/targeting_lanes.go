package delivery

import (
	"context"
	"slices"
	"sync"

	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// mostBeside is how many pages may be in hand in all lanes of one kind: a quarter of what
// may be claimed, so that SQL that hangs leaves room for what does not need it.
func (t *Targeting) mostBeside() int {
	if d := t.o.Delivery; d != nil {
		return max(d.windows.most/4, 1)
	}
	return InFlight / 4
}

// lanes work beside the handler, each on its pages in their order.
type lanes struct {
	mu      sync.Mutex
	waiting map[int][]*page // by lane; one without an entry rests
	held    int             // pages that wait or are worked on
}

// beside gives pages to a lane; those that find no room are postponed.
func (t *Targeting) beside(ctx context.Context, l *lanes, lane int, pages []*page, work func(context.Context, []*page)) {
	if len(pages) == 0 {
		return
	}
	l.mu.Lock()
	if l.waiting == nil {
		l.waiting = map[int][]*page{}
	}
	n := min(len(pages), t.mostBeside()-l.held)
	before, works := l.waiting[lane]
	l.waiting[lane], l.held = append(before, pages[:n]...), l.held+n
	l.mu.Unlock()
	for _, p := range pages[n:] {
		p.c.Finish(queue.Result{Outcome: queue.Defer, Untouched: true, Reason: "others ask SQL"})
	}
	if works {
		return
	}
	t.sending.Go(func() {
		for n := 0; ; {
			l.mu.Lock()
			l.held -= n
			pages := l.waiting[lane]
			if n = len(pages); n == 0 {
				delete(l.waiting, lane)
				l.mu.Unlock()
				return
			}
			l.waiting[lane] = nil
			l.mu.Unlock()
			work(ctx, alive(pages))
		}
	})
}

// leaveCold leaves to their lane the pages with users who are not cached, and those
// behind them that have a user in common: these keep their order.
func (t *Targeting) leaveCold(ctx context.Context, pages []*page) (warm []*page) {
	var cold []*page
	users := map[string]bool{}
	for _, p := range pages {
		missed := slices.ContainsFunc(p.targets, func(d devices.Target) bool { return d.Err != nil })
		if !missed && !slices.ContainsFunc(p.others, func(user string) bool { return users[user] }) {
			warm = append(warm, p)
			continue
		}
		cold = append(cold, p)
		for _, user := range p.others {
			users[user] = true
		}
	}
	t.beside(ctx, &t.cold, 0, cold, t.askSQL)
	return warm
}

// askSQL targets pages with users who are not cached. After a passing failure the others
// wait without asking.
func (t *Targeting) askSQL(ctx context.Context, pages []*page) {
	var away error
	for _, some := range byUsers(pages) {
		if away == nil {
			if err := t.resolve(ctx, some, false); passing(err) {
				away = err
			}
			continue
		}
		for _, p := range some {
			p.users = nil // nothing of it is begun
			t.postpone(p, "read_settings", away)
		}
	}
}

// byUsers divides pages into groups of at most events.PageSize users, or one page.
func byUsers(pages []*page) (groups [][]*page) {
	users := 0
	for _, p := range pages {
		if users += len(p.users); groups == nil || users > events.PageSize {
			groups, users = append(groups, nil), len(p.users)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], p)
	}
	return groups
}
