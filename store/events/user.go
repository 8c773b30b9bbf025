package events

import (
	"context"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// UserNow is what holds for a user now.
type UserNow struct {
	User     string
	Settings *api.NotificationSettings
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
	devices := u.Settings.Devices
	jobs := make([]queue.Job, len(devices))
	for i := range devices {
		d := &devices[i]
		jobs[i] = queue.Job{ID: NotificationJob(id, d.Token), Shard: s.o.Notifications.Route(d.Token), Group: GroupOf(id, d.PlatformOf())}
	}
	found, err := s.o.Notifications.Find(ctx, jobs...)
	if err != nil {
		return nil, err
	}
	now, r := s.o.Now(), w.report()
	out := &api.UserEvent{
		ID: id, User: u.User, Type: r.Type, State: r.State, Now: w.userNow(u, now), Notifications: []api.UserNotification{},
		OutcomesKept: w.keepsOutcomes(now.Add(-s.o.Notifications.Retention())),
	}
	for i := range devices {
		n, kept := w.notification(r, &devices[i], &found[i])
		if out.OutcomesKept = out.OutcomesKept && kept; n == nil {
			continue
		}
		if n.State == api.NotificationWaiting {
			n.Reason = u.Aside(&devices[i])
		}
		out.Notifications = append(out.Notifications, *n)
	}
	return out, nil
}

// userNow tells what holds for a user now.
func (w *whole) userNow(u *UserNow, at time.Time) api.UserNow {
	n := api.UserNow{OptedOut: slices.Contains(u.Settings.OptOuts, w.event.typ), Live: u.Live, Devices: u.Settings.Devices}
	if !slices.ContainsFunc(u.Settings.Mutes, func(m api.Mute) bool { return m.Until == nil || m.Until.After(at) }) {
		n.Muted = new(false)
	}
	return n
}

// keepsOutcomes tells whether it is still on record how each of the event's notifications has ended. The
// tombstones of those that ended before since may be gone.
func (w *whole) keepsOutcomes(since time.Time) bool {
	e := &w.event.sent.Ends
	if e.Delivered+e.Failed+e.Expired > 0 {
		return false
	}
	old := queue.MadeBefore(w.id, since) && w.event.sendAt < since.UnixMilli()
	return !old || !slices.ContainsFunc(w.sent, func(counts map[string]int64) bool { return counts[CountCreated] > 0 })
}

// notification tells what became of the notification to a device, from what is on record of its job; nil:
// nothing is known of one. kept is false if it has ended and it is not known how.
func (w *whole) notification(r *api.EventReport, d *api.Device, job *queue.Found) (n *api.UserNotification, kept bool) {
	n = &api.UserNotification{Token: d.Token, Platform: d.PlatformOf()}
	switch job.Standing {
	case queue.StandingLive:
		n.State = api.NotificationWaiting
	case queue.StandingDead:
		n.State, n.Reason, n.At = api.NotificationFailed, job.Text, &job.At
	case queue.StandingEnded:
		n.State = endOfAll(r)
	}
	if n.State == "" {
		return nil, job.Standing != queue.StandingEnded
	}
	return n, true
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
	}
	return ""
}
