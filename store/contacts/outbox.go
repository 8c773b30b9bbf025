package contacts

import (
	"context"
	"encoding/json"
	"fmt"

	"fanfare/store/queue"
	"fanfare/store/record"
)

// kinds are the outbox rows that this package answers for.
func kinds() []string { return []string{record.KindContact, record.KindUpload} }

// Outbox announces changes again whose jobs are not done: the process that
// committed them died, or Redis lost the jobs. A change has one live job at
// most, and that job deletes its row.
func (s *Store) Outbox() map[string]record.OutboxHandler {
	all := map[string]record.OutboxHandler{}
	for _, kind := range kinds() {
		all[kind] = s.announceAgain
	}
	return all
}

// announceAgain enqueues what can be read; a row that cannot be read is
// logged and holds up no other.
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

// jobOf makes the job that an outbox row stands for.
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
