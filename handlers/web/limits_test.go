package web

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"fanfare/api"
)

// Buckets of users without requests are removed, and none too early.
func TestU5_RatesOfManyUsers(t *testing.T) {
	t.Parallel()
	l := newRates(RateLimit{Requests: 2, Window: time.Minute}, "user", "user")
	now := time.Now()
	for minute := range 5 {
		for i := range 1000 {
			_ = l.take(fmt.Sprint(minute, i), now.Add(time.Duration(minute)*61*time.Second), http.Header{})
		}
		if n := len(l.newer) + len(l.older); n > 2000 {
			t.Fatalf("%d buckets after %d minutes", n, minute+1)
		}
	}
	last := now.Add(6 * 61 * time.Second)
	for range 2 { // late in this window
		if err := l.take("greedy", last.Add(-5*time.Second), http.Header{}); err != nil {
			t.Fatal(err)
		}
	}
	_ = l.take("other", last.Add(61*time.Second-5*time.Second), http.Header{}) // begins another window
	if err := l.take("greedy", last.Add(time.Second), http.Header{}); api.CodeOf(err) != api.CodeRateLimited {
		t.Errorf("the new window gave everybody a new bucket: %v", err)
	}
}

func TestTakeRefills(t *testing.T) {
	t.Parallel()
	l := newRates(RateLimit{Requests: 10, Window: time.Second}, "key", "API key")
	now, h := time.Now(), http.Header{}
	for i := range 10 {
		if err := l.take("k", now, h); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	err := l.take("k", now, h)
	if api.CodeOf(err) != api.CodeRateLimited {
		t.Fatalf("request 11: %v", err)
	}
	if wait := err.(*api.Error).RetryAfter; wait < 90*time.Millisecond || wait > 110*time.Millisecond {
		t.Errorf("told to wait %v", wait)
	}
	if err := l.take("k", now.Add(101*time.Millisecond), h); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}
