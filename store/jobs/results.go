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
	c := &call{what: "results", args: []any{queue}}
	if allComplete(results) {
		c.what = "complete"
	}
	bytes := 0
	for i := range results {
		r := &results[i]
		of, id, ok := parseID(r.ID)
		if !ok || of != queue {
			id = ""
		}
		c.args = append(c.args, id, r.Token)
		if c.what == "complete" {
			continue
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
		c.args = append(c.args, string(r.Outcome), text, after, strconv.FormatFloat(rand.Float64(), 'f', 6, 64), lease)
	}
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

// allComplete reports whether all results complete jobs, each a different one.
func allComplete(results []api.JobResult) bool {
	seen := make(map[string]bool, len(results))
	for i := range results {
		if r := &results[i]; r.Outcome != api.JobComplete || seen[r.ID] {
			return false
		}
		seen[results[i].ID] = true
	}
	return true
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
