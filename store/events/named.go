package events

import (
	"context"
	"crypto/sha256"
	"errors"

	"fanfare/api"
	"fanfare/store/queue"
)

// AcceptNamed accepts events that the server itself makes. Their ids are derived from the names, so
// that accepting an event again has no effect, even for a while after its end
// (FANFARE_TOMBSTONE_RETENTION). refused has an error for each event that can never be accepted,
// such as one whose payload is too large. The other events are accepted.
func (s *Store) AcceptNamed(ctx context.Context, named ...api.NamedEvent) (refused []error, err error) {
	if err := s.o.DB.Overloaded(); err != nil {
		return nil, err
	}
	refused = make([]error, len(named))
	jobs := make([]queue.Job, 0, len(named))
	for i := range named {
		n := &named[i]
		job, err := s.job(ctx, s.NamedID(n), &n.Event, s.o.Now())
		var no *api.Error
		switch {
		case err == nil:
			jobs = append(jobs, job)
		case errors.As(err, &no) && api.MeaningOf(no.Code).Status < 500:
			refused[i] = err
		default:
			return nil, err
		}
	}
	made, err := s.o.Queue.Enqueue(ctx, jobs...)
	if err != nil {
		return nil, err
	}
	s.o.OnAccepted(queue.CountNew(made))
	return refused, nil
}

// NamedID derives an event's id from its time, its shard, and 120 bits of the digest of its
// name.
func (s *Store) NamedID(n *api.NamedEvent) string {
	sum := sha256.Sum256([]byte(n.Name))
	return queue.DeriveID(queue.NewID(s.o.Queue.Route(n.Route), n.At), sum[:], 0)
}
