package targeting

import (
	"context"

	"fanfare/api"
	"fanfare/store/events"
)

// cancelled reports whether a page's event was cancelled. unsure says that this is not known, because the view
// of this process is too old.
func (t *Targeting) cancelled(p *page) (is, unsure bool) {
	if t.o.Events == nil {
		return false, false
	}
	is, fresh := t.o.Events.Cancelled(t.o.Events.PlaceOfEvents(p.c.Shard), p.event())
	return is, !is && !fresh && !p.job.Young()
}

// endCancelled ends a cancelled event, or a part of one, of which nothing was begun, and a large audience before
// its next page. A page that was begun goes on, so that each of its notifications is counted once: Delivery does not
// send them. A page goes back if it is not known whether it was cancelled.
func (t *Targeting) endCancelled(ctx context.Context, p *page) bool {
	is, unsure := t.cancelled(p)
	if unsure {
		t.o.Events.RefreshCancelled(ctx, t.o.Events.PlaceOfEvents(p.c.Shard))
		is, unsure = t.cancelled(p)
	}
	switch {
	case unsure:
		t.postpone(p, "read_cancelled", errCancelsUnknown)
	case !is || t.partlyDone(ctx, p):
		p.cancelled = is
		return false
	default:
		t.end(p, p.job.End(p.job.Counted, p.job.Sent, p.c.First, t.o.ReportTTL))
	}
	return true
}

// errCancelsUnknown says that Redis could not tell which events are cancelled.
var errCancelsUnknown = api.Errorf(api.CodeUnavailable, "the cancelled events could not be read")

// partlyDone reports whether another process may have begun with a page: with the notifications of an event or of
// a part, or with the parts of a large audience's page.
func (t *Targeting) partlyDone(ctx context.Context, p *page) bool {
	if p.c.First || !p.large() {
		return t.partlySent(ctx, p)
	}
	_, _, split, err := events.SplitBefore(ctx, t.o.Queue, p.c.ID, p.job.Cursor)
	return split || err != nil
}
