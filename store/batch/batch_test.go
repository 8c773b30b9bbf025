package batch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/storetest"
)

const patience = 20 * time.Second

var errLost = errors.New("lost")

// setup is a group that notes each run and holds the first until release.
type setup struct {
	*Group[int, int]
	runs    [][]int // read it when no run is under way
	begun   chan struct{}
	release chan struct{}
}

func newSetup(most int) *setup {
	s := &setup{begun: make(chan struct{}), release: make(chan struct{})}
	s.Group = New(Options{Most: most, Timeout: time.Minute}, func(_ context.Context, items []int) (int, error) {
		if s.runs = append(s.runs, items); len(s.runs) == 1 {
			close(s.begun)
			<-s.release
		}
		return len(items), nil
	})
	return s
}

// waits tells how many items wait for a run.
func (s *setup) waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.waiting {
		n += len(r.items)
	}
	return n
}

func TestDo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		most int
		want []int // the sizes of the runs after the first
	}{
		"WhatArrivesMeanwhileGoesTogether": {0, []int{100}},
		"ARunIsBounded":                    {40, []int{40, 40, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(tc.most)
			const n = 100
			sizes := make(chan int, n+1)
			call := func(item int) {
				size, err := s.Do(t.Context(), item)
				if err != nil {
					t.Error(err)
				}
				sizes <- size
			}
			go call(-1)
			<-s.begun
			for i := range n {
				go call(i)
			}
			storetest.Eventually(t, patience, "all wait", func() bool { return s.waits() == n })
			close(s.release)
			for range n + 1 {
				<-sizes
			}
			var got, items []int
			for _, run := range s.runs[1:] {
				got, items = append(got, len(run)), append(items, run...)
			}
			if !slices.Equal(got, tc.want) || len(slices.Compact(slices.Sorted(slices.Values(items)))) != n {
				t.Fatalf("runs of %v, want %v: %v", got, tc.want, items)
			}
		})
	}
}

func TestDoErrors(t *testing.T) {
	t.Parallel()
	t.Run("ReachWhomTheyConcern", func(t *testing.T) {
		t.Parallel()
		var failed atomic.Bool
		g := New(Options{Timeout: time.Minute}, func(context.Context, []string) (struct{}, error) {
			if failed.Swap(true) {
				return struct{}{}, nil
			}
			return struct{}{}, errLost
		})
		if _, err := g.Do(t.Context(), "a"); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		if _, err := g.Do(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("ACallerMayGiveUpAndItsItemGoesOn", func(t *testing.T) {
		t.Parallel()
		s := newSetup(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Do(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(s.release)
		if _, err := s.Do(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(slices.Concat(s.runs...), []int{1, 2}) {
			t.Fatal(s.runs)
		}
	})
	t.Run("ARunHasItsOwnEnd", func(t *testing.T) {
		t.Parallel()
		g := New(Options{Timeout: time.Millisecond}, func(ctx context.Context, _ []int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if _, err := g.Do(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}
