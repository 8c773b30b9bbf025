package events

import (
	"context"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
	"fanfare/store/queue"
)

// testTemplates render every test notification. It is worth nothing an hour later.
var testTemplates = sync.OnceValues(func() (*render.TemplateSet, error) {
	return render.NewTemplateSet(&api.EventTypeRequest{
		Title: "Test notification", Body: "Notifications reach this device.", Sound: "default", TTLSeconds: new(int64(3600)),
	})
})

// AcceptTest accepts an event of type api.TestEventType: a test notification to one device of a user,
// whatever the user's settings are. token is in its stored form. A device that is not the user's is
// not_found, unless an earlier request with the same key was accepted.
func (s *Store) AcceptTest(ctx context.Context, user, token string, once api.Idempotency) (a *api.EventAccepted, replayed bool, err error) {
	return s.acceptOne(ctx, once, func(id string, now time.Time) (queue.Job, error) {
		return s.testJob(ctx, user, token, id, now)
	})
}

func (s *Store) testJob(ctx context.Context, user, token, id string, now time.Time) (queue.Job, error) {
	found, err := s.o.Record.DevicesByToken(ctx, token)
	if err != nil {
		return queue.Job{}, err
	}
	if found[token].User != user || found[token].Live != nil {
		return queue.Job{}, api.Errorf(api.CodeNotFound, "the user has no such device")
	}
	set, err := testTemplates()
	if err != nil {
		return queue.Job{}, err
	}
	push, err := set.Render(id, &api.EventRequest{Type: api.TestEventType})
	if err != nil {
		return queue.Job{}, err
	}
	if d := found[token].Device; !push.Suits(d.Topic, d.PlatformOf()) {
		return queue.Job{}, api.Invalid("token", "topic", "belongs to the topic %s, which takes no alert, such as the test notification", d.Topic)
	}
	return entry(id, &Job{
		Type: api.TestEventType, Audience: Audience{Device: &OneDevice{User: user, Token: token}}, Push: *push, AcceptedAt: now.UnixMilli(),
	}, nil), nil
}
