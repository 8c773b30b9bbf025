package sales

import (
	"context"
	"log/slog"
	"testing"

	"fanfare/store/storetest"
)

// S13: a sale that takes hours to read is read to its end. Each page has deadlines of its own, and all
// together have none: neither when somebody calls, nor when only the sweep brings the sale back.
func TestS13_ALoadHasNoDeadlineAsAWhole(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*process, string){
		"Called": func(p *process, sale string) { p.wantItem(sale, 5, 0, 0) },
		"Swept":  func(p *process, sale string) { p.onStale(p.t.Context(), sale) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			loads := &loadContexts{Handler: slog.DiscardHandler}
			p := s.mustStart(Options{Logger: slog.New(loads)})
			p.mustPut(s.sale, request(5, 60_000, 1))
			storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
			use(p, s.sale)
			if loads.n != 1 || loads.bounded {
				t.Errorf("%d loads, with a deadline: %v", loads.n, loads.bounded)
			}
		})
	}
}

// loadContexts is a log that notes how often a sale was read back, and whether that had a deadline.
type loadContexts struct {
	slog.Handler
	n       int
	bounded bool
}

// Enabled is for everything.
func (*loadContexts) Enabled(context.Context, slog.Level) bool { return true }

// Handle notes.
func (l *loadContexts) Handle(ctx context.Context, line slog.Record) error {
	if line.Message == "a sale is brought in line with the record" {
		l.n++
		_, l.bounded = ctx.Deadline()
	}
	return nil
}
