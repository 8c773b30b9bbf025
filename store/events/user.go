package events

import (
	"context"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// mostNoted is how many notifications an event may have whose notes are read for one answer, 8 MB.
const mostNoted = 1_000_000

// UserNow is what holds for a user now.
type UserNow struct {
	User     string
	Settings *api.NotificationSettings
	// Activities are the user's activities that have not ended.
	Activities []api.Device
	// Live tells that the user has a stream of chats open.
	Live bool
	// Aside says why notifications to a device may be set aside, "" if its app runs.
	Aside func(*api.Device) string
}

// UserEvent tells what became of an event for a user: the event's state, what holds for the user now, and
// the notifications to the devices that the user has now. An event that is unknown, or whose retention is
// over, is not_found.
func (s *Store) UserEvent(ctx context.Context, id string, u *UserNow) (*api.UserEvent, error) {
	w, err := s.whole(ctx, id) // before the notifications: those of an event that was over then are all there
	if err != nil {
		return nil, err
	}
	devices := slices.Concat(u.Settings.Devices, u.Activities)
	jobs, ids := make([]queue.Job, len(devices)), make([]string, len(devices))
	for i := range devices {
		d := &devices[i]
		ids[i] = NotificationID(id, d.Token)
		jobs[i] = JobFor(s.o.Notifications, id, d.Token, d.PlatformOf())
	}
	found, err := s.o.Notifications.Find(ctx, jobs...)
	if err != nil {
		return nil, err
	}
	now, r := s.o.Now(), w.report()
	outcomes, notes := w.event.outcomes(now), ""
	if ended := w.event.ended(); ended > int64(len(outcomes)) && ended <= mostNoted {
		if notes, err = s.notes(ctx, w); err != nil {
			return nil, err
		}
	}
	noted := readNotes(notes, now, ids...)
	out := &api.UserEvent{
		ID: id, User: u.User, Type: r.Type, State: r.State, Now: w.userNow(u, now), Notifications: []api.UserNotification{},
	}
	out.OutcomesKept = w.keepsOutcomes(int64(len(outcomes)+len(notes)/noteLength), now.Add(-s.o.Notifications.Retention()))
	for i := range devices {
		n := &api.UserNotification{Token: devices[i].Token, Platform: devices[i].PlatformOf()}
		if devices[i].Live != nil {
			n.Token = devices[i].Activity().Token
		}
		if o, ok := outcomes[jobs[i].ID[:digestLength]]; ok {
			o.tell(n, r.FailedBy)
		} else if o, ok := noted[ids[i]]; ok {
			o.tell(n, r.FailedBy)
		} else if !w.tell(n, r, &found[i], now) {
			out.OutcomesKept = out.OutcomesKept && found[i].Standing != queue.StandingEnded
			continue
		}
		if why := u.Aside(&devices[i]); found[i].Standing == queue.StandingLive && n.Until == nil && why != "" {
			n.State, n.Reason = api.NotificationWaiting, why
		}
		out.Notifications = append(out.Notifications, *n)
	}
	return out, nil
}

// notes reads how those of the event's notifications have ended that were sent with it. Its parts are on all shards.
func (s *Store) notes(ctx context.Context, w *whole) (string, error) {
	if w.event.parts > 0 {
		return s.o.Queue.Notes(ctx, w.id)
	}
	shard, _ := queue.ParseID(w.id)
	return s.o.Queue.Notes(ctx, w.id, shard)
}

// ended is how many of the notifications have ended that were sent with it.
func (p *progress) ended() int64 {
	return p.sent.Ends.ended()
}

// userNow tells what holds for a user now.
func (w *whole) userNow(u *UserNow, at time.Time) api.UserNow {
	n := api.UserNow{OptedOut: slices.Contains(u.Settings.OptOuts, w.event.typ), Live: u.Live, Devices: u.Settings.Devices}
	var muted []string
	for _, m := range u.Settings.Mutes {
		if m.Until == nil || m.Until.After(at) {
			muted = append(muted, m.Object)
		}
	}
	n.IsActor, n.Muted = w.event.is(0, u.User), w.event.is(1, muted...)
	if len(muted) == 0 {
		n.Muted = new(false)
	}
	return n
}

// keepsOutcomes reports whether it is still on record how each of the event's notifications has ended. Its report and
// notes have some outcomes. The tombstones of notifications that ended before since may be gone.
func (w *whole) keepsOutcomes(reported int64, since time.Time) bool {
	if w.event.ended() > reported {
		return false
	}
	old := queue.MadeBefore(w.id, since) && w.event.sendAt < since.UnixMilli()
	return !old || !slices.ContainsFunc(w.sent, func(counts map[string]int64) bool { return counts[CountCreated] > 0 })
}

// tell fills in what became of a notification, from what is on record of its job. It returns false if nothing is
// known.
func (w *whole) tell(n *api.UserNotification, r *api.EventReport, job *queue.Found, now time.Time) bool {
	switch job.Standing {
	case queue.StandingLive:
		tellWaiting(n, job, now)
	case queue.StandingDead:
		n.State, n.Reason, n.At = api.NotificationFailed, job.Text, &job.At
	case queue.StandingEnded:
		if o, _, ok := cutOutcome(job.Text[min(1, len(job.Text)):], now); ok { // behind the letter D or X
			o.tell(n, r.FailedBy)
		} else {
			n.State = endOfAll(r)
		}
	}
	return n.State != ""
}

// endOfAll is how every notification of an event has ended, "" if they have not all ended in one way.
func endOfAll(r *api.EventReport) api.NotificationState {
	switch r.Notifications {
	case r.Delivered:
		return api.NotificationDelivered
	case r.Failed:
		return api.NotificationFailed
	case r.Expired:
		return api.NotificationExpired
	case r.Cancelled:
		return api.NotificationCancelled
	case r.Superseded:
		return api.NotificationSuperseded
	}
	return ""
}
