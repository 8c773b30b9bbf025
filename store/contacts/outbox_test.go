package contacts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"fanfare/store/storetest"
)

func TestCloser(t *testing.T) {
	t.Parallel()
	t.Run("WhatArrivesMeanwhileGoesTogether", func(t *testing.T) {
		t.Parallel()
		first, gate := make(chan struct{}), make(chan struct{})
		var calls [][]string
		c := &closer{deleteRows: func(_ context.Context, rows ...string) error {
			if calls = append(calls, rows); len(calls) == 1 {
				close(first)
				<-gate
			}
			return nil
		}}
		const n = 100
		done := make(chan error, n+1)
		go func() { done <- c.close(t.Context(), "first") }()
		<-first
		for i := range n {
			go func() { done <- c.close(t.Context(), fmt.Sprintf("r%03d", i)) }()
		}
		storetest.Eventually(t, testPatience, "all wait", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.waiting != nil && len(c.waiting.rows) == n
		})
		close(gate)
		for range n + 1 {
			must(t, <-done)
		}
		if len(calls) != 2 || len(calls[1]) != n || len(slices.Compact(slices.Sorted(slices.Values(calls[1])))) != n {
			t.Fatalf("%d transactions: %v", len(calls), calls)
		}
	})
	t.Run("ErrorsReachWhomTheyConcern", func(t *testing.T) {
		t.Parallel()
		var fails atomic.Bool
		fails.Store(true)
		c := &closer{deleteRows: func(context.Context, ...string) error {
			if fails.Swap(false) {
				return errLost
			}
			return nil
		}}
		if err := c.close(t.Context(), "a"); !errors.Is(err, errLost) {
			t.Fatal(err)
		}
		must(t, c.close(t.Context(), "b"))
	})
	t.Run("ACallerMayGiveUp", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		c := &closer{deleteRows: func(context.Context, ...string) error { <-gate; return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.close(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(gate)
		must(t, c.close(t.Context(), "b"))
	})
}
