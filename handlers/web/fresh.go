package web

import (
	"context"
	"sync"
	"time"
)

// Fresh reads a value at most once in Every, for all who ask for it.
type Fresh[T any] struct {
	Every time.Duration
	// Read has to end by itself: its context does not end with the call that needs the value.
	Read func(context.Context) T

	mu    sync.Mutex // one reading at a time
	began time.Time
	value T
}

// Get returns a value whose reading began less than Every ago. Callers that arrive during a reading wait
// for it and share its value.
func (f *Fresh[T]) Get(ctx context.Context) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began.IsZero() || time.Since(f.began) >= f.Every {
		f.began = time.Now()
		f.value = f.Read(context.WithoutCancel(ctx))
	}
	return f.value
}
