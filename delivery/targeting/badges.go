package targeting

import (
	"context"
	"slices"
	"time"

	"fanfare/store/badges"
)

// number gives the users of pages whose events show a number on the icon of the app theirs, with one question for all
// pages, and none for events without a badge. It comes before the send, so that every process which sends the event gives
// the same numbers. A user whose number cannot be read is missed.
func (t *Targeting) number(ctx context.Context, pages []*page) {
	pages = slices.DeleteFunc(slices.Clone(pages), func(p *page) bool { return p.job.Push.Badge == "" })
	var asks []badges.Ask
	for _, p := range pages {
		for _, user := range p.reachable() {
			asks = append(asks, badges.Ask{User: user, Event: p.event(), Mode: p.job.Push.Badge, Came: p.came(), Age: p.age()})
		}
	}
	if len(asks) == 0 {
		return
	}
	numbers := t.o.Badges(ctx, asks)
	for _, p := range pages {
		n := len(p.reachable())
		p.show(asks[:n], numbers[:n])
		asks, numbers = asks[n:], numbers[n:]
	}
}

// reachable lists the users with a device to which the page sends, each once.
func (p *page) reachable() (users []string) {
	for _, r := range p.found { // the devices of a user stand together
		if n := len(users); n == 0 || users[n-1] != r.User {
			users = append(users, r.User)
		}
	}
	return users
}

// came is when the page's event came. A part counts as its event.
func (p *page) came() time.Time {
	if at := time.UnixMilli(p.job.AcceptedAt); at.Before(p.c.EnqueuedAt) {
		return at
	}
	return p.c.EnqueuedAt
}

// show gives the page's recipients the numbers of their users, and leaves out the users without one.
func (p *page) show(asks []badges.Ask, numbers []badges.Reached) {
	for i, a := range asks {
		if err := numbers[i].Err; err != nil {
			p.miss(a.User, err)
		}
	}
	goesOn, i, kept := p.goesOn(), -1, p.found[:0]
	for _, r := range p.found { // in the order of the asks
		if i < 0 || asks[i].User != r.User {
			i++
		}
		if goesOn && numbers[i].Err == nil {
			r.Badge = numbers[i].Count
			kept = append(kept, r)
		}
	}
	p.found = kept
}
