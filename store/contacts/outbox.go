package contacts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/store/queue"
	"fanfare/store/record"
)

// kinds are the kinds of outbox rows that this package relays.
func kinds() []string {
	return []string{record.KindContact, record.KindContacts, record.KindUpload, record.KindRebuild}
}

// Outbox announces changes again whose jobs are not done, because the process that committed them
// died or Redis lost the jobs. A change has at most one live job, and that job deletes its row. A
// batch of contacts has no job: the call relays it, or the sweeper.
func (s *Store) Outbox() map[string]record.OutboxHandler {
	return map[string]record.OutboxHandler{
		record.KindContact: s.announceAgain, record.KindUpload: s.announceAgain, record.KindRebuild: s.announceAgain,
		record.KindContacts: record.RowByRow(s.relayBatch),
	}
}

const (
	// batchPatience is how long a call waits until its batch is in the indexes.
	batchPatience = 2 * time.Second
	// syncsAtOnce bounds the indexes of contacts that are written at once; they share round trips
	// and statements.
	syncsAtOnce = 32
)

// relayNow relays a batch at once and closes its row. If that fails, the sweeper relays it.
func (s *Store) relayNow(ctx context.Context, row record.OutboxRow) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchPatience)
	defer cancel()
	err := s.relayBatch(ctx, row)
	if err == nil {
		err = s.close(ctx, row.ID)
	}
	if err != nil {
		s.o.Logger.DebugContext(ctx, "a batch of contacts waits for the sweeper", "error", err)
	}
}

// relayBatch updates the owner's index, and those of the contacts, as contactChanged does for one
// of them.
func (s *Store) relayBatch(ctx context.Context, row record.OutboxRow) error {
	owner, contacts := row.Subject, []string{}
	if err := json.Unmarshal([]byte(row.Payload), &contacts); err != nil {
		return err
	}
	for part := range slices.Chunk(contacts, raiseBatch) {
		if err := s.sync(ctx, owner, part); err != nil {
			return err
		}
	}
	indexed, err := s.index.indexed(ctx, contacts)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(syncsAtOnce)
	for _, contact := range indexed {
		if contact != owner {
			g.Go(func() error { return s.syncOne(ctx, contact, owner) })
		}
	}
	return g.Wait()
}

// announceAgain enqueues the rows that can be read. A row that cannot be read is logged and holds
// up no other.
func (s *Store) announceAgain(ctx context.Context, rows []record.OutboxRow) ([]string, error) {
	jobs := make([]queue.Job, 0, len(rows))
	for _, row := range rows {
		job, err := jobOf(row)
		if err != nil {
			s.o.Logger.ErrorContext(ctx, "an outbox row cannot be read", "error", err)
			continue
		}
		jobs = append(jobs, job)
	}
	_, err := s.jobs.Enqueue(ctx, jobs...)
	return nil, err
}

// jobOf makes the job of an outbox row.
func jobOf(row record.OutboxRow) (queue.Job, error) {
	switch row.Kind {
	case record.KindUpload:
		return uploadJob(row.ID, row.Subject), nil
	case record.KindRebuild:
		return requestedRebuild(row.ID, row.Subject), nil
	}
	var p record.Pair
	if err := json.Unmarshal([]byte(row.Payload), &p); err != nil {
		return queue.Job{}, fmt.Errorf("read outbox row %s: %w", row.ID, err)
	}
	return contactJob(row.ID, p), nil
}
