package h2

import (
	"context"
	"testing"
	"time"

	"fanfare/store/storetest"
)

func TestLimiterHalvesOncePerRoundAndRecovers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := NewLimiter(func() time.Time { return now })
	var rounds []int
	for range 100 {
		r, err := l.Enter(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, r)
	}
	for _, r := range rounds {
		l.Halve(r)
		l.Leave()
	}
	if _, limit := l.State(); limit != 50 {
		t.Fatalf("100 refusals of one round made the limit %d", limit)
	}
	l.Succeed()
	if _, limit := l.State(); limit != 50 {
		t.Fatalf("it grew at once to %d", limit)
	}
	seconds := 0
	for _, limit := l.State(); limit > 0; _, limit = l.State() {
		now = now.Add(time.Second)
		l.Succeed()
		if seconds++; seconds > 120 {
			t.Fatalf("after two minutes the limit is %d", limit)
		}
	}
	if seconds < 20 {
		t.Fatalf("it recovered in %d s", seconds)
	}
}

func TestLimiterLetsWaitersIn(t *testing.T) {
	t.Parallel()
	l := NewLimiter(time.Now)
	r, _ := l.Enter(context.Background())
	l.Halve(r) // limit 1
	done := make(chan error)
	go func() {
		_, err := l.Enter(context.Background())
		done <- err
	}()
	storetest.Eventually(t, 20*time.Second, "one to wait", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.waiting == 1
	})
	if _, err := l.Enter(context.Background()); err != ErrLimited {
		t.Fatalf("the second who would wait: %v", err)
	}
	l.Leave()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Enter(ctx); err != context.Canceled {
		t.Fatalf("got %v", err)
	}
}
