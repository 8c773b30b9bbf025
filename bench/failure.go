package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// failure is panicked with to end a subject at once, as Fatal ends a test: a measurement that
// failed has no results.
type failure struct{ error }

// must ends the subject if there is an error.
func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// got returns a value, and ends the subject if there is an error.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// failf ends the subject.
func failf(format string, args ...any) { must(fmt.Errorf(format, args...)) }

// attempt runs a function and returns the failure that ended it.
func attempt(do func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = failed.error
		}
	}()
	do()
	return nil
}

// parallel runs a function in n goroutines and waits for all of them. If one of them fails, the
// caller fails.
func parallel(n int, do func(i int)) {
	var all errgroup.Group
	for i := range n {
		all.Go(func() error { return attempt(func() { do(i) }) })
	}
	must(all.Wait())
}

// eventually waits until a condition is true, at most ten minutes.
func eventually(ctx context.Context, what string, done func() bool) {
	tick, end := time.NewTicker(3*time.Millisecond), time.After(10*time.Minute)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			failf("waited ten minutes for %s", what)
		case <-ctx.Done():
			must(context.Cause(ctx))
		}
	}
}
