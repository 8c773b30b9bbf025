package events

import (
	"context"
	"encoding/json"
	"time"

	"fanfare/api"
)

// withdrawnKeep is how long a withdrawn event stays in the set. Counted from then on the event may wait once more
// and become a dead letter, that may be tried again at its end and become one again, and at last its notifications
// may wait. The age of the event says nothing: each retry of a dead letter begins with a new one.
func withdrawnKeep(maxAge time.Duration) time.Duration { return 3*maxAge + 2*deadLetters }

// Withdraw lets no notification of these events be written any more, once it has returned and a
// second has passed. Events whose notifications were written before are not affected. It may be
// repeated, and may come before the event is accepted.
func (s *Store) Withdraw(ctx context.Context, named ...api.NamedEvent) error {
	if len(named) == 0 {
		return nil
	}
	ids := make([]string, len(named))
	for i := range named {
		ids[i] = s.NamedID(&named[i])
	}
	return s.withdrawn.add(ctx, s.o.Now().Add(-s.withdrawn.keep), ids...)
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
