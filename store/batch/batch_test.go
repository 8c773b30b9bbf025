package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/batch"
	"fanfare/store/storetest"
)

const patience = 20 * time.Second

var errLost = errors.New("lost")

// setup is a group that notes each run and holds the first until release.
type setup struct {
	*batch.Group[int, int]
	runs    [][]int // read it when no run is under way
	begun   chan struct{}
	release chan struct{}
}

func newSetup(most int) *setup {
	s := &setup{begun: make(chan struct{}), release: make(chan struct{})}
	s.Group = batch.New(batch.Options{Most: most, Timeout: time.Minute}, func(_ context.Context, items []int) (int, error) {
		if s.runs = append(s.runs, items); len(s.runs) == 1 {
			close(s.begun)
			<-s.release
		}
		return len(items), nil
	})
	return s
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
			storetest.Eventually(t, patience, "all wait", func() bool { return s.Waiting() == n })
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

// A run begins beside another only when it is full, and only so many are under way.
func TestRunsAbreast(t *testing.T) {
	t.Parallel()
	const most, abreast, n = 4, 3, 4*4 + 3
	begun, release := make(chan int, n), make(chan struct{})
	g := batch.New(batch.Options{Most: most, Abreast: abreast, Timeout: time.Minute}, func(_ context.Context, items []int) (int, error) {
		begun <- len(items)
		<-release
		return 0, nil
	})
	var all sync.WaitGroup
	call := func(calls, waiting int) {
		for range calls {
			all.Go(func() { _, _ = g.Do(t.Context(), 0) })
		}
		storetest.Eventually(t, patience, "they wait", func() bool { return g.Waiting() == waiting })
	}
	wantBegun := func(want int) {
		t.Helper()
		if got := <-begun; got != want {
			t.Fatalf("a run of %d began, want %d", got, want)
		}
	}
	all.Go(func() { _, _ = g.Do(t.Context(), 0) })
	wantBegun(1)
	call(most-1, most-1) // not full: it waits
	call(1, 0)
	wantBegun(most)
	call(most, 0)
	wantBegun(most)
	call(most+most-1, most+most-1) // as many are under way as may be
	if len(begun) > 0 {
		t.Fatalf("a run of %d began too early", <-begun)
	}
	release <- struct{}{} // a full one follows at once
	wantBegun(most)
	release <- struct{}{} // the last is not full: it follows only the last that is under way
	release <- struct{}{}
	storetest.Eventually(t, patience, "one is under way", func() bool {
		running, _ := g.UnderWay()
		return running == 1
	})
	if len(begun) > 0 || g.Waiting() != most-1 {
		t.Fatal("a run that is not full began beside another")
	}
	release <- struct{}{}
	wantBegun(most - 1)
	close(release)
	all.Wait()
}

// A run that hangs holds up nobody but its own callers, while others may begin.
func TestPatience(t *testing.T) {
	t.Parallel()
	begun, release := make(chan int, 3), make(chan struct{})
	g := batch.New(batch.Options{Abreast: 2, Patience: 50 * time.Millisecond, Timeout: time.Minute}, func(_ context.Context, items []int) (int, error) {
		begun <- items[0]
		if items[0] != 2 {
			<-release
		}
		return items[0], nil
	})
	var all sync.WaitGroup
	hang := func(item int) { all.Go(func() { _, _ = g.Do(t.Context(), item) }) }
	hang(1)
	<-begun
	for range 2 { // the first hangs, and goes on hanging
		if got, err := g.Do(t.Context(), 2); got != 2 || err != nil {
			t.Fatal(got, err)
		}
		<-begun
	}
	hang(3)
	<-begun
	hang(4)
	storetest.Eventually(t, patience, "both are slow", func() bool {
		_, slow := g.UnderWay()
		return slow == 2
	})
	if g.Waiting() != 1 || len(begun) > 0 {
		t.Fatal("more are under way than may be")
	}
	close(release)
	if <-begun != 4 {
		t.Fatal("not who waited")
	}
	all.Wait()
	storetest.Eventually(t, patience, "nothing is under way", func() bool {
		running, slow := g.UnderWay()
		return running == 0 && slow == 0
	})
}

func TestDoErrors(t *testing.T) {
	t.Parallel()
	t.Run("ReachWhomTheyConcern", func(t *testing.T) {
		t.Parallel()
		var failed atomic.Bool
		g := batch.New(batch.Options{Timeout: time.Minute}, func(context.Context, []string) (struct{}, error) {
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
		g := batch.New(batch.Options{Timeout: time.Millisecond}, func(ctx context.Context, _ []int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if _, err := g.Do(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

// With a Rest the next run waits, and takes all who come meanwhile.
func TestRest(t *testing.T) {
	t.Parallel()
	const rest = 200 * time.Millisecond
	var begun []time.Time
	var sizes []int
	g := batch.New(batch.Options{Timeout: time.Minute, Rest: rest}, func(_ context.Context, items []int) (int, error) {
		begun, sizes = append(begun, time.Now()), append(sizes, len(items))
		return 0, nil
	})
	do := func() {
		if _, err := g.Do(t.Context(), 1); err != nil {
			t.Error(err)
		}
	}
	do()
	var callers sync.WaitGroup
	for range 5 {
		callers.Go(do)
	}
	callers.Wait()
	do()
	if len(sizes) < 3 || sizes[0] != 1 || len(sizes) > 4 { // one caller may come after the rest, on a busy machine
		t.Errorf("runs of %v items", sizes)
	}
	for i := 1; i < len(begun); i++ {
		if after := begun[i].Sub(begun[i-1]); after < rest {
			t.Errorf("run %d began %v after the one before", i, after)
		}
	}
}
