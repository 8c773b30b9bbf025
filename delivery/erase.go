package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
	"fanfare/store/record"
)

// actorMark names the user who caused an event in the jobs of its notifications, so that they are
// found when the user is erased. It is the Type of the job, which this queue does not use otherwise,
// and short, because millions may wait: 48 bits of SHA-256.
func actorMark(actor string) string {
	if actor == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(actor))
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}

// Erase takes a user out of the notifications that were there when an operation began. Notifications
// to the user's devices lose their content and end as device_gone, and those of events that the user
// caused end as expired. Dead letters of both kinds are deleted. It counts both, and reports whether
// notifications are left that a process is working on.
func (d *Delivery) Erase(ctx context.Context, o *record.Operation) (notifications, dead int64, busy bool, err error) {
	x := &erasing{o: o, actor: actorMark(o.Subject)}
	notifications, busy, err = d.o.Queue.Edit(ctx, func(w *queue.Listed) ([]byte, bool, error) {
		m := x.find(w)
		if m == nil {
			return nil, false, nil
		}
		return x.without(m).encode(), true, nil
	})
	if err != nil {
		return notifications, 0, true, fmt.Errorf("erase notifications of a user: %w", err)
	}
	dead, err = d.o.Queue.DropDead(ctx, func(w *queue.Listed) (bool, error) { return x.find(w) != nil, nil })
	return notifications, dead, busy, err
}

// erasing is one call of Erase.
type erasing struct {
	o     *record.Operation
	actor string
}

// find decodes a notification that is for a device which the user had when the operation began, or
// of an event that the user had caused; nil: it is neither.
func (x *erasing) find(w *queue.Listed) *message {
	m, err := decodeMessage(w.Job.Group, w.Job.Payload)
	switch {
	case err != nil:
		return nil
	case m.User == x.o.Subject && m.RegisteredAt <= x.o.CreatedAt:
		return m
	case w.Job.Type == x.actor && m.Push.ExpiresAt != erased && (w.Since <= x.o.Since || queue.MadeBefore(m.Event, time.UnixMilli(x.o.Since))):
		return m
	}
	return nil
}

// erased is the time to which the expiry of a notification is set that is not to be sent.
const erased = 1

// without takes the content and the user out of a notification.
func (x *erasing) without(m *message) *message {
	if m.User == x.o.Subject {
		m.User, m.Target = api.ErasedUser, ""
	}
	m.Refused, m.RefusedSaid, m.Live, m.Activity = "", "", events.Superseding{}, ""
	m.Push = render.Push{Payload: []byte("{}"), PushType: m.Push.PushType, Priority: m.Push.Priority, ExpiresAt: erased}
	return m
}
