package jobs

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"fanfare/api"
)

// maxError is how many bytes of an error are kept.
const maxError = 1000

// Results records what workers say about jobs that they hold. The requests have been validated. A job of another queue,
// and an id that is none, is answered api.JobLost.
func (s *Store) Results(ctx context.Context, queue string, results []api.JobResult) (*api.JobAnswers, error) {
	args := []any{queue}
	bytes := 0
	for i := range results {
		r := &results[i]
		of, id, ok := parseID(r.ID)
		if !ok || of != queue {
			id = ""
		}
		after, lease := int64(0), ""
		if r.RetryAfterMS != nil {
			after = *r.RetryAfterMS
		}
		if r.LeaseMS != nil {
			lease = strconv.FormatInt(*r.LeaseMS, 10)
		}
		text := short(r.Error)
		bytes += len(text)
		args = append(args, id, r.Token, string(r.Outcome), text, after, strconv.FormatFloat(rand.Float64(), 'f', 6, 64), lease)
	}
	c := &call{what: "results", args: args}
	if err := s.do(ctx, queue, c, len(results), bytes); err != nil {
		return nil, err
	}
	answers := strings.Fields(c.rest)
	if c.status != done || len(answers) != len(results) {
		return nil, c.unexpected()
	}
	out := &api.JobAnswers{Results: make([]api.JobAnswer, len(results))}
	for i, answer := range answers {
		status, lease, _ := strings.Cut(answer, ",")
		out.Results[i] = api.JobAnswer{ID: results[i].ID, Status: statuses[status], LeaseMS: parse(lease)}
	}
	return out, nil
}

// statuses are the answers of part_result.lua.
var statuses = map[string]api.JobStatus{"1": api.JobOK, "2": api.JobLost, "3": api.JobCancelled}

// short cuts an error, at the begin of a character, and keeps it on one line of separators that the scripts use.
func short(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	return strings.NewReplacer("\x1e", " ", "\x1f", " ", "\x00", " ").Replace(text)
}

// Cancel ends a job. A job that is held is marked, and its worker is told when it renews its lease. Errors are
// api.CodeNotFound, and api.CodeTooLate if it is done or dead.
func (s *Store) Cancel(ctx context.Context, id string) error {
	queue, short, ok := parseID(id)
	if !ok {
		return noJob(id)
	}
	c := &call{what: "cancel", args: []any{queue, short}}
	if err := s.do(ctx, queue, c, 1, 0); err != nil {
		return err
	}
	switch c.status {
	case done:
		return nil
	case over:
		return api.Errorf(api.CodeTooLate, "the job %s has ended", id)
	case absent:
		return noJob(id)
	}
	return c.unexpected()
}
