package events

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"fanfare/api"
	"fanfare/store/queue"
)

// AcceptNamed accepts events that the server itself makes. Their ids are derived from the names, so
// that accepting an event again has no effect, even for a while after its end: until its report is no
// longer kept (FANFARE_EVENT_RETENTION). It makes one round trip, and another one if events are old.
// Events are accepted also while Redis is nearly full, because the work that they belong to was
// accepted before. refused has an error for each event that can never be accepted, such as one whose
// payload is too large. The other events are accepted.
func (s *Store) AcceptNamed(ctx context.Context, named ...api.NamedEvent) (refused []error, err error) {
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
	if jobs, err = s.notAccepted(ctx, jobs); err != nil {
		return nil, err
	}
	made, err := s.o.Queue.Enqueue(ctx, jobs...)
	if err != nil {
		return nil, err
	}
	s.o.OnAccepted(queue.CountNew(made))
	return refused, nil
}

// notAccepted leaves out the jobs of events that were accepted before. The queue itself drops a repeated event only
// while its tombstone lives. So the reports of events are read that are so old that the tombstone may be gone, or half
// as old, because the clocks differ.
func (s *Store) notAccepted(ctx context.Context, jobs []queue.Job) ([]queue.Job, error) {
	young := s.o.Now().Add(-s.o.Queue.Retention() / 2)
	var old []string
	for i := range jobs {
		if queue.MadeBefore(jobs[i].ID, young) {
			old = append(old, jobs[i].ID)
		}
	}
	accepted, err := s.o.Queue.ReportsOf(ctx, old)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(jobs, func(j queue.Job) bool {
		return slices.ContainsFunc(accepted, func(r queue.Reported) bool { return r.ID == j.ID })
	}), nil
}

// NamedID derives an event's id from its time, its shard, and 120 bits of the digest of its
// name.
func (s *Store) NamedID(n *api.NamedEvent) string {
	sum := sha256.Sum256([]byte(n.Name))
	return queue.DeriveID(queue.NewID(s.o.Queue.Route(n.Route), n.At), sum[:], 0)
}
