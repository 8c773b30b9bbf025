// Package erasure runs the operations that erase users. What has to be removed is known to the
// packages that have it: app lists their steps. The package has no keys in Redis, and its job
// names the operation, not the user.
//
// The steps run one after the other, and all of them again, until a pass finds nothing. Then the
// operation is done. Steps only remove what was there when the operation began, by the clocks of
// SQL and of Redis, and facts about the user whenever they were told. So they may be repeated, also
// beside each other: after a crash or a fail-over the job begins again, and what was removed before
// is not found again.
package erasure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// Job is the type of the background jobs, in the queue "jobs".
const Job = "users.erase"

const (
	// settle is how long after its beginning an operation is done at the earliest. Requests that
	// were under way when it began have ended by then, and so have the streams of the user.
	settle = 10 * time.Second
	// pause is the shortest time between two passes.
	pause = time.Second
)

// Step removes one kind of what a user had when an operation began.
type Step struct {
	Name string
	Run  func(ctx context.Context, o *record.Operation) (Found, error)
}

// Found is what a step found.
type Found struct {
	// Removed counts what the step has removed, by kind. If a step counts that itself, in the
	// transaction that removes it, it only says that it found something, by Counted.
	Removed map[string]int64
	Counted bool
	// Kept counts what stays by design, by kind.
	Kept map[string]int64
	// Busy says that something remains, which this step or another process is to remove.
	Busy bool
	// Wait is how long what the step looks for may still come; the next pass is not before. 0: nothing comes any more.
	Wait time.Duration
}

// clean reports whether the step found nothing.
func (f *Found) clean() bool {
	for _, n := range f.Removed {
		if n > 0 {
			return false
		}
	}
	return !f.Counted && !f.Busy && f.Wait <= 0
}

// Options are the parts of a Store. All but Logger are required.
type Options struct {
	Record *record.DB
	Redis  *redisdb.DB
	// Jobs is the queue "jobs".
	Jobs *queue.Queue
	// Begin puts an operation on record and returns its id (usertokens.Store.Erase).
	Begin func(ctx context.Context, user string) (string, error)
	// Steps run in this order.
	Steps []Step
	// Logger receives a line when an operation is done, without the user's name; nil: nothing is
	// logged.
	Logger *slog.Logger
}

// Store erases users. It is safe for concurrent use.
type Store struct{ o Options }

// New makes a store. It starts nothing: Outbox is for the relay, and Handlers are the handlers of
// jobs to run.
func New(o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Store{o}
}

// Erase begins the operation that erases a user and returns its id. While such an operation runs,
// it returns that one's id.
func (s *Store) Erase(ctx context.Context, user string) (string, error) {
	id, err := s.o.Begin(ctx, user)
	if err != nil {
		return "", err
	}
	if _, err := s.o.Jobs.Enqueue(ctx, job(id)); err != nil {
		s.o.Logger.DebugContext(ctx, "an operation waits for the sweeper", "operation", id, "error", err)
	}
	return id, nil
}

// task is the payload of a job.
type task struct {
	Operation string `json:"operation"`
}

// job is the only live job of an operation. One of all operations runs at a time, because each goes through
// everything; one that waits for its next pass holds up no other.
func job(id string) queue.Job {
	payload, _ := json.Marshal(task{id}) // a string always marshals
	return queue.Job{Type: Job, Key: Job, Unique: id, Payload: payload}
}

// Outbox begins operations again whose jobs are lost, because their process died or Redis lost
// them.
func (s *Store) Outbox() map[string]record.OutboxHandler {
	return map[string]record.OutboxHandler{record.KindErase: func(ctx context.Context, rows []record.OutboxRow) ([]string, error) {
		jobs := make([]queue.Job, len(rows))
		for i, row := range rows {
			jobs[i] = job(row.ID)
		}
		_, err := s.o.Jobs.Enqueue(ctx, jobs...)
		return nil, err
	}}
}

// Handlers are the handlers for the queue "jobs", by type.
func (s *Store) Handlers() map[string]func(context.Context, *queue.Claimed) queue.Result {
	return map[string]func(context.Context, *queue.Claimed) queue.Result{Job: s.run}
}

// run makes one pass. Errors never use up attempts, because the operation is on record.
func (s *Store) run(ctx context.Context, c *queue.Claimed) queue.Result {
	var t task
	if err := json.Unmarshal(c.Payload, &t); err != nil {
		return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()}
	}
	wait, done, err := s.pass(ctx, t.Operation)
	switch {
	case done:
		return queue.Result{Outcome: queue.Done}
	case err == nil:
		return queue.Result{Outcome: queue.Defer, Delay: wait, Reason: "not everything is erased"}
	case errors.Is(err, context.Canceled):
		return queue.Result{Outcome: queue.Release}
	}
	return queue.Result{Outcome: queue.Defer, Reason: string(api.CodeOf(err)), Err: err.Error()}
}

// pass runs all steps, and puts on record that the operation is done if they found nothing.
// Otherwise it says how long to wait before the next pass.
func (s *Store) pass(ctx context.Context, id string) (wait time.Duration, done bool, err error) {
	o, err := s.o.Record.OpenOperation(ctx, id)
	if err != nil || o == nil {
		return 0, err == nil, err
	}
	early := settle - s.o.Redis.Clock().Sub(time.UnixMilli(o.Since))
	clean, kept := early <= 0, map[string]int64{}
	for _, step := range s.o.Steps {
		found, err := step.Run(ctx, o)
		if len(found.Removed) > 0 {
			err = errors.Join(err, s.o.Record.CountRemoved(context.WithoutCancel(ctx), id, found.Removed))
		}
		if err != nil {
			return 0, false, fmt.Errorf("erase %s: %w", step.Name, err)
		}
		early = max(early, found.Wait)
		clean = clean && found.clean()
		maps.Copy(kept, found.Kept)
	}
	if !clean {
		return max(pause, early), false, nil
	}
	if err := s.o.Record.EndErasure(ctx, o, kept); err != nil {
		return 0, false, fmt.Errorf("end the operation: %w", err)
	}
	s.o.Logger.InfoContext(ctx, "a user was erased", "operation", id)
	return 0, true, nil
}
