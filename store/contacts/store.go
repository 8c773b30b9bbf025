package contacts

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"fanfare/api"
	"fanfare/store/batch"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

//go:embed lua/*.lua
var scripts embed.FS

// Options tunes a Store; the zero value works.
type Options struct {
	// Max is how many contacts the index of a user holds at most; default 120,
	// at most 127.
	Max int
	// Min is how few may be left after a removal before the index is filled up
	// again; default 10 (or Max, if that is less), less than Max.
	Min int
	// Logger receives a line for each job that could not be enqueued; nil: discarded.
	Logger *slog.Logger
	// Page is how many contacts or followers one query reads; default 1000.
	Page int
	// JobPages is how many pages one run of a fan-out does before it goes to the
	// end of the queue; default 10.
	JobPages int
	// InlinePages is how many pages of contacts a read itself reads to build a missing index. A job
	// builds larger ones. Default 10.
	InlinePages int
	// Scans is how many reads, and how many jobs, of this process may scan contacts in SQL at once.
	// A quarter as many reads may scan all contacts of a user. Default 8.
	Scans int
}

func (o Options) withDefaults() Options {
	o.Max = cmp.Or(o.Max, api.DefaultIndexMax)
	o.Min = cmp.Or(o.Min, min(api.DefaultIndexMin, o.Max))
	o.Page = cmp.Or(o.Page, 1000)
	o.JobPages = cmp.Or(o.JobPages, 10)
	o.InlinePages = cmp.Or(o.InlinePages, 10)
	o.Scans = cmp.Or(o.Scans, 8)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Store is the recent contacts of all users. It is safe for concurrent use.
type Store struct {
	rec   *record.DB
	jobs  *queue.Queue
	index *index
	truth *truth
	// done deletes outbox rows whose work is done, many in one transaction.
	done *batch.Group[string, struct{}]
	o    Options
	// scans has a slot for each read that scans at most InlinePages of contacts in SQL. fullScans
	// has a slot for each job that scans all contacts, and readScans for each read that does. So
	// reads do not keep jobs from building the indexes that the reads need.
	scans, fullScans, readScans chan struct{}
	builds                      singleflight.Group
	// announce enqueues a committed change. Tests replace it to simulate a process that dies
	// between commit and enqueue.
	announce func(context.Context, ...queue.Job)
	// batched relays a committed batch of contacts at once. Tests replace it for the same reason.
	batched func(context.Context, record.OutboxRow)
}

// closeTimeout limits the deletion of outbox rows.
const closeTimeout = 10 * time.Second

// close deletes an outbox row and returns when it is deleted.
func (s *Store) close(ctx context.Context, row string) error {
	_, err := s.done.Do(ctx, row)
	return err
}

// New makes a store with its index in redis, its record in rec and its jobs in the queue jobs.
// It starts nothing: Outbox is for the relay, and Jobs are the handlers to run.
func New(redis *redisdb.DB, rec *record.DB, jobs *queue.Queue, o Options) *Store {
	o = o.withDefaults()
	s := &Store{
		rec: rec, jobs: jobs, o: o, index: newIndex(redis, o.Max), truth: newTruth(rec),
		scans: make(chan struct{}, o.Scans), fullScans: make(chan struct{}, o.Scans),
		readScans: make(chan struct{}, max(1, o.Scans/4)),
	}
	s.announce, s.batched = s.enqueue, s.relayNow
	s.done = batch.New(batch.Options{Timeout: closeTimeout}, func(ctx context.Context, rows []string) (struct{}, error) {
		return struct{}{}, rec.DeleteOutbox(ctx, rows...)
	})
	return s
}

// Stats says how far the index lags behind the record.
func (s *Store) Stats(ctx context.Context) (api.ContactsStats, error) {
	var stats api.ContactsStats
	for _, kind := range kinds() {
		open, age, err := s.rec.OutboxLag(ctx, kind)
		if err != nil {
			return stats, fmt.Errorf("read lag of contacts: %w", err)
		}
		stats.Pending += open
		stats.LagMS = max(stats.LagMS, age)
	}
	return stats, nil
}
