package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/webhooks"
)

// JobFact is the type of the job, in the queue "jobs", that sends a fact which a webhook has refused too often. If the
// webhook refuses it once more, the job becomes a dead letter. To retry that letter is to send the fact again.
const JobFact = "webhook.fact"

// ReasonRefused is the reason of such a dead letter.
const ReasonRefused = "webhook"

// refusedFact is the payload of such a job.
type refusedFact struct {
	Webhook string   `json:"webhook"`
	Series  string   `json:"series"`
	Fact    api.Fact `json:"fact"`
}

// Letters puts facts that were refused aside. All fields are needed.
type Letters struct {
	Jobs     *queue.Queue // the queue "jobs"
	Webhooks *webhooks.Store
	Poster   *Poster
}

// Bury puts a fact aside. Doing so again has no effect, also a while after the job has ended.
func (l *Letters) Bury(ctx context.Context, w *record.Webhook, f api.Fact) error {
	payload, err := json.Marshal(refusedFact{w.ID, w.Series, f})
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

// send sends a fact alone.
func (l *Letters) send(ctx context.Context, c *queue.Claimed) queue.Result {
	var r refusedFact
	if err := json.Unmarshal(c.Payload, &r); err != nil {
		return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: "a fact that cannot be read"}
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
	switch a.verdict() {
	case taken:
		return queue.Result{Outcome: queue.Done}
	case refused, gone:
		return queue.Result{Outcome: queue.Dead, Reason: ReasonRefused, Err: fmt.Sprintf("the webhook %s answers %d to the fact %s", w.ID, a.status, r.Fact.ID)}
	}
	if ctx.Err() != nil {
		return queue.Result{Outcome: queue.Release}
	}
	return queue.Result{Outcome: queue.Retry, Least: a.asked, Reason: "webhook_away", Err: a.text()}
}

// text says for people what came back.
func (a answer) text() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("the answer has the status %d", a.status)
}
