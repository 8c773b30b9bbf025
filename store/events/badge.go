package events

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
	"fanfare/store/queue"
)

// badgeTemplates render the events that show a number and no text. A number is worth nothing a day later.
var badgeTemplates = sync.OnceValues(func() (*render.TemplateSet, error) {
	return render.NewTemplateSet(&api.EventTypeRequest{Badge: api.BadgeCount, Priority: 5, TTLSeconds: new(int64(24 * 3600))})
})

// ShowBadge accepts an event of type api.BadgeEventType, which shows a user's badge on the user's devices without a text: now,
// or at a time within the next minute, unless it is zero. There is one event for each user and time, however often it is
// asked for. It shows the number that the badge has when it is sent.
func (s *Store) ShowBadge(ctx context.Context, user string, at time.Time) error {
	if err := s.o.DB.Overloaded(); err != nil {
		return err
	}
	now := s.o.Now()
	id := queue.NewID(s.shardOfTheMoment(now), now)
	if !at.IsZero() {
		name := fmt.Sprintf("badge %s %d", user, at.UnixMilli())
		id = s.NamedID(&api.NamedEvent{Name: name, Route: user, At: at.Add(-time.Minute)}) // its time is over
	}
	set, err := badgeTemplates()
	if err != nil {
		return err
	}
	push, err := set.Render(id, &api.EventRequest{Type: api.BadgeEventType, CollapseID: api.BadgeEventType})
	if err != nil {
		return err
	}
	j := &Job{Type: api.BadgeEventType, Audience: Audience{Users: []string{user}}, Push: *push, AcceptedAt: now.UnixMilli()}
	if !at.IsZero() {
		j.SendAt, j.AcceptedAt = at.UnixMilli(), at.UnixMilli()
	}
	made, err := s.o.Queue.Enqueue(ctx, entry(id, j, nil))
	if err != nil {
		return err
	}
	s.o.OnAccepted(queue.CountNew(made))
	return nil
}
