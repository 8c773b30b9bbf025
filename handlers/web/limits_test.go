package web

import (
	"net/http"
	"testing"
	"time"

	"fanfare/api"
)

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
