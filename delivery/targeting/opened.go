package targeting

import (
	"context"
	"slices"

	"fanfare/store/events"
)

// noteRecipients notes who gets a notification, of the pages whose events count who opens them, with one question for all pages,
// and none for other events. It comes before the send, so that nobody has a notification and does not count. It returns the pages
// that go on. The others wait. An event needs the slot of its recipients anyway; a part is in a slot of its own, and goes on after
// NotePatience without having noted them.
func (t *Targeting) noteRecipients(ctx context.Context, pages []*page) []*page {
	var asks []events.Recipients
	var of []*page
	for _, p := range pages {
		if !p.job.Opened || !p.goesOn() {
			continue
		}
		if users := p.reachable(); len(users) > 0 {
			asks, of = append(asks, events.Recipients{Event: p.event(), Part: p.part(), Users: users}), append(of, p)
		}
	}
	if len(asks) == 0 {
		return pages
	}
	var waiting []*page
	for i, err := range t.o.Cancels.NoteRecipients(ctx, t.o.MaxAge+t.o.ReportTTL, asks...) {
		p := of[i]
		switch {
		case err == nil:
		case p.part() && p.c.Now.Sub(p.c.EnqueuedAt) > t.o.NotePatience:
			t.o.Logger.Warn("the recipients of a part are not noted", "event", p.event(), "users", len(asks[i].Users), "error", err)
		default:
			t.postpone(p, "note_recipients", err)
			waiting = append(waiting, p)
		}
	}
	return slices.DeleteFunc(slices.Clone(pages), func(p *page) bool { return slices.Contains(waiting, p) })
}
