package schedules

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"fanfare/api"
	"fanfare/store/record"
)

// Options configure a Store. Record and Enqueue are needed.
type Options struct {
	Record *record.DB
	// Enqueue stores jobs, once for each Idempotency-Key within 24 hours: Enqueue of store/jobs.
	Enqueue func(ctx context.Context, queue string, jobs []api.JobRequest, once api.Idempotency) ([]api.JobAccepted, bool, error)
	// Ahead is how far the clock of the schedules is ahead of the database's, for tests; default: 0.
	Ahead func() time.Duration
	// Logger hears of what Run fails to do; default: nobody.
	Logger *slog.Logger
}

// Store has the schedules. It may be used from any goroutine.
type Store struct {
	o       Options
	changed chan struct{} // wakes Run
}

// New makes a Store. It starts nothing.
func New(o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Ahead == nil {
		o.Ahead = func() time.Duration { return 0 }
	}
	return &Store{o: o, changed: make(chan struct{}, 1)}
}

// Put creates or replaces a schedule. The request has been validated, and its payload is short. If the queue, the cron or
// the time zone changes, due times up to now whose jobs are not enqueued yet are skipped. api.CodeTooManyNames for one
// schedule too many.
func (s *Store) Put(ctx context.Context, id string, r *api.ScheduleRequest) (*api.Schedule, bool, error) {
	wanted := *r
	wanted.TimeZone = cmp.Or(r.TimeZone, "UTC")
	cron, err := api.ParseCron(wanted.Cron, wanted.TimeZone)
	if err != nil {
		return nil, false, err
	}
	schedule, created, err := s.o.Record.PutSchedule(ctx, id, &wanted, func(now, last time.Time) (time.Time, error) {
		if now = now.Add(s.o.Ahead()); now.Before(last) {
			now = last
		}
		return cron.Next(now)
	})
	if err != nil {
		return nil, false, err
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return schedule, created, nil
}

// Get reads a schedule; api.CodeNotFound when there is none.
func (s *Store) Get(ctx context.Context, id string) (*api.Schedule, error) {
	schedule, _, err := s.o.Record.Schedule(ctx, id)
	return schedule, err
}

// List reads at most limit schedules by their ids, from the one after a given id on ("": from the first). They are without
// payloads.
func (s *Store) List(ctx context.Context, after string, limit int) ([]api.Schedule, error) {
	return s.o.Record.Schedules(ctx, after, limit)
}

// Delete removes a schedule, also one that is not there. Jobs that were enqueued stay.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.o.Record.DeleteSchedule(ctx, id)
}
