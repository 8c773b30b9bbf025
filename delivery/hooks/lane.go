package hooks

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/wake"
	"fanfare/store/webhooks"
)

const (
	// pollEvery is how often the end of a lane is looked at if nobody says that it has new facts, and readEvery how often a webhook
	// reads a lane although its end is where it was.
	pollEvery, readEvery = time.Second, passEvery
	// passEvery is how often a position is noted that only facts of other types were before, and keepEvery how often one is
	// noted again that does not move, so that it is kept. It is noted at once after passFacts facts: who shows how far the
	// webhook has come looks at no more than 500.
	passEvery, keepEvery, passFacts = 10 * time.Second, time.Hour, 200
	// errorPause is the wait after an error of Redis or SQL, and noteTimeout bounds the writing of an answer,
	// also while the process stops.
	errorPause, noteTimeout = time.Second, 5 * time.Second
	// endPause is the wait after 410: by then this lane has ended.
	endPause = time.Minute
)

// lane sends the facts of one lane to one webhook, one request after the other.
type lane struct {
	s *Sender
	w *record.Webhook
	n int

	known   bool   // after and replays are what is on record
	after   string // the position: facts were taken up to it
	replays int64  // how many replays had set the position when it was read
	// ahead is the position up to which there was nothing for the webhook, and gap how many facts before it were kept no
	// longer. passed is when after was last moved.
	ahead  string
	gap    int64
	passed time.Time

	pace  pace
	sleep func(context.Context, time.Duration)
	told  <-chan struct{} // there may be new facts
}

func newLane(s *Sender, w *record.Webhook, n int) *lane { return &lane{s: s, w: w, n: n, sleep: sleep} }

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// run sends until ctx ends. If that is because the process stops, a request that is under way may end.
func (l *lane) run(ctx context.Context, w *watch) {
	told, leave := w.join()
	defer leave()
	l.told = told
	failing := false
	for ctx.Err() == nil {
		wait, err := l.turn(ctx)
		if err != nil && ctx.Err() == nil && !failing && !api.Passing(err) { // of an outage others tell
			l.s.o.Logger.WarnContext(ctx, "a webhook cannot go on; it is tried again", "webhook", l.w.ID, "lane", l.n, "error", err)
		}
		if failing = err != nil; failing {
			l.known, wait = false, max(wait, errorPause)
		}
		l.sleep(ctx, wait)
	}
}

// turn makes at most one request. It returns how long to wait before the next turn.
func (l *lane) turn(ctx context.Context) (time.Duration, error) {
	if err := l.load(ctx); err != nil {
		return 0, err
	}
	b, err := l.gather(ctx)
	if err != nil || b.first == "" || ctx.Err() != nil {
		return 0, err
	}
	under, done := l.s.grace(ctx)
	defer done()
	a := l.s.o.Poster.post(under, l.w, b.id(l.w.ID), b.body)
	if a.err != nil && under.Err() != nil {
		return 0, nil // the process stops, or the webhook has changed: whoever sends next sends the same facts again
	}
	return l.act(ctx, b, a)
}

// load reads the position if it is not known.
func (l *lane) load(ctx context.Context) error {
	if l.known {
		return nil
	}
	all, err := l.s.o.Webhooks.Progress(ctx, l.w.Series, l.n)
	if err != nil {
		return err
	}
	l.known, l.replays, l.after, l.ahead, l.gap, l.passed = true, all[0].Replays, all[0].After, all[0].After, 0, time.Now()
	return nil
}

// gather reads the next batch. One that is not full waits a moment for more facts. Without a fact it waits until there
// may be one.
func (l *lane) gather(ctx context.Context) (*batch, error) {
	most := l.pace.most(int(l.w.Max))
	b, err := l.read(ctx, most)
	switch {
	case err != nil:
		return nil, err
	case b.first == "":
		if err := l.pass(ctx, b); err != nil {
			return nil, err
		}
		if !b.moved {
			_ = wake.Await(ctx, l.told, readEvery)
		}
		return b, nil
	case len(b.facts) == most, len(b.body) > maxBatch/2, l.pace.failing():
		return b, nil
	}
	l.sleep(ctx, gatherTime)
	return l.read(ctx, most)
}

// read reads at most that many facts.
func (l *lane) read(ctx context.Context, most int) (*batch, error) {
	return read(ctx, l.s.o.Feed, l.w, reading{lane: l.n, after: l.ahead, most: most, gap: l.gap})
}

// pass goes on after facts of other types. The position on record follows now and then, but not while there is a gap of
// which the receiver has not been told. A webhook for which there is nothing left does not fail any more.
func (l *lane) pass(ctx context.Context, b *batch) error {
	l.ahead, l.gap = b.next, b.gap
	every := passEvery
	if l.after == l.ahead {
		every = keepEvery
	}
	far := l.s.o.Feed.Between(l.after, l.ahead) >= passFacts
	if over := l.pace.failing() && !b.moved; l.gap > 0 || time.Since(l.passed) < every && !over && !far {
		return nil
	}
	l.pace.failures = 0
	return l.note(ctx, webhooks.Step{To: l.ahead, Taken: true})
}

// act does what an answer asks for.
func (l *lane) act(ctx context.Context, b *batch, a answer) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	do, wait := l.pace.next(a, len(b.facts), b.first)
	l.s.tell(ctx, l, b, a, do)
	step := webhooks.Step{To: l.after, Answer: a.shown()}
	switch do {
	case advance:
		step.To, step.Taken, step.Gap = b.next, true, b.gap
	case giveUp:
		if err := l.s.o.Bury(ctx, l.w, b.facts[0], a.status); err != nil {
			return wait, err
		}
		step.To, step.Gap = b.next, b.gap
	case end:
		if err := l.s.o.Webhooks.End(ctx, l.w); err != nil {
			return wait, err
		}
		wait = endPause
	}
	return wait, l.note(ctx, step)
}

// note writes a step from the position on record. If the position is another one, it is read again.
func (l *lane) note(ctx context.Context, step webhooks.Step) error {
	step.Series, step.Lane, step.From, step.Replays = l.w.Series, l.n, l.after, l.replays
	ok, err := l.s.o.Webhooks.Note(ctx, step)
	if err != nil {
		return err
	}
	if !ok {
		l.known = false
		return nil
	}
	l.passed = time.Now()
	if step.To != l.after {
		l.after, l.ahead, l.gap = step.To, step.To, 0
	}
	return nil
}

// shown is the answer as it is kept.
func (a answer) shown() *api.WebhookAnswer {
	out := &api.WebhookAnswer{Status: a.status, TookMS: a.took.Milliseconds()}
	if a.err != nil {
		out.Error = a.err.Error()[:min(len(a.err.Error()), maxError)]
	}
	return out
}

// maxError is how much of an error is kept.
const maxError = 256
