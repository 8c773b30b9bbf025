package record_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fanfare/store/record"
)

// Follow reads again and again, and logs the begin and the end of an outage.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var said bytes.Buffer
		outcomes := []error{nil, context.DeadlineExceeded, context.DeadlineExceeded, nil, nil}
		loads, last := 0, time.Now()
		record.Follow(ctx, slog.New(slog.NewTextHandler(&said, nil)), "names", time.Second, func(context.Context) error {
			if rest := time.Since(last); loads > 0 && (rest < time.Second/2 || rest > time.Second) {
				t.Errorf("load %d came after %v", loads, rest)
			}
			last = time.Now()
			if loads++; loads == len(outcomes) {
				cancel()
			}
			return outcomes[loads-1]
		})
		if loads != len(outcomes) {
			t.Errorf("%d loads", loads)
		}
		for _, line := range []string{"the database is away", "the database is back"} {
			if n := strings.Count(said.String(), line); n != 1 || strings.Count(said.String(), "keeps=names") != 2 {
				t.Errorf("%d times %q in\n%s", n, line, &said)
			}
		}
	})
}
