package batch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"fanfare/store/batch"
	"fanfare/store/storetest"
)

// asked is an item with an answer of its own.
type asked struct{ n, double int }

// crowdSetup is a crowd that notes each run and holds the first until release.
type crowdSetup struct {
	*batch.Crowd[*asked]
	runs           [][]int // read it when no run is under way
	begun, release chan struct{}
}

func newCrowdSetup() *crowdSetup {
	s := &crowdSetup{begun: make(chan struct{}), release: make(chan struct{})}
	s.Crowd = batch.NewCrowd(batch.Options{Timeout: time.Minute}, time.Minute, func(_ context.Context, items []*asked) {
		var run []int
		for _, item := range items {
			item.double = 2 * item.n
			run = append(run, item.n)
		}
		if s.runs = append(s.runs, run); len(s.runs) == 1 {
			close(s.begun)
			<-s.release
		}
	})
	return s
}

// outcome is what Do returned for an item.
type outcome struct {
	*asked
	left bool
	err  error
}

func (s *crowdSetup) call(ctx context.Context, n int) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		item := &asked{n: n}
		left, err := s.Do(ctx, item)
		done <- outcome{item, left, err}
	}()
	return done
}

func TestCrowd(t *testing.T) {
	t.Parallel()
	t.Run("EachHasItsAnswer", func(t *testing.T) {
		t.Parallel()
		s := newCrowdSetup()
		calls := []<-chan outcome{s.call(t.Context(), 1)}
		<-s.begun
		for n := range 20 {
			calls = append(calls, s.call(t.Context(), n+2))
		}
		storetest.Eventually(t, patience, "all wait", func() bool { return s.Waiting() == 20 })
		close(s.release)
		for i, call := range calls {
			if got := <-call; got.err != nil || !got.left || got.double != 2*(i+1) {
				t.Errorf("%d: %+v %+v", i, got, got.asked)
			}
		}
		if len(s.runs) != 2 {
			t.Errorf("runs %v", s.runs)
		}
	})
	t.Run("WhatIsGivenUpJustNowNeverLeaves", func(t *testing.T) {
		t.Parallel()
		s := newCrowdSetup()
		first := s.call(t.Context(), 1)
		<-s.begun
		ctx, cancel := context.WithCancel(t.Context())
		second, third := s.call(ctx, 2), s.call(t.Context(), 3)
		storetest.Eventually(t, patience, "both wait", func() bool { return s.Waiting() == 2 })
		cancel()
		close(s.release)
		if got := <-second; got.left || !errors.Is(got.err, context.Canceled) {
			t.Errorf("given up: %+v", got)
		}
		if a, b := <-first, <-third; a.err != nil || b.err != nil || len(s.runs) != 2 || !slices.Equal(s.runs[1], []int{3}) {
			t.Errorf("%+v, %+v, runs %v", a, b, s.runs)
		}
	})
	t.Run("WhatIsGivenUpNeverLeaves", func(t *testing.T) {
		t.Parallel()
		s := newCrowdSetup()
		ctx, cancel := context.WithCancel(t.Context())
		first := s.call(ctx, 1)
		<-s.begun
		second, third := s.call(ctx, 2), s.call(t.Context(), 3)
		storetest.Eventually(t, patience, "both wait", func() bool { return s.Waiting() == 2 })
		cancel()
		if got := <-first; !got.left || !errors.Is(got.err, context.Canceled) {
			t.Errorf("under way: %+v", got)
		}
		if got := <-second; got.left || !errors.Is(got.err, context.Canceled) {
			t.Errorf("given up: %+v", got)
		}
		close(s.release)
		if got := <-third; got.err != nil || got.double != 6 {
			t.Errorf("the other: %+v", got)
		}
		if !slices.Equal(slices.Concat(s.runs...), []int{1, 3}) {
			t.Errorf("runs %v", s.runs)
		}
	})
	t.Run("WhatWaitsTooLongNeverLeaves", func(t *testing.T) {
		t.Parallel()
		s := newCrowdSetup()
		first := s.call(t.Context(), 1)
		<-s.begun
		s.SetMaxWait(time.Millisecond)
		second, since := s.call(t.Context(), 2), time.Now()
		storetest.Eventually(t, patience, "it waits long", func() bool { return s.Waiting() == 1 && time.Since(since) > 10*time.Millisecond })
		close(s.release)
		if got := <-first; got.err != nil {
			t.Error(got.err)
		}
		if got := <-second; got.left || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("%+v", got)
		}
		if !slices.Equal(slices.Concat(s.runs...), []int{1}) {
			t.Errorf("runs %v", s.runs)
		}
	})
}
