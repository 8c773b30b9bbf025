package targeting

import (
	"context"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// maxMissed bounds the names of missed users that an event carries along, in bytes; a
// queue entry takes 64 KiB.
const maxMissed = 40 << 10

// resolve targets pages together: it reads all settings, and hands each page to Delivery, which sends its
// notifications and then finishes the page with its counts. When it is repeated after a crash it makes the same ids,
// and the counts go with the one finish that the queue accepts. If it is told where to note users who
// need SQL, it asks none, and returns the pages that need it or are behind others, of which nothing has
// begun. The error comes from reading the settings.
func (t *Targeting) resolve(ctx context.Context, pages []*page, left leftToSQL) (forSQL []*page, err error) {
	if pages = t.recall(ctx, pages); len(pages) == 0 {
		return nil, nil
	}
	err = t.settings(ctx, pages, left != nil)
	if left != nil {
		pages, forSQL = left.divide(pages)
	}
	t.recallStored(ctx, pages)
	for _, p := range pages {
		t.choose(p)
	}
	t.number(ctx, pages)
	pages = t.sendUncounted(ctx, pages)
	t.sendAll(ctx, t.noteRecipients(ctx, pages))
	return forSQL, err
}

// sendUncounted sends the parts of events that do not count who opens them, which need not wait until others are noted, and
// returns the other pages. Events go together, in their order; between parts no order is promised.
func (t *Targeting) sendUncounted(ctx context.Context, pages []*page) (others []*page) {
	var uncounted []*page
	for _, p := range pages {
		if p.part() && !p.job.Opened {
			uncounted = append(uncounted, p)
		} else {
			others = append(others, p)
		}
	}
	t.sendAll(ctx, uncounted)
	return others
}

func (t *Targeting) sendAll(ctx context.Context, pages []*page) {
	for _, p := range pages {
		p.trace()
		t.send(ctx, p)
	}
}

// alive leaves out the pages whose lease is over. Other processes have them by now, and a
// process that was stopped for long must not write them once more.
func alive(pages []*page) []*page {
	return slices.DeleteFunc(pages, func(p *page) bool {
		if p.c.Alive() {
			return false
		}
		p.c.Finish(queue.Result{Outcome: queue.Release})
		return true
	})
}

// recall reads the marks that an earlier owner of an event left, so that nothing is sent
// twice. Pages whose marks cannot be read are postponed.
func (t *Targeting) recall(ctx context.Context, pages []*page) []*page {
	var again []*page
	var claimed []*queue.Claimed
	for _, p := range pages {
		if !p.c.First && p.job.Audience.Pages == 0 && p.job.Cursor == "" {
			again, claimed = append(again, p), append(claimed, p.c)
		}
	}
	if len(again) == 0 {
		return pages
	}
	marks, err := t.o.Queue.Marks(ctx, claimed...)
	for i, p := range again {
		if err != nil {
			t.postpone(p, "read_marks", err)
			continue
		}
		p.marks, p.reached = marks[i], map[string]bool{}
		for _, text := range p.marks {
			mark, user := events.ParseMark(text)
			p.reached[user] = true
			p.sent.Recall(mark, user)
		}
	}
	if err != nil {
		pages = slices.DeleteFunc(slices.Clone(pages), func(p *page) bool { return slices.Contains(again, p) })
	}
	return pages
}

// recallStored notes, as reached, users who are left out by now although an earlier owner of the event has stored a
// notification to a device that they still have: it is counted, so the user must not be counted as suppressed too.
// If that cannot be read, these users are missed.
func (t *Targeting) recallStored(ctx context.Context, pages []*page) {
	var jobs []queue.Job
	var note []func(stored bool, err error) // for each job
	for _, p := range pages {
		if p.reached == nil { // it had no earlier owner
			continue
		}
		for i, user := range p.others {
			target := &p.targets[i]
			if !target.OptedOut && !target.Muted && !target.Marked {
				continue
			}
			for at := range target.Devices {
				d := &target.Devices[at]
				jobs = append(jobs, events.JobFor(t.o.Notifications, p.event(), d.Token, d.PlatformOf()))
				note = append(note, func(stored bool, err error) {
					p.reached[user], target.Err = p.reached[user] || stored, err
				})
			}
		}
	}
	found, err := t.o.Notifications.Find(ctx, jobs...)
	for n := range note {
		note[n](err == nil && found[n].Standing != queue.StandingUnknown, err)
	}
}

// send hands a page to Delivery. When its notifications have ended or become jobs, the event or the part ends, or goes
// on with the missed users and the next page. What has no room waits in the queue.
func (t *Targeting) send(ctx context.Context, p *page) {
	if !p.goesOn() {
		t.postpone(p, "missed_users", p.err)
		return
	}
	e := &delivery.Event{
		Claim: p.c, Job: p.job, Counts: p.job.Counted.Plus(p.counts), Read: p.read, Group: &t.sending, ReportTTL: t.o.ReportTTL,
		Sent: p.sent, Settled: p.settled(), Superseded: p.newer, Over: t.over(p), Tells: t.o.Events, Begun: func(all bool) { t.begun(p, all) },
	}
	if len(p.missed) > 0 || p.next != "" {
		rest := *p.job
		rest.Missed, rest.Counted, rest.Cursor = p.missed, e.Counts, p.next
		e.Rest = &rest
	}
	if t.patient(p) {
		e.GiveBack = func(s delivery.Shares) { t.giveBack(p, s, e.Lacks(s)) }
	}
	t.o.Delivery.Send(ctx, e, p.found)
}

// settled reports whether each notification of the event that was ever begun has a mark.
func (p *page) settled() bool { return p.c.First || p.c.After(p.job.Settled) }

// begun notes that a page's notifications have begun. Its suppressed users are counted with the last ones.
func (t *Targeting) begun(p *page, all bool) {
	if p.part() {
		t.refused.note(p.refusedAs(), nil)
	}
	if !all {
		return
	}
	for reason, n := range p.counts.Suppressed() {
		t.o.Metrics.Suppressed(reason, n)
	}
}

// excludeActor lists the page's users without the actor, who is never notified.
func (p *page) excludeActor() {
	p.others = p.users
	if i := slices.Index(p.users, p.job.Actor); i >= 0 {
		p.others = slices.Concat(p.users[:i], p.users[i+1:])
	}
}

// queries ask for the settings of a page's users.
func (t *Targeting) queries(p *page) []devices.Query {
	queries := make([]devices.Query, len(p.others))
	for i, user := range p.others {
		queries[i] = devices.Query{User: user, Type: p.job.Type, Object: p.job.Object, Mark: t.liveKey(p, user), NoFill: p.part()}
	}
	return queries
}

// settings reads the settings of all users of all pages in one pipeline. The target of a user
// who could not be read, or with fromCache is not cached, holds an error, which is also
// returned.
func (t *Targeting) settings(ctx context.Context, pages []*page, fromCache bool) error {
	var queries []devices.Query
	read := time.Now()
	for _, p := range pages {
		p.excludeActor()
		p.read = read
		queries = append(queries, t.queries(p)...)
	}
	if len(queries) == 0 {
		return nil
	}
	ask := t.o.Devices.Targets
	if fromCache {
		ask = t.o.Devices.CachedTargets
	}
	targets, err := ask(ctx, queries)
	for _, p := range pages {
		p.targets, targets = targets[:len(p.others)], targets[len(p.others):]
		p.leaveActivities()
	}
	return err
}

// liveKey names the mark of a user whom the event reaches on a live stream. It is "" for events
// that do not come from a chat, because streams show only the messages of chats.
func (t *Targeting) liveKey(p *page, user string) string {
	if t.o.LiveKey == nil || p.job.Audience.Kind() != events.KindChat {
		return ""
	}
	return t.o.LiveKey(user)
}

// choose makes the page's notifications and counts who gets none: the first
// reason of actor, opted out, muted, no device, live.
func (t *Targeting) choose(p *page) {
	if p.job.Audience.Channel != nil {
		t.chooseChannel(p)
		return
	}
	p.counts.Recipients = int64(len(p.users))
	p.counts.IsActor = int64(len(p.users) - len(p.others))
	for i, user := range p.others {
		target := &p.targets[i]
		p.leaveOne(target)
		leaveOut := func(count *int64) {
			if !p.reached[user] {
				*count++
			}
		}
		switch {
		case target.Err != nil:
			p.miss(user, target.Err)
		case target.OptedOut && !p.endsLive():
			leaveOut(&p.counts.OptedOut)
		case target.Muted && !p.endsLive():
			leaveOut(&p.counts.Muted)
		case !p.meant(target.Devices):
			leaveOut(&p.counts.NoDevice)
		case target.Marked:
			leaveOut(&p.counts.Live)
		default:
			for d := range target.Devices {
				if device := &target.Devices[d]; p.job.PushFor(device) != nil && !p.marked(device) {
					p.found = append(p.found, delivery.Recipient{User: user, Device: device})
				}
			}
		}
	}
	if !p.goesOn() {
		p.found = nil // the whole page goes later, rather than half of it twice
	}
}

// leaveOne leaves of a user's settings the one device that the event is for, if it is for one device.
func (p *page) leaveOne(t *devices.Target) {
	only := p.job.Audience.Device
	if only == nil || t.Err != nil {
		return
	}
	*t = devices.Target{User: t.User, Devices: t.Devices}
	i := slices.IndexFunc(t.Devices, func(d api.Device) bool { return d.Token == only.Token })
	t.Devices = t.Devices[max(i, 0) : i+1]
}

// meant reports whether the event is meant for one of a user's devices.
func (p *page) meant(list []api.Device) bool {
	for i := range list {
		if p.job.PushFor(&list[i]) != nil {
			return true
		}
	}
	return false
}

// markOf names the mark of the page's notification to a device.
func (p *page) markOf(d *api.Device) string {
	return events.MarkName(events.NotificationID(p.event(), d.Token))
}

// marked reports whether the notification to a device ended, or was stored, before.
func (p *page) marked(d *api.Device) bool {
	if len(p.marks) == 0 {
		return false
	}
	_, ok := p.marks[p.markOf(d)]
	return ok
}

func (p *page) miss(user string, err error) {
	p.missed, p.err = append(p.missed, user), err
	p.counts.Recipients--
}

// goesOn reports whether the page goes on without the users who could not be read: some were read,
// and the names of the others fit into the entry.
func (p *page) goesOn() bool {
	if len(p.missed) == 0 || len(p.missed) == len(p.others) || p.next != "" {
		return len(p.missed) == 0
	}
	size := 0
	for _, user := range p.missed {
		size += len(user) + 3
	}
	return size <= maxMissed
}
