package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/webhooks"
)

const (
	// maxFacts is how many facts any batch has at most.
	maxFacts = 100
	// maxBatch is the size of a body in bytes. A fact that is larger alone is sent alone.
	maxBatch = 64 << 10
	// gatherTime is how long a batch that is not full waits for more facts.
	gatherTime = 50 * time.Millisecond
	// mostLooks is how often one reading looks at a lane, most of whose facts may be of other types.
	mostLooks = 20
)

// body is what a receiver gets.
type body struct {
	Webhook string     `json:"webhook"`
	Gap     int64      `json:"gap,omitempty"`
	Facts   []api.Fact `json:"facts"`
}

// batch are facts that are sent together.
type batch struct {
	first string // the id of the first fact; "": there is none
	facts []api.Fact
	next  string // the position after them
	moved bool   // next is another position than the one that was read from
	gap   int64  // facts before them that were kept no longer
	body  []byte
}

// id is the webhook-id: the webhook, and the first and the last of its facts, whose ids name their lane. Requests with other
// facts have other ids, because a receiver may leave out a request whose id it has seen.
func (b *batch) id(webhook string) string {
	id := webhook + ":" + b.first
	if last := b.facts[len(b.facts)-1].ID; last != b.first {
		id += ":" + last
	}
	return id
}

// reading is where a batch begins.
type reading struct {
	lane  int
	after string
	most  int   // facts
	gap   int64 // facts before that were kept no longer
}

// read reads facts of a lane that fit into one request.
func read(ctx context.Context, feed webhooks.Feed, w *record.Webhook, r reading) (*batch, error) {
	for {
		b, err := look(ctx, feed, w, r)
		if err != nil || len(b.facts) == 0 {
			return b, err
		}
		fit, err := b.encode(w.ID)
		if err != nil || fit == len(b.facts) {
			return b, err
		}
		r.most = fit // the position after fewer facts is known only by reading them
	}
}

// look reads until there are facts enough, or the lane has no more.
func look(ctx context.Context, feed webhooks.Feed, w *record.Webhook, r reading) (*batch, error) {
	wanted := func(t string) bool { return slices.Contains(w.Types, t) }
	b := &batch{next: r.after, gap: r.gap}
	for size, looks := 0, 0; len(b.facts) < r.most && size < maxBatch && looks < mostLooks; looks++ {
		facts, next, gap, err := feed.ReadLane(ctx, r.lane, b.next, wanted, r.most-len(b.facts), maxBatch-size)
		if err != nil {
			return nil, err
		}
		for _, f := range facts {
			size += len(f.Data)
		}
		same := next == b.next
		b.facts, b.next, b.gap = append(b.facts, slices.DeleteFunc(facts, ofWebhook)...), next, b.gap+gap
		if same {
			break
		}
	}
	b.moved = b.next != r.after
	return b, nil
}

// ofWebhook reports whether a fact tells of a dead letter that is a refused fact itself. It is sent to no webhook: one that
// refuses it as well would make another dead letter each time.
func ofWebhook(f api.Fact) bool {
	var letter struct{ Kind, Type string }
	return f.Type == api.FactDeadLetterCreated && json.Unmarshal(f.Data, &letter) == nil && letter.Kind == api.DeadTask && letter.Type == JobFact
}

// encode makes the body, and returns how many facts fit into it.
func (b *batch) encode(webhook string) (fit int, err error) {
	b.first = b.facts[0].ID
	if b.body, err = json.Marshal(body{webhook, b.gap, b.facts}); err != nil {
		return 0, fmt.Errorf("encode facts of webhook %s: %w", webhook, err)
	}
	size := len(b.body)
	for fit = len(b.facts); fit > 1 && size > maxBatch; fit-- {
		one, _ := json.Marshal(b.facts[fit-1]) // it was marshalled before
		size -= len(one) + 1
	}
	return fit, nil
}
