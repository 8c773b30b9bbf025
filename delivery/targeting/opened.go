package targeting

import (
	"context"
	"slices"

	"fanfare/api"
	"fanfare/store/events"
)

// noteRecipients notes who gets a notification, of the pages whose events count who opens them, with one question for all pages,
// and none for other events. It comes before the send, so that nobody has a notification and does not count. It returns the pages
// that go on. The others wait. An event needs the slot of its recipients anyway; a part is in a slot of its own, and goes on without having noted
// them when that has failed for NotePatience, or at once while Redis is nearly full.
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
	for i, err := range t.o.Events.NoteRecipients(ctx, t.o.MaxAge+t.o.ReportTTL, asks...) {
		p := of[i]
		switch {
		case err == nil:
			if p.part() {
				t.full.Store(false)
			}
		case p.part() && api.CodeOf(err) == api.CodeOverloaded:
			if !t.full.Swap(true) {
				t.o.Logger.Warn("recipients of parts are not noted while Redis is nearly full", "event", p.event(), "error", err)
			}
		case p.part() && ctx.Err() == nil && t.impatient(p):
			t.o.Logger.Warn("the recipients of a part are not noted", "event", p.event(), "users", len(asks[i].Users), "error", err)
		default:
			t.postpone(p, "note_recipients", err)
			waiting = append(waiting, p)
		}
	}
	return slices.DeleteFunc(slices.Clone(pages), func(p *page) bool { return slices.Contains(waiting, p) })
}

// impatient reports whether a part whose recipients could not be noted has waited for that long enough. It keeps in the part
// since when it waits, because the next try may be that of another process.
func (t *Targeting) impatient(p *page) bool {
	now := p.c.Clock().UnixMilli()
	if p.job.UnnotedSince == 0 {
		p.job.UnnotedSince, p.changed = now, true
		return false
	}
	return now-p.job.UnnotedSince > t.o.NotePatience.Milliseconds()
}
