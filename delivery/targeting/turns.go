package targeting

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns keep the order of events to the same user. A page takes a turn when its users become
// known, and gives it up when it was targeted. Meanwhile later pages with one of its users wait.
type turns struct {
	mu   sync.Mutex
	last map[string]*turn // by user: the turn that was taken last and is not over
}

// turn is the place of one page in the order of its users' events.
type turn struct {
	shard  int // of the page
	users  []string
	before []*turn       // those of the same users that were taken before
	ended  bool          // guarded by turns
	over   chan struct{} // closed at the end; nil: nobody waits yet
}

// turnPatience is how long a page is kept behind others, from its claim. It bounds what a
// hanging SQL costs a user who has been read, and ends circles of pages that wait for each other.
const turnPatience = 2 * time.Second

// take is called in the order that is to be kept.
func (ts *turns) take(shard int, users []string) *turn {
	t := &turn{shard: shard, users: users}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.last == nil {
		ts.last = map[string]*turn{}
	}
	for _, user := range users {
		if b := ts.last[user]; b != nil && !slices.Contains(t.before, b) {
			t.before = append(t.before, b)
		}
		ts.last[user] = t
	}
	return t
}

// end gives up a page's turn. Nothing happens if the page has none.
func (ts *turns) end(p *page) {
	t := p.turn
	if t == nil {
		return
	}
	p.turn = nil
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, user := range t.users {
		if ts.last[user] == t {
			delete(ts.last, user)
		}
	}
	t.before, t.ended = nil, true
	if t.over != nil {
		close(t.over)
	}
}

// pending lists the turns that a page is still behind.
func (ts *turns) pending(p *page) []*turn {
	t := p.turn
	if t == nil || len(t.before) == 0 {
		return nil
	}
	if time.Since(p.taken) > turnPatience {
		return nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.before = slices.DeleteFunc(t.before, func(b *turn) bool { return b.ended })
	return t.before
}

// elsewhere lists those of the pending turns that other shards have. The pages of one shard keep
// their order by themselves.
func (ts *turns) elsewhere(p *page) []*turn {
	return slices.DeleteFunc(slices.Clone(ts.pending(p)), func(b *turn) bool { return b.shard == p.turn.shard })
}

// await waits until no other shard has an earlier turn, or the page's patience is over.
func (ts *turns) await(ctx context.Context, p *page) {
	ctx, cancel := context.WithTimeout(ctx, turnPatience-time.Since(p.taken))
	defer cancel()
	for _, b := range ts.elsewhere(p) {
		ts.mu.Lock()
		if b.over == nil {
			b.over = make(chan struct{})
			if b.ended {
				close(b.over)
			}
		}
		ts.mu.Unlock()
		select {
		case <-b.over:
		case <-ctx.Done():
		}
	}
}

// behind reports whether a page has to wait for events to the same users that are not among the
// given pages.
func (t *Targeting) behind(p *page, pages []*page) bool {
	return slices.ContainsFunc(t.turns.pending(p), func(b *turn) bool {
		return !slices.ContainsFunc(pages, func(p *page) bool { return p.turn == b })
	})
}
