package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/webhooks"
)

// JobFact is the type of the job, in the queue "jobs", for a fact that a webhook has refused too often. It becomes a dead
// letter at once. To retry that letter is to send the fact again, once: whatever comes back but a 2xx makes it a dead letter again.
const JobFact = "webhook.fact"

// ReasonRefused is the reason of such a dead letter.
const ReasonRefused = "webhook"

// refusedFact is the payload of such a job.
type refusedFact struct {
	Webhook string   `json:"webhook"`
	Series  string   `json:"series"`
	Fact    api.Fact `json:"fact"`
	// Status is what the receiver has answered last, until the job is a dead letter.
	Status int `json:"status,omitempty"`
}

// Letters puts facts that were refused aside. All fields are needed.
type Letters struct {
	Jobs     *queue.Queue // the queue "jobs"
	Webhooks *webhooks.Store
	Poster   *Poster

	busy atomic.Int32 // how many are being sent
}

// mostLetters is how many retried dead letters one process sends at once: they share the places of its background jobs, and
// a receiver may hang.
const mostLetters = 4

// Bury puts a fact aside that was refused with a status. Doing so again has no effect, also a while after the job has ended.
func (l *Letters) Bury(ctx context.Context, w *record.Webhook, f api.Fact, status int) error {
	payload, err := json.Marshal(refusedFact{w.ID, w.Series, f, status})
	if err != nil {
		return fmt.Errorf("put fact %s of webhook %s aside: %w", f.ID, w.ID, err)
	}
	name := w.Series + "/" + f.ID
	digest, shard := sha256.Sum256([]byte(name)), l.Jobs.Route(name)
	id := queue.DeriveID(queue.NewID(shard, f.At.Time), digest[:], 0)
	_, err = l.Jobs.Enqueue(ctx, queue.Job{ID: id, Shard: shard, Type: JobFact, Payload: payload})
	return err
}

// Handlers are the handlers to run on the queue "jobs", by type.
func (l *Letters) Handlers() map[string]func(context.Context, *queue.Claimed) queue.Result {
	return map[string]func(context.Context, *queue.Claimed) queue.Result{JobFact: l.send}
}

// send sends the fact of a retried letter alone, or makes a letter of one that was just put aside.
func (l *Letters) send(ctx context.Context, c *queue.Claimed) queue.Result {
	var r refusedFact
	if err := json.Unmarshal(c.Payload, &r); err != nil {
		return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: "a fact that cannot be read"}
	}
	if status := r.Status; status > 0 {
		r.Status = 0
		payload, err := json.Marshal(r)
		if err != nil {
			return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()}
		}
		return queue.Result{Outcome: queue.Dead, Reason: ReasonRefused, Payload: payload, Err: refusal(&r, answer{status: status})}
	}
	defer l.busy.Add(-1)
	if l.busy.Add(1) > mostLetters {
		return queue.Result{Outcome: queue.Defer, Delay: errorPause + jitter(errorPause), Untouched: true, Reason: "other facts of dead letters are sent"}
	}
	w, err := l.Webhooks.Get(ctx, r.Webhook)
	switch {
	case api.CodeOf(err) == api.CodeNotFound, err == nil && (w.Series != r.Series || w.State != api.WebhookOn):
		return queue.Result{Outcome: queue.Dead, Reason: ReasonRefused, Err: "the webhook " + r.Webhook + " is off, or is no longer there"}
	case err != nil:
		return queue.Result{Outcome: queue.Defer, Reason: string(api.CodeOf(err)), Err: err.Error()}
	}
	b := &batch{facts: []api.Fact{r.Fact}}
	if _, err := b.encode(w.ID); err != nil {
		return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: err.Error()}
	}
	a := l.Poster.post(ctx, w, b.id(w.ID), b.body)
	switch {
	case a.verdict() == taken:
		return queue.Result{Outcome: queue.Done}
	case ctx.Err() != nil:
		return queue.Result{Outcome: queue.Release}
	}
	return queue.Result{Outcome: queue.Dead, Reason: ReasonRefused, Err: refusal(&r, a)}
}

// refusal describes for people the answer to a fact.
func refusal(r *refusedFact, a answer) string {
	if a.err != nil {
		return fmt.Sprintf("the webhook %s does not answer to the fact %s: %v", r.Webhook, r.Fact.ID, a.err)
	}
	return fmt.Sprintf("the webhook %s answers %d to the fact %s", r.Webhook, a.status, r.Fact.ID)
}
