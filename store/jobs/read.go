package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Get reads a job; api.CodeNotFound if it is not known, or no longer.
func (s *Store) Get(ctx context.Context, id string) (*api.Job, error) {
	queue, short, ok := parseID(id)
	if !ok {
		return nil, noJob(id)
	}
	answer, err := s.db.List(ctx, redisdb.Read, getScript.Cmd(ctx, s.keys(s.groupOf(queue)), queue, short))
	if err != nil {
		return nil, fmt.Errorf("read job %s: %w", id, err)
	}
	j := &api.Job{ID: id, Queue: queue, State: states[redisdb.TextAt(answer, 0)]}
	switch {
	case j.State == "":
		return nil, noJob(id)
	case j.State == api.JobDead:
		readLetter(j, redisdb.ListAt(answer, 1))
	case len(answer) > 1:
		err = readLive(j, answer)
	}
	return j, err
}

// states are those of jobs_get.lua.
var states = map[string]api.JobState{"q": api.JobQueued, "s": api.JobScheduled, "b": api.JobBlocked, "r": api.JobRunning, "D": api.JobDone, "C": api.JobEnded, "X": api.JobDead}

// readLive reads what is known of a job that has not ended.
func readLive(j *api.Job, answer []any) error {
	t, err := parseText(redisdb.TextAt(answer, 1))
	if err != nil {
		return fmt.Errorf("read job %s: %w", j.ID, err)
	}
	h, due, now := parseHistory(redisdb.TextAt(answer, 2)), redisdb.NumberAt(answer, 4), redisdb.NumberAt(answer, 5)
	born := api.AtMillis(t.born)
	j.Type, j.Key, j.Unique, j.Payload, j.MaxAttempts, j.EnqueuedAt = t.kind, t.key, t.unique, t.payload, int(t.most), &born
	j.Failures, j.LostLeases, j.LastError, j.Attempt = h.failures, h.lost, h.err, h.failures+h.lost+1
	switch j.State {
	case api.JobScheduled:
		at := api.AtMillis(due)
		j.RunAt = &at
	case api.JobRunning:
		flags, rest, _ := strings.Cut(redisdb.TextAt(answer, 3), ":")
		hold := strings.Split(rest, " ")
		if len(hold) != 4 {
			return fmt.Errorf("%q is no hold of job %s", hold, j.ID)
		}
		left := max(0, due-now-1) // lease_end adds one
		j.Fence, j.Worker, j.LeaseMS, j.Cancelled = parse(hold[0]), hold[2], &left, strings.Contains(flags, "c")
	}
	return nil
}

// readLetter reads the dead letter of a job, its fields and values in turns.
func readLetter(j *api.Job, letter []any) {
	values := map[string]string{}
	for i := 0; i+1 < len(letter); i += 2 {
		values[redisdb.TextAt(letter, i)] = redisdb.TextAt(letter, i+1)
	}
	j.Type, j.Key, j.Unique, j.Reason, j.LastError = values["t"], values["k"], values["u"], values["reason"], values["err"]
	j.Failures, j.MaxAttempts = int(parse(values["attempts"])), int(parse(values["w"]))
	if values["p"] != "" {
		j.Payload = json.RawMessage(values["p"])
	}
}

// Queues lists all queues by name.
func (s *Store) Queues(ctx context.Context) (*api.JobQueueList, error) {
	cmds := make([]redis.Cmder, groups)
	for n := range cmds {
		cmds[n] = listScript.Cmd(ctx, s.keys(n), "", 1)
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	list := &api.JobQueueList{Items: []api.JobQueue{}}
	for _, cmd := range cmds {
		answer, err := cmd.(*redis.Cmd).Slice()
		if err != nil {
			return nil, fmt.Errorf("list queues of jobs: %w", err)
		}
		for i := range answer {
			q, err := readQueue(redisdb.ListAt(answer, i))
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, *q)
		}
	}
	slices.SortFunc(list.Items, func(a, b api.JobQueue) int { return cmp.Compare(a.Queue, b.Queue) })
	return list, nil
}

// Queue describes a queue; api.CodeNotFound if there is none.
func (s *Store) Queue(ctx context.Context, queue string) (*api.JobQueue, error) {
	answer, err := s.listed(ctx, queue, 1)
	if err != nil {
		return nil, err
	}
	return readQueue(answer)
}

// listed is what queues_list.lua answers of a queue, with at most marks of its minutes; api.CodeNotFound if there is none.
func (s *Store) listed(ctx context.Context, queue string, marks int) ([]any, error) {
	value, err := s.db.Eval(ctx, redisdb.Read, listScript, s.keys(s.groupOf(queue)), queue, marks)
	if err != nil {
		return nil, fmt.Errorf("read queue %s: %w", queue, err)
	}
	answer, _ := value.([]any)
	if len(answer) == 0 {
		return nil, noQueue()
	}
	return redisdb.ListAt(answer, 0), nil
}

func readQueue(v []any) (*api.JobQueue, error) {
	n := func(i int) int64 { return redisdb.NumberAt(v, i) }
	_, total, marks, err := readMarks(v)
	if err != nil {
		return nil, err
	}
	return &api.JobQueue{
		Queue: redisdb.TextAt(v, 0), Paused: n(1) == 1, Depth: n(2), Blocked: n(3), Scheduled: n(4), Running: n(5), OldestAgeMS: n(6), DeadLetters: n(7),
		Done: total.Done, Retries: total.Retries, Recovered: total.Recovered, Dead: total.Dead, LastHour: since(total, marks),
	}, nil
}

// Pause lets no job of a queue be claimed until it is resumed. The queue need not have had a job before. The error is
// api.CodeTooManyNames for one queue too many.
func (s *Store) Pause(ctx context.Context, queue string) (*api.JobQueue, error) {
	c := &call{what: "pause", args: []any{queue, "1", "0"}}
	err := s.do(ctx, queue, c, 1, 0)
	if err == nil && c.status == absent {
		if err = s.roomForQueue(ctx); err == nil {
			c.args[2] = "1"
			err = s.do(ctx, queue, c, 1, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.Queue(ctx, queue)
}

// Resume ends a pause; api.CodeNotFound if there is no such queue.
func (s *Store) Resume(ctx context.Context, queue string) (*api.JobQueue, error) {
	c := &call{what: "pause", args: []any{queue, "0", "0"}}
	if err := s.do(ctx, queue, c, 1, 0); err != nil {
		return nil, err
	}
	if c.status == absent {
		return nil, noQueue()
	}
	return s.Queue(ctx, queue)
}
