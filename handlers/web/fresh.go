package web

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Fresh reads a value at most once in Every, for all who ask for it.
type Fresh[T any] struct {
	Every time.Duration
	// Read has to end by itself: its context does not end with the call that needs the value.
	Read func(context.Context) T

	reads singleflight.Group
	mu    sync.Mutex
	began time.Time
	value T
}

// Get returns a value whose reading began less than Every ago. Callers that arrive during a reading wait
// for it and share its value, however long it takes.
func (f *Fresh[T]) Get(ctx context.Context) T {
	if value, fresh := f.last(); fresh {
		return value
	}
	value, _, _ := f.reads.Do("", func() (any, error) {
		if value, fresh := f.last(); fresh { // read by another call a moment ago
			return value, nil
		}
		began := time.Now()
		value := f.Read(context.WithoutCancel(ctx))
		f.mu.Lock()
		defer f.mu.Unlock()
		f.began, f.value = began, value
		return value, nil
	})
	return value.(T)
}

// last returns the last value, and whether it is fresh.
func (f *Fresh[T]) last() (value T, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, time.Since(f.began) < f.Every
}
