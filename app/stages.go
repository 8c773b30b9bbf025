package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// loop runs until its context ends, and returns when it has drained.
type loop struct {
	name string
	run  func(context.Context) error
}

// stages run loops. They stop one after the other, in the reverse of their order (startBehind
// puts one before the last). A stage that produces work thus stops before the stage that does
// the work, and both before the stores they use.
type stages struct {
	log     *slog.Logger
	started []*stage
	// broken receives the first loop that ended without being stopped.
	broken chan error
}

// stage holds the loops that stop together.
type stage struct {
	name   string
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// newStages makes a set without any loop.
func newStages(log *slog.Logger) *stages {
	return &stages{log: log, broken: make(chan error, 1)}
}

// start runs the loops as one more stage. Their context keeps ctx's values but
// not its end: they end when the stages are stopped.
func (all *stages) start(ctx context.Context, name string, loops ...loop) {
	all.startAt(ctx, len(all.started), name, loops)
}

// startBehind is start for a stage that stops after the last one.
func (all *stages) startBehind(ctx context.Context, name string, loops ...loop) {
	all.startAt(ctx, len(all.started)-1, name, loops)
}

func (all *stages) startAt(ctx context.Context, i int, name string, loops []loop) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stage{name: name, cancel: cancel}
	all.started = slices.Insert(all.started, i, s)
	for _, l := range loops {
		s.done.Go(func() { all.watch(ctx, l) })
	}
}

// watch runs one loop and reports it if it ends too early.
func (all *stages) watch(ctx context.Context, l loop) {
	err := l.run(ctx)
	if ctx.Err() != nil {
		if err != nil && !errors.Is(err, context.Canceled) {
			all.log.Warn("a loop did not stop cleanly", "loop", l.name, "error", err)
		}
		return
	}
	if err == nil {
		err = errors.New("ended by itself")
	}
	select {
	case all.broken <- fmt.Errorf("%s: %w", l.name, err):
	default: // only the first one is reported
	}
}

// stop ends the stages, the last first, and waits for each. If ctx ends earlier, the rest is
// cancelled without waiting, and the error names the stage that took too long.
func (all *stages) stop(ctx context.Context) error {
	var late error
	for i := len(all.started) - 1; i >= 0; i-- {
		s := all.started[i]
		began := time.Now()
		s.cancel()
		if err := wait(ctx, &s.done); err != nil && late == nil {
			late = fmt.Errorf("%s did not stop in time", s.name)
		}
		all.log.Debug("stage stopped", "stage", s.name, "took", time.Since(began))
	}
	all.started = nil
	return late
}

// wait returns when all have ended or ctx has.
func wait(ctx context.Context, all *sync.WaitGroup) error {
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
