package events

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"fanfare/api"
	"fanfare/store/queue"
)

// Report says how far an event has come, with counts that are right even if work is repeated. An
// event that is unknown, or whose retention is over, is not_found.
func (s *Store) Report(ctx context.Context, id string) (*api.EventReport, error) {
	w, err := s.whole(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.reportOf(ctx, w)
}

// reportOf is the report of an event that was read, with its openings.
func (s *Store) reportOf(ctx context.Context, w *whole) (r *api.EventReport, err error) {
	if w.openings, err = s.openings(ctx, w); err != nil {
		return nil, err
	}
	return w.report(), nil
}

// whole reads all that is on record of one event, but for its openings.
func (s *Store) whole(ctx context.Context, id string) (*whole, error) {
	read, err := s.o.Queue.ReportsOf(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if len(read) == 0 {
		return nil, notFound(id)
	}
	all, err := s.wholes(ctx, read)
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// whole is an event's own report with the counts of its parts, and the counters of those of its
// notifications that became jobs: of APNs, and of each of the OtherPlatforms.
type whole struct {
	id    string
	event progress
	sent  []map[string]int64
	// openings are how many users opened its notifications; nil if its type does not count, and if they were not read.
	openings *openings
	// partsLeft tells that some of its parts have not ended.
	partsLeft bool
}

// wholes reads the counts of the parts of events, whose own reports were read before, and then the counters
// of all notification shards, each in one pipeline. In this order, an event whose targeting was over shows
// every notification that it made. An event that is over by its own report needs neither.
func (s *Store) wholes(ctx context.Context, read []queue.Reported) ([]whole, error) {
	all := make([]whole, len(read))
	var split, open places
	for i, r := range read {
		w := &all[i]
		w.id, w.sent = r.ID, make([]map[string]int64, 1+len(groupEndings))
		var err error
		if w.event, err = parseProgress(r.Report); err != nil {
			return nil, err
		}
		w.event.cancelled = r.Cancelled
		if err := s.schedule(ctx, r.ID, &w.event); err != nil {
			return nil, err
		}
		// A dead letter that is tried again is queued as well, and keeps its counts.
		if w.event.state == stateDone || w.event.state == stateScheduled || r.Report == queuedReport(&w.event) {
			continue
		}
		if open = append(open, i); w.event.parts > 0 {
			split = append(split, i)
		}
	}
	parts, err := s.o.Queue.GroupsOf(ctx, split.ids(read))
	if err != nil {
		return nil, err
	}
	for n, i := range split {
		e := &all[i].event
		e.addParts(parts[n][0])
		if all[i].partsLeft = parts[n][0][LabelPart] < e.parts; all[i].partsLeft && e.state == stateTargeted {
			e.state = stateTargeting
		}
	}
	stored, err := StoredCounts(ctx, s.o.Notifications, open.ids(read)...)
	if err != nil {
		return nil, err
	}
	for n, i := range open {
		all[i].sent = stored[n]
	}
	return all, nil
}

// StoredCounts reads the counters of the notifications of events that became jobs of the queue of notifications:
// for each event those of APNs, and of each of the OtherPlatforms.
func StoredCounts(ctx context.Context, notifications *queue.Queue, events ...string) ([][]map[string]int64, error) {
	return notifications.GroupsOf(ctx, events, groupEndings[:]...)
}

// schedule gives a queued event that is not due yet by Redis' clock its state.
func (s *Store) schedule(ctx context.Context, id string, p *progress) error {
	if p.state != stateQueued || p.sendAt == 0 {
		return nil
	}
	shard, _ := queue.ParseID(id)
	now, err := s.o.Queue.Now(ctx, shard)
	if err == nil && now.UnixMilli() < p.sendAt {
		p.state = stateScheduled
	}
	return err
}

// places are those of some events in a list.
type places []int

func (p places) ids(of []queue.Reported) []string {
	ids := make([]string, len(p))
	for n, i := range p {
		ids[n] = of[i].ID
	}
	return ids
}

func notFound(id string) error {
	return api.Errorf(api.CodeNotFound, "there is no event %q, or its report is no longer kept", id)
}

// report combines the event's report with the counters of its notifications.
func (w *whole) report() *api.EventReport {
	event := &w.event
	c, s := &event.counts, &event.sent
	all := map[string]int64{}
	for _, counts := range w.sent {
		for name, n := range counts {
			all[name] += n
		}
	}
	r := &api.EventReport{
		ID: w.id, Type: event.typ, Recipients: new(c.Recipients), PlatformCounts: countsOf(&s.Ends, all),
		Suppressed: api.SuppressedCounts{
			IsActor: c.IsActor, OptedOut: c.OptedOut, Muted: c.Muted, NoDevice: c.NoDevice, Live: c.Live,
		},
	}
	if at, ok := queue.MadeAt(w.id); ok {
		r.AcceptedAt = new(api.At(at))
	}
	r.Platforms = platforms(r.PlatformCounts, s, w.sent)
	s.addReasons(LabelFailed, all)
	r.FailedBy = mostFrequent(s.Why)
	if event.broadcast > 0 {
		r.Recipients, r.Broadcast = nil, &api.BroadcastCounts{Sent: r.Delivered}
	}
	if o := w.openings; o != nil && (o.kept || r.Notifications == 0) { // users are noted before a notification is made
		r.Opened, r.Dismissed = &o.opened, &o.dismissed
	}
	if event.sendAt > 0 {
		r.SendAt = new(api.AtMillis(event.sendAt))
	}
	r.State = stateOf(event, allEnded(r))
	return r
}

// allEnded reports whether all notifications of an event have ended that were made.
func allEnded(r *api.EventReport) bool { return notEnded(&r.PlatformCounts) == 0 }

// notEnded is how many of the notifications that were made have not ended.
func notEnded(p *api.PlatformCounts) int64 {
	return p.Notifications - p.Delivered - p.Failed - p.Expired - p.Cancelled - p.Superseded
}

// countsOf combines what was sent with the event with the counters of notifications that were stored.
func countsOf(e *Ends, stored map[string]int64) api.PlatformCounts {
	p := api.PlatformCounts{
		Notifications: max(e.Made, e.ended()+stored[CountCreated]),
		Delivered:     e.Delivered + stored[LabelDelivered], Failed: e.Failed + stored[LabelFailed], Expired: e.Expired + stored[LabelExpired],
		Cancelled: e.Cancelled + stored[LabelCancelled], Superseded: e.Superseded + stored[LabelSuperseded],
	}
	p.Retrying = max(0, min(stored[CountRetrying], notEnded(&p)))
	return p
}

// platforms divides the numbers by platform; nil if there are no notifications. What does not belong to
// another platform belongs to APNs.
func platforms(all api.PlatformCounts, s *Sent, sent []map[string]int64) map[api.Platform]api.PlatformCounts {
	if all.Notifications == 0 {
		return nil
	}
	out, apns := map[api.Platform]api.PlatformCounts{}, all
	for i, p := range OtherPlatforms {
		n := countsOf(&s.Others[i], sent[1+i])
		if n.Notifications == 0 {
			continue
		}
		out[p] = n
		apns.Notifications -= n.Notifications
		apns.Delivered -= n.Delivered
		apns.Failed -= n.Failed
		apns.Expired -= n.Expired
		apns.Cancelled -= n.Cancelled
		apns.Superseded -= n.Superseded
		apns.Retrying -= n.Retrying
	}
	if apns.Notifications > 0 {
		out[api.PlatformAPNs] = apns
	}
	return out
}

// maxReasons is how many reasons a report names.
const maxReasons = 10

// mostFrequent removes reasons whose count is back at zero, and the rarest reasons over the limit.
func mostFrequent(reasons map[string]int64) map[string]int64 {
	maps.DeleteFunc(reasons, func(_ string, n int64) bool { return n <= 0 })
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	for _, name := range names[min(len(names), maxReasons):] {
		delete(reasons, name)
	}
	return reasons
}

// stateOf returns the state. A dead letter is waiting until somebody retries it.
func stateOf(event *progress, allEnded bool) api.EventState {
	switch {
	case event.cancelled != queue.NotCancelled:
		return api.EventCancelled
	case event.state == stateScheduled:
		return api.EventScheduled
	case event.state == stateExpired:
		return api.EventExpired
	case event.state == stateSuperseded:
		return api.EventSuperseded
	case event.state == stateDone, event.state == stateTargeted && allEnded:
		return api.EventDone
	case event.state == stateTargeted:
		return api.EventSending
	case event.counts.Recipients > 0, event.sent.Made > 0:
		return api.EventTargeting
	}
	return api.EventQueued
}
