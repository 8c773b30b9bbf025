package contacts

import (
	"context"
	"encoding/json"
	"fmt"

	"fanfare/store/queue"
	"fanfare/store/record"
)

// kinds are the kinds of outbox rows that this package relays.
func kinds() []string { return []string{record.KindContact, record.KindUpload} }

// Outbox announces changes again whose jobs are not done, because the process that committed them
// died or Redis lost the jobs. A change has at most one live job, and that job deletes its row.
func (s *Store) Outbox() map[string]record.OutboxHandler {
	all := map[string]record.OutboxHandler{}
	for _, kind := range kinds() {
		all[kind] = s.announceAgain
	}
	return all
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
	if row.Kind == record.KindUpload {
		return uploadJob(row.ID, row.Subject), nil
	}
	var p record.Pair
	if err := json.Unmarshal([]byte(row.Payload), &p); err != nil {
		return queue.Job{}, fmt.Errorf("read outbox row %s: %w", row.ID, err)
	}
	return contactJob(row.ID, p), nil
}
