package fanfare

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// NewJob is work for a worker.
type NewJob struct {
	Type        string    `json:"type"`
	Payload     any       `json:"payload,omitempty"` // at most 60 KiB of JSON
	Key         string    `json:"key,omitempty"`     // jobs with the same key are done one after the other
	Unique      string    `json:"unique,omitempty"`  // as long as a job with this name has not ended, no second one is stored
	RunAt       time.Time `json:"run_at,omitzero"`   // at most 30 days ahead
	MaxAttempts int64     `json:"max_attempts,omitempty"`
}

// EnqueuedJob is the id of a job that was enqueued, or of the one that had its Unique.
type EnqueuedJob struct {
	ID  string `json:"id"`
	New bool   `json:"-"` // false if a job with this Unique was there
}

// UnmarshalJSON reads the answer, in which only false is written.
func (e *EnqueuedJob) UnmarshalJSON(text []byte) error {
	var answer struct {
		ID  string
		New *bool
	}
	err := json.Unmarshal(text, &answer)
	e.ID, e.New = answer.ID, answer.New == nil || *answer.New
	return err
}

// EnqueueJob enqueues a job. The first job makes the queue.
func (c *Client) EnqueueJob(ctx context.Context, queue string, j NewJob, s ...Setting) (made EnqueuedJob, err error) {
	err = c.Call(ctx, http.MethodPost, Path("v1", "queues", queue, "jobs"), j, &made, s...)
	return made, err
}

// EnqueueJobs enqueues 1 to 1,000 jobs, all or none. The answer has their order.
func (c *Client) EnqueueJobs(ctx context.Context, queue string, jobs []NewJob, s ...Setting) ([]EnqueuedJob, error) {
	var made struct{ Items []EnqueuedJob }
	err := c.Call(ctx, http.MethodPost, Path("v1", "queues", queue, "jobs", "batch"), map[string]any{"jobs": jobs}, &made, s...)
	return made.Items, err
}

// CancelJob cancels a job. Its worker is told at its next renewal. A job that is done or dead is the problem too_late.
func (c *Client) CancelJob(ctx context.Context, id string, s ...Setting) error {
	return c.Call(ctx, http.MethodDelete, Path("v1", "jobs", id), nil, nil, s...)
}
