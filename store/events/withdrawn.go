package events

import (
	"context"
	"encoding/json"

	"fanfare/api"
)

// Withdraw lets no notification of these events be written any more, once it has returned and a
// second has passed. Events whose notifications were written before, and events that are too old to
// have waiting notifications, are not affected. It may be repeated, and may come before the event
// is accepted.
func (s *Store) Withdraw(ctx context.Context, named ...api.NamedEvent) error {
	oldest := s.o.Now().Add(-s.withdrawn.keep)
	var ids []string
	for i := range named {
		if named[i].At.After(oldest) {
			ids = append(ids, s.NamedID(&named[i]))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return s.withdrawn.add(ctx, oldest, ids...)
}

// Withdrawn reports whether an event was withdrawn. fresh says that this is known: the view of this
// process was read at most a second ago.
func (s *Store) Withdrawn(event string) (is, fresh bool) { return s.withdrawn.has(0, event) }

// RefreshWithdrawn reads which events were withdrawn since the last reading. It does nothing if that
// was less than half a second ago or has just failed.
func (s *Store) RefreshWithdrawn(ctx context.Context) { s.withdrawn.refresh(ctx, 0) }

// HideWithdrawn takes the payloads out of dead letters of events that were withdrawn before the call,
// because they have the texts that their notifications should have shown.
func (s *Store) HideWithdrawn(ctx context.Context, letters []api.DeadLetter) error {
	if err := s.withdrawn.reload(ctx, 0); err != nil {
		return err
	}
	for i := range letters {
		if is, _ := s.Withdrawn(EventOfGroup(letters[i].Group)); is {
			letters[i].Payload = json.RawMessage(`{"redacted":true}`)
		}
	}
	return nil
}
