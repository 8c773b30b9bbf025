package delivery

import (
	"context"
	"slices"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// maxMissed bounds the names that an event carries along because their
// settings could not be read, in bytes; a queue entry takes 64 KiB.
const maxMissed = 40 << 10

// resolve targets pages together: one reading of settings, one writing of
// notifications, then each page is finished with what it counted. Done again
// after a crash it writes the same ids, and the counts go with the one finish
// that the queue accepts.
func (t *Targeting) resolve(ctx context.Context, pages []*page) {
	if len(pages) == 0 {
		return
	}
	targets := t.settings(ctx, pages)
	var jobs []queue.Job
	for _, p := range pages {
		t.choose(p, targets[:len(p.others)])
		targets = targets[len(p.others):]
		jobs = append(jobs, p.jobs...)
	}
	made, err := t.o.Notifications.Enqueue(ctx, jobs...)
	for _, p := range pages {
		if err != nil {
			t.postpone(p, "write_notifications", err)
			continue
		}
		t.finish(p)
	}
	if err == nil {
		t.o.Metrics.targeted.Add(float64(countNew(made)))
	}
}

func countNew(made []queue.Enqueued) (n int) {
	for _, m := range made {
		if m.New {
			n++
		}
	}
	return n
}

// excludeActor lists the page's users without the actor, who is never notified.
func (p *page) excludeActor() {
	p.others = p.users
	if i := slices.Index(p.users, p.job.Actor); i >= 0 {
		p.others = slices.Concat(p.users[:i], p.users[i+1:])
	}
}

// settings reads what all users of all pages want, in one pipeline. A user who
// could not be read says so in his own answer.
func (t *Targeting) settings(ctx context.Context, pages []*page) []devices.Target {
	var queries []devices.Query
	for _, p := range pages {
		p.excludeActor()
		for _, user := range p.others {
			queries = append(queries, devices.Query{User: user, Type: p.job.Type, Object: p.job.Object, Mark: t.liveKey(p, user)})
		}
	}
	if len(queries) == 0 {
		return nil
	}
	targets, err := t.o.Devices.Targets(ctx, queries)
	if len(targets) == len(queries) {
		return targets
	}
	targets = make([]devices.Target, len(queries))
	for i := range targets {
		targets[i].Err = err
	}
	return targets
}

// liveKey is the mark of a user whom the event reaches otherwise; "" when that
// does not matter: only what is said in a chat is shown by its streams.
func (t *Targeting) liveKey(p *page, user string) string {
	if t.o.LiveKey == nil || p.job.Audience.Kind() != events.KindChat {
		return ""
	}
	return t.o.LiveKey(user)
}

// choose makes the page's notifications and counts who gets none: the first
// reason of actor, opted out, muted, no device, live.
func (t *Targeting) choose(p *page, targets []devices.Target) {
	enc, err := newEncoder(p.c.ID, p.job)
	if err != nil {
		p.err, p.missed = err, p.users
		return
	}
	p.counts[events.CountRecipients] = int64(len(p.users))
	p.counts[events.CountIsActor] = int64(len(p.users) - len(targets))
	for i, user := range p.others {
		target := &targets[i]
		switch {
		case target.Err != nil:
			p.miss(user, target.Err)
		case target.OptedOut:
			p.counts[events.CountOptedOut]++
		case target.Muted:
			p.counts[events.CountMuted]++
		case len(target.Devices) == 0:
			p.counts[events.CountNoDevice]++
		case target.Marked:
			p.counts[events.CountLive]++
		default:
			t.notify(p, enc, user, target.Devices)
		}
	}
	if !p.goesOn() {
		p.jobs = nil // all of the page later, not half of it twice
	}
}

func (p *page) miss(user string, err error) {
	p.missed, p.err = append(p.missed, user), err
	p.counts[events.CountRecipients]--
}

func (t *Targeting) notify(p *page, enc *encoder, user string, list []api.Device) {
	for i := range list {
		d := &list[i]
		p.jobs = append(p.jobs, queue.Job{
			ID: NotificationID(p.c.ID, d.Token), Shard: t.o.Notifications.Route(d.Token),
			Group: p.c.ID, Guard: d.Token, Payload: enc.message(user, d),
		})
	}
}

// finish ends the page: the next one goes behind what waits, and the event is
// targeted after the last.
func (t *Targeting) finish(p *page) {
	if !p.goesOn() {
		t.postpone(p, "read_settings", p.err)
		return
	}
	t.count(p)
	for name, n := range p.counts {
		if n == 0 {
			delete(p.counts, name)
		}
	}
	if len(p.missed) == 0 && p.next == "" {
		p.c.Finish(queue.Result{Outcome: queue.Done, Label: events.LabelTargeted, Counts: p.counts})
		return
	}
	next := *p.job
	next.Cursor, next.Next, next.Missed = p.next, "", nil
	if len(p.missed) > 0 {
		next.Cursor, next.Next, next.Missed = p.job.Cursor, p.next, p.missed
	}
	payload, err := next.Encode()
	if err != nil {
		t.postpone(p, "encode", err)
		return
	}
	p.c.Finish(queue.Result{Outcome: queue.Continue, Payload: payload, Counts: p.counts})
}

// goesOn tells whether the users who could be read go on without the others:
// some were, and the others' names fit into the entry.
func (p *page) goesOn() bool {
	if len(p.missed) == 0 || len(p.missed) == len(p.others) {
		return len(p.missed) == 0
	}
	size := 0
	for _, user := range p.missed {
		size += len(user) + 3
	}
	return size+len(p.c.Payload) <= maxMissed
}

// count tells the metrics what the page suppressed.
func (t *Targeting) count(p *page) {
	for _, reason := range []string{events.CountIsActor, events.CountOptedOut, events.CountMuted, events.CountNoDevice, events.CountLive} {
		if n := p.counts[reason]; n > 0 {
			t.o.Metrics.suppressed.WithLabelValues(reason).Add(float64(n))
		}
	}
}
