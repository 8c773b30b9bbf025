package delivery

import (
	"context"
	"slices"
	"time"

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
	read := time.Now()
	targets := t.settings(ctx, pages)
	var jobs []queue.Job
	var stored []*page
	for _, p := range pages {
		t.choose(p, targets[:len(p.others)])
		targets = targets[len(p.others):]
		if t.sendsAtOnce(p) {
			t.sendAtOnce(ctx, p, read)
			continue
		}
		jobs, stored = append(jobs, t.jobs(p)...), append(stored, p)
	}
	if len(stored) == 0 {
		return
	}
	if stored, jobs = alive(stored, jobs); len(stored) == 0 {
		return
	}
	made, err := t.o.Notifications.Enqueue(ctx, jobs...)
	for _, p := range stored {
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

// alive leaves out the pages whose lease is over: others have them by now, and a
// process that was stopped for long must not write them once more.
func alive(pages []*page, jobs []queue.Job) ([]*page, []queue.Job) {
	lost := map[string]bool{}
	for _, p := range pages {
		if !p.c.Alive() {
			lost[p.c.ID] = true
			p.c.Finish(queue.Result{Outcome: queue.Release})
		}
	}
	if len(lost) == 0 {
		return pages, jobs
	}
	pages = slices.DeleteFunc(pages, func(p *page) bool { return lost[p.c.ID] })
	return pages, slices.DeleteFunc(jobs, func(j queue.Job) bool { return lost[j.Group] })
}

// sendsAtOnce tells whether the event goes in one hop: it is its first time, and it
// has one device.
func (t *Targeting) sendsAtOnce(p *page) bool {
	return t.o.Delivery != nil && p.c.First && !p.large() && p.next == "" && len(p.missed) == 0 && len(p.found) == 1
}

func (t *Targeting) sendAtOnce(ctx context.Context, p *page, read time.Time) {
	t.count(p)
	t.o.Metrics.targeted.Add(1)
	d := p.found[0].device
	m := &message{
		Token: d.Token, User: p.found[0].user, Topic: d.Topic, Environment: d.Environment, RegisteredAt: d.RegisteredAt.UnixMilli(),
		Event: p.c.ID, AcceptedAt: p.job.AcceptedAt, Push: p.job.Push, Suspect: d.State == api.DeviceSuspect,
	}
	t.o.Delivery.takeEvent(ctx, p.c, m, p.clock, &oneHop{job: p.job, counts: p.counts, read: read, group: &t.sending})
}

// jobs makes the notifications of a page.
func (t *Targeting) jobs(p *page) []queue.Job {
	if len(p.found) == 0 {
		return nil
	}
	enc, err := newEncoder(p.c.ID, p.job)
	if err != nil {
		p.err, p.missed = err, p.others
		return nil
	}
	jobs := make([]queue.Job, len(p.found))
	for i, f := range p.found {
		jobs[i] = queue.Job{
			ID: NotificationID(p.c.ID, f.device.Token), Shard: t.o.Notifications.Route(f.device.Token),
			Group: p.c.ID, Guard: f.device.Token, Payload: enc.message(f.user, f.device),
		}
	}
	return jobs
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
	p.counts.Recipients = int64(len(p.users))
	p.counts.IsActor = int64(len(p.users) - len(targets))
	for i, user := range p.others {
		target := &targets[i]
		switch {
		case target.Err != nil:
			p.miss(user, target.Err)
		case target.OptedOut:
			p.counts.OptedOut++
		case target.Muted:
			p.counts.Muted++
		case len(target.Devices) == 0:
			p.counts.NoDevice++
		case target.Marked:
			p.counts.Live++
		default:
			for d := range target.Devices {
				p.found = append(p.found, found{user, &target.Devices[d]})
			}
		}
	}
	if !p.goesOn() {
		p.found = nil // all of the page later, not half of it twice
	}
}

func (p *page) miss(user string, err error) {
	p.missed, p.err = append(p.missed, user), err
	p.counts.Recipients--
}

// finish ends the page: the next one goes behind what waits, and the event is
// targeted after the last.
func (t *Targeting) finish(p *page) {
	if !p.goesOn() {
		t.postpone(p, "read_settings", p.err)
		return
	}
	t.count(p)
	all := p.job.Counted.Plus(p.counts)
	if len(p.missed) == 0 && p.next == "" {
		p.c.Finish(queue.Result{Outcome: queue.Done, Report: p.job.ReportTargeted(all), ReportTTL: t.o.ReportTTL})
		return
	}
	next := *p.job
	next.Cursor, next.Next, next.Missed, next.Counted = p.next, "", nil, all
	if len(p.missed) > 0 {
		next.Cursor, next.Next, next.Missed = p.job.Cursor, p.next, p.missed
	}
	payload, err := next.Encode()
	if err != nil {
		t.postpone(p, "encode", err)
		return
	}
	p.c.Finish(queue.Result{Outcome: queue.Continue, Payload: payload, Report: p.job.ReportTargeting(all), ReportTTL: t.o.ReportTTL})
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
	for reason, n := range p.counts.Suppressed() {
		if n > 0 {
			t.o.Metrics.suppressed.WithLabelValues(reason).Add(float64(n))
		}
	}
}
