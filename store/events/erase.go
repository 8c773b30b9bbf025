package events

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
	"fanfare/store/queue"
	"fanfare/store/record"
)

// Erase takes a user out of the events that were accepted before an operation began. Events that
// the user caused, or that are for the user's contacts, lose their content and end as expired. In the
// audience of other events api.ErasedUser takes the user's place, who then counts as a user without a
// device. Dead letters that name the user are deleted. It counts both, and reports whether events are
// left that name the user and that a process is working on.
func (s *Store) Erase(ctx context.Context, o *record.Operation) (events, dead int64, busy bool, err error) {
	x := &erasing{s: s, user: o.Subject, name: []byte(o.Subject), until: o.Since}
	if events, busy, err = s.o.Queue.Edit(ctx, func(w *queue.Listed) ([]byte, bool, error) { return x.edit(ctx, w) }); err != nil {
		return events, 0, true, fmt.Errorf("erase events of a user: %w", err)
	}
	dead, err = s.o.Queue.DropDead(ctx, func(w *queue.Listed) (bool, error) { return x.names(ctx, w) })
	return events + x.attached, dead, busy, err
}

// erasing is one call of Erase.
type erasing struct {
	s        *Store
	user     string
	name     []byte
	until    int64
	attached int64 // attachments that named the user
}

// old reports whether an event was accepted before the operation began. A part of an event counts as
// the event, and a push of a message as the message.
func (x *erasing) old(w *queue.Listed) bool {
	id := w.Job.ID
	if w.Job.Group != "" {
		id = w.Job.Group
	}
	return w.Since <= x.until || queue.MadeBefore(id, time.UnixMilli(x.until))
}

// edit returns the payload that an event gets, if it names the user.
func (x *erasing) edit(ctx context.Context, w *queue.Listed) (payload []byte, change bool, err error) {
	if !x.old(w) {
		return nil, false, nil
	}
	if w.Attached {
		n, err := x.s.o.Queue.RenameAttached(ctx, w, x.user, api.ErasedUser)
		if x.attached += n; err != nil {
			return nil, false, err
		}
	}
	if !bytes.Contains(w.Job.Payload, x.name) {
		return nil, false, nil
	}
	j, err := DecodeJob(w.Job.Payload)
	if err != nil || !j.without(x.user) {
		return nil, false, nil //nolint:nilerr // a payload that cannot be read becomes a dead letter
	}
	return j.Encode(), true, nil
}

// names reports whether a dead letter names the user.
func (x *erasing) names(ctx context.Context, w *queue.Listed) (bool, error) {
	if !x.old(w) {
		return false, nil
	}
	if w.Attached {
		pages, err := x.s.o.Queue.Attached(ctx, w)
		if err != nil || slices.ContainsFunc(pages, func(page string) bool { return slices.Contains(SplitPage(page), x.user) }) {
			return err == nil, err
		}
	}
	if !bytes.Contains(w.Job.Payload, x.name) {
		return false, nil
	}
	return payloadNames(w.Job.Payload, x.user), nil
}

// payloadNames reports whether the payload of a dead letter names a user, or cannot be read.
func payloadNames(payload []byte, user string) bool {
	j, err := DecodeJob(payload)
	return err != nil || j.without(user) || j.cameTo(user)
}

// without takes a user out of an event, and reports whether the event named the user.
func (j *Job) without(user string) bool {
	named := false
	for _, names := range [][]string{j.Audience.Users, j.Missed} {
		for i, name := range names {
			if name == user {
				names[i], named = api.ErasedUser, true
			}
		}
	}
	if d := j.Audience.Device; d != nil && d.User == user {
		j.Audience, named = Audience{Users: []string{api.ErasedUser}}, true
	}
	if j.Audience.ContactsOf == user {
		j.Audience = Audience{Users: []string{api.ErasedUser}}
		j.Actor = user
	}
	if j.Actor == user {
		j.Actor, j.Object, j.Live, named = "", "", nil, true
		j.Push = render.Push{Payload: []byte("{}"), PushType: j.Push.PushType, Priority: j.Push.Priority, ExpiresAt: 1}
	}
	return named
}

// cameTo reports whether an event stopped at a user of an audience that is gone through by name. An
// event that is not a dead letter goes on to the next name.
func (j *Job) cameTo(user string) bool { return j.Cursor == user && j.Audience.Pages == 0 }

// EraseMarks takes a user's name out of the marks of events that are not done, among keys of Redis.
func (s *Store) EraseMarks(ctx context.Context, o *record.Operation, keys []string) error {
	for _, key := range keys {
		if !strings.Contains(key, "}:marks:") {
			continue
		}
		if _, err := s.o.Queue.RenameMarks(ctx, key, o.Subject, api.ErasedUser); err != nil {
			return err
		}
	}
	return nil
}
