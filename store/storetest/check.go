package storetest

import (
	"context"
	"testing"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
)

// Must fails the test for an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantCode fails the test unless the error has this code.
func WantCode(t testing.TB, err error, want api.Code) {
	t.Helper()
	if got := api.CodeOf(err); got != want {
		t.Fatalf("code %q, want %q (error: %v)", got, want, err)
	}
}

// AtOnce runs n calls at the same time and fails the test for any error. The first error ends the
// context of all calls.
func AtOnce(t testing.TB, n int, call func(ctx context.Context, i int) error) {
	t.Helper()
	g, ctx := errgroup.WithContext(t.Context())
	for i := range n {
		g.Go(func() error { return call(ctx, i) })
	}
	Must(t, g.Wait())
}
