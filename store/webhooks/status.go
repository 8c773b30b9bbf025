package webhooks

import (
	"context"
	"slices"
	"time"

	"fanfare/api"
)

// Status shows a webhook and how far it has come; api.CodeNotFound when there is none. It takes a query and at most three round
// trips to Redis, and reads at most 500 facts of a lane.
func (s *Store) Status(ctx context.Context, id string) (*api.WebhookStatus, error) {
	w, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	lanes := s.lanes()
	all, err := s.Progress(ctx, w.Series, lanes...)
	if err != nil {
		return nil, err
	}
	out := &api.WebhookStatus{Webhook: w.Webhook}
	var at time.Time
	after := make([]string, len(all))
	for lane, p := range all {
		after[lane] = p.After
		out.Gap += p.Gap
		if !p.FailingSince.IsZero() && (out.FailingSince == nil || p.FailingSince.Before(out.FailingSince.Time)) {
			out.FailingSince = new(api.At(p.FailingSince))
		}
		if p.Last != nil && p.At.After(at) {
			at, out.LastAnswer = p.At, p.Last
			out.LastAnswer.At = new(api.At(at))
		}
	}
	if out.Position, err = s.o.Feed.PositionOf(after); err != nil {
		return nil, err
	}
	since, sure, err := s.o.Feed.Oldest(ctx, after, func(t string) bool { return slices.Contains(w.Types, t) })
	if err == nil && !since.IsZero() {
		out.LagMS, out.LagAtMost = max(s.o.DB.Clock().Sub(since).Milliseconds(), 1), !sure
	}
	return out, err
}

// lanes are the numbers of all lanes.
func (s *Store) lanes() []int {
	all := make([]int, s.o.Feed.Lanes())
	for i := range all {
		all[i] = i
	}
	return all
}

// Replay lets a webhook begin at a position again, at once, also while it waits after failures; see LanesOf of the feed.
// api.CodeNotFound when there is no such webhook.
func (s *Store) Replay(ctx context.Context, id, after string) error {
	w, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	lanes, err := s.o.Feed.LanesOf(ctx, after)
	if err != nil {
		return err
	}
	if err := s.set(ctx, w.Series, lanes, 1); err != nil {
		return api.AfterAChange(err) // some lanes may begin again
	}
	return api.AfterAChange(s.o.Record.TouchWebhook(ctx, id)) // who sends may wait, and does not look at Redis meanwhile
}

// Failing is what takes no facts.
type Failing struct {
	// Webhooks is how many webhooks that are on fail in a lane.
	Webhooks int
	// Longest is how long one of them has taken nothing.
	Longest time.Duration
}

// Failing counts the webhooks that fail. It takes a query, and a round trip for each webhook.
func (s *Store) Failing(ctx context.Context) (f Failing, err error) {
	list, err := s.o.Record.Webhooks(ctx)
	if err != nil {
		return f, err
	}
	for _, w := range list {
		if w.State != api.WebhookOn {
			continue
		}
		all, err := s.Progress(ctx, w.Series, s.lanes()...)
		if err != nil {
			return f, err
		}
		var since time.Time
		for _, p := range all {
			if !p.FailingSince.IsZero() && (since.IsZero() || p.FailingSince.Before(since)) {
				since = p.FailingSince
			}
		}
		if !since.IsZero() {
			f.Webhooks, f.Longest = f.Webhooks+1, max(f.Longest, s.o.DB.Clock().Sub(since))
		}
	}
	return f, nil
}
