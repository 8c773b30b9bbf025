// Package deadletters retries and deletes all dead letters that a filter chooses, of several queues.
//
// An operation is one job of the queue "jobs". Its payload says which letters, and how far it has come; its
// report is what the operation shows. Each run of the job acts on one page of letters and continues with
// the next, so that a crash of the process repeats at most a page. A repeated page has no effect: a letter
// has an id of its own, and a job that was retried and died again is another letter. Letters are gone
// through newest first, and none is reached that died after the operation began. The package has no keys of
// its own.
package deadletters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// The types of the background jobs, in the queue "jobs".
const (
	jobRetry  = string(api.ActionRetryDead)
	jobDelete = string(api.ActionDeleteDead)
)

// pause is how long an operation waits after a failure.
const pause = time.Second

// Options are the parts of a Store. All but Logger are required.
type Options struct {
	// Queues are the queues that have the dead letters, also those of callers.
	Queues []*queue.Queue
	// Jobs is the queue "jobs". It should have no MaxAge, and keep reports for api.DeadOperationsKept.
	Jobs *queue.Queue
	// Logger receives a line when an operation is done; nil: nothing is logged.
	Logger *slog.Logger
}

// Store retries and deletes dead letters. It is safe for concurrent use.
type Store struct{ o Options }

// New makes a store. It starts nothing: Handlers are the handlers of jobs to run.
func New(o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Store{o}
}

// Begin begins an operation on the dead letters that a request chooses. The caller must have checked the
// request with api.Validator. A Before in the future is CodeValidation; more letters than the request expects
// are CodeChanged with the fact "matched". replayed says that the answer is from an earlier call with this
// idempotency key.
func (s *Store) Begin(ctx context.Context, action api.Action, r *api.DeadLettersRequest, once api.Idempotency) (a *api.DeadLettersAccepted, replayed bool, err error) {
	shard, record := rand.IntN(s.o.Jobs.Shards()), queue.Once{}
	if once.Key != "" {
		shard = s.o.Jobs.Route(once.Name())
		record = queue.Once{Key: once.Name(), Body: once.Body, TTL: api.IdempotencyTTL}
		stored, found, err := s.o.Jobs.Replay(ctx, shard, record)
		if err != nil || found {
			return answered(stored), found, err
		}
	}
	t := task{
		DeadFilter: queue.DeadFilter{Reason: r.Reason, Type: r.Type, App: r.App, Queue: r.Queue}, Kind: r.Kind, Before: r.Before.UnixMilli(), report: report{Action: action},
	}
	if t.Matched, err = s.count(ctx, &t); err != nil {
		return nil, false, err
	}
	if t.Matched > *r.Expect {
		return nil, false, api.Errorf(api.CodeChanged, "%d dead letters match, more than the %d that were expected", t.Matched, *r.Expect).With("matched", t.Matched)
	}
	t.Left = t.Matched
	if queues := s.queues(&t); len(queues) > 0 {
		t.In, t.Shard = queues[0].Name(), queues[0].DeadShards(t.DeadFilter)[0]
	}
	id := queue.NewID(shard, time.Now())
	record.Answer = id + " " + strconv.FormatInt(t.Matched, 10)
	replayed, stored, err := s.o.Jobs.EnqueueOnce(ctx, record, queue.Job{
		ID: id, Shard: shard, Fresh: true, Type: string(action), Report: t.text(queue.StateQueued), Payload: t.encode(),
	})
	if err != nil {
		return nil, false, err
	}
	if !replayed {
		stored = record.Answer
	}
	return answered(stored), replayed, nil
}

// answered reads a stored answer.
func answered(stored string) *api.DeadLettersAccepted {
	id, matched, _ := strings.Cut(stored, " ")
	n, _ := strconv.ParseInt(matched, 10, 64) // Begin wrote it
	return &api.DeadLettersAccepted{Operation: id, Matched: n}
}

// count counts the letters of a task, whose Before must not be in the future by the clock of any master of
// Redis: each letter has the time of its own.
func (s *Store) count(ctx context.Context, t *task) (sum int64, err error) {
	before := time.UnixMilli(t.Before)
	for _, q := range s.queues(t) {
		for n := range q.Shards() {
			now, err := q.Now(ctx, n)
			if err != nil {
				return 0, err
			}
			if before.After(now) {
				return 0, api.Invalid("before", "max", "must not be later than the server's clock, %s", now.UTC().Format(time.RFC3339Nano))
			}
		}
		n, err := q.CountDead(ctx, t.DeadFilter, before)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// queues are the queues that can have letters of the task.
func (s *Store) queues(t *task) (all []*queue.Queue) {
	for _, q := range s.o.Queues {
		if (t.Kind == "" || t.Kind == q.DeadKind()) && len(q.DeadShards(t.DeadFilter)) > 0 {
			all = append(all, q)
		}
	}
	return all
}

// report is how far an operation has come. As text it has a letter of its state before it, as the queue
// writes them.
type report struct {
	Action  api.Action `json:"action"`
	Matched int64      `json:"matched"`
	Left    int64      `json:"left"`
}

// stateDone is the letter of an operation that is done.
const stateDone = 'D'

func (r report) text(state byte) string {
	b, _ := json.Marshal(r) // strings and numbers always marshal
	return string(state) + string(b)
}

// Operation shows an operation. It is api.CodeNotFound if there is none, or it is no longer kept.
func (s *Store) Operation(ctx context.Context, id string) (*api.Operation, error) {
	read, err := s.o.Jobs.ReportsOf(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if len(read) == 0 {
		return nil, api.Errorf(api.CodeNotFound, "there is no operation %s, or it is no longer kept", id)
	}
	return operation(id, read[0].Report)
}

// Operations shows n operations, fewer at the end of the list, those that began last first. The list begins behind the
// operation with the id after; "": at its begin.
func (s *Store) Operations(ctx context.Context, after string, n int) ([]api.Operation, error) {
	read, err := s.o.Jobs.Reports(ctx, after, n)
	if err != nil {
		return nil, err
	}
	all := make([]api.Operation, len(read))
	for i, r := range read {
		o, err := operation(r.ID, r.Report)
		if err != nil {
			return nil, err
		}
		all[i] = *o
	}
	return all, nil
}

// operation is what a report says of the operation with an id.
func operation(id, text string) (*api.Operation, error) {
	var r report
	if err := json.Unmarshal([]byte(text[1:]), &r); err != nil {
		return nil, fmt.Errorf("read operation %s: %w", id, err)
	}
	o := &api.Operation{ID: id, Action: r.Action, State: api.OperationRunning, Matched: &r.Matched, Left: &r.Left}
	if at, ok := queue.MadeAt(id); ok {
		o.BegunAt = new(api.At(at))
	}
	if text[0] == stateDone {
		o.State = api.OperationDone
	}
	return o, nil
}

// task is the payload of a job.
type task struct {
	queue.DeadFilter
	Kind   string `json:"kind,omitempty"`
	Before int64  `json:"before"` // in ms since the Unix epoch
	// In is the queue where the operation goes on, Shard its shard, and After the letter behind which it goes on there.
	In    string `json:"in"`
	Shard int    `json:"shard,omitempty"`
	After string `json:"after,omitempty"`
	// Kept are the letters that could not be retried.
	Kept int64 `json:"kept,omitempty"`
	report
}

func (t *task) encode() []byte {
	b, _ := json.Marshal(t) // strings and numbers always marshal
	return b
}

// Handlers are the handlers for the queue "jobs", by type.
func (s *Store) Handlers() map[string]func(context.Context, *queue.Claimed) queue.Result {
	return map[string]func(context.Context, *queue.Claimed) queue.Result{jobRetry: s.run, jobDelete: s.run}
}

// run acts on one page of letters. Errors never use up attempts.
func (s *Store) run(ctx context.Context, c *queue.Claimed) queue.Result {
	var t task
	if err := json.Unmarshal(c.Payload, &t); err != nil {
		return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()}
	}
	more, err := s.page(ctx, &t)
	switch {
	case errors.Is(err, context.Canceled):
		return queue.Result{Outcome: queue.Release}
	case err != nil:
		return queue.Result{Outcome: queue.Defer, Delay: pause, Reason: string(api.CodeOf(err)), Err: err.Error()}
	case more:
		return queue.Result{Outcome: queue.Continue, Payload: t.encode(), Report: t.text(queue.StateQueued), ReportTTL: api.DeadOperationsKept}
	}
	s.o.Logger.InfoContext(ctx, "an operation on dead letters is done", "operation", c.ID, "action", t.Action, "matched", t.Matched, "left", t.Left)
	return queue.Result{Outcome: queue.Done, Report: t.text(stateDone), ReportTTL: api.DeadOperationsKept}
}

// page acts on one page of letters, notes in the task where to go on, and reports whether there is more to do.
func (s *Store) page(ctx context.Context, t *task) (more bool, err error) {
	queues := s.queues(t)
	at := slices.IndexFunc(queues, func(q *queue.Queue) bool { return q.Name() == t.In })
	if at < 0 {
		return false, nil
	}
	q := queues[at]
	act := q.RetryDeadPage
	if t.Action == api.ActionDeleteDead {
		act = q.DeleteDeadPage
	}
	acted, err := act(ctx, queue.DeadWalk{Shard: t.Shard, Filter: t.DeadFilter, Before: time.UnixMilli(t.Before), After: t.After})
	if err != nil {
		return true, err
	}
	t.Kept += acted.Kept
	t.Left = max(t.Kept, t.Left-acted.Gone)
	if t.After = acted.After; t.After != "" {
		return true, nil
	}
	shards := q.DeadShards(t.DeadFilter)
	if next := slices.Index(shards, t.Shard) + 1; next < len(shards) {
		t.Shard = shards[next]
		return true, nil
	}
	if at++; at < len(queues) {
		t.In, t.Shard = queues[at].Name(), queues[at].DeadShards(t.DeadFilter)[0]
		return true, nil
	}
	t.Left = t.Kept
	return false, nil
}
