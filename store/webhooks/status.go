package webhooks

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/record"
)

const (
	// lookFacts is how many facts of a lane one look sees, most of which may be of other types, and mostLooks how often
	// the lag of a lane is looked for.
	lookFacts, mostLooks = 200, 20
	// abreast is how many lanes are read at once.
	abreast = 16
)

// Status shows a webhook and how far it has come; api.CodeNotFound when there is none. It takes two round trips, and more in
// lanes with many facts that are not for the webhook.
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
	out.LagMS, err = s.lag(ctx, w, after)
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

// lag is how long the oldest fact after positions in all lanes is there, in ms.
func (s *Store) lag(ctx context.Context, w *record.Webhook, after []string) (int64, error) {
	var lag atomic.Int64
	var some errgroup.Group
	some.SetLimit(abreast)
	for lane, at := range after {
		some.Go(func() error {
			oldest, err := s.oldest(ctx, w, lane, at)
			if err != nil || oldest.IsZero() {
				return err
			}
			for ms := max(time.Since(oldest).Milliseconds(), 1); ; {
				if old := lag.Load(); old >= ms || lag.CompareAndSwap(old, ms) {
					return nil
				}
			}
		})
	}
	err := some.Wait()
	return lag.Load(), err
}

// oldest is when the first fact for a webhook after a position happened; zero if there is none.
func (s *Store) oldest(ctx context.Context, w *record.Webhook, lane int, after string) (time.Time, error) {
	for range mostLooks {
		facts, next, _, err := s.o.Feed.ReadLane(ctx, lane, after, func(t string) bool { return slices.Contains(w.Types, t) }, lookFacts, 1)
		if err != nil || len(facts) > 0 {
			return at(facts), err
		}
		if next == after {
			break
		}
		after = next
	}
	return time.Time{}, nil
}

// at is when the first of some facts happened; zero if there is none.
func at(facts []api.Fact) time.Time {
	if len(facts) == 0 {
		return time.Time{}
	}
	return facts[0].At.Time
}

// Replay lets a webhook begin at a position again, at once, also while it waits after failures; see LanesOf of the feed.
// api.CodeNotFound when there is no such
// webhook.
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
			f.Webhooks, f.Longest = f.Webhooks+1, max(f.Longest, time.Since(since))
		}
	}
	return f, nil
}
