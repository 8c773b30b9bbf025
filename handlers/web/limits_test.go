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
	l := newRates(RateLimit{Requests: 2, Window: time.Minute}, "user", "this user may make %s requests")
	now := time.Now()
	for minute := range 5 {
		for i := range 1000 {
			_ = l.take(fmt.Sprint(minute, i), 1, now.Add(time.Duration(minute)*61*time.Second), http.Header{})
		}
		if n := len(l.newer) + len(l.older); n > 2000 {
			t.Fatalf("%d buckets after %d minutes", n, minute+1)
		}
	}
	last := now.Add(6 * 61 * time.Second)
	for range 2 { // late in this window
		if err := l.take("greedy", 1, last.Add(-5*time.Second), http.Header{}); err != nil {
			t.Fatal(err)
		}
	}
	_ = l.take("other", 1, last.Add(61*time.Second-5*time.Second), http.Header{}) // begins another window
	if err := l.take("greedy", 1, last.Add(time.Second), http.Header{}); api.CodeOf(err) != api.CodeRateLimited {
		t.Errorf("the new window gave everybody a new bucket: %v", err)
	}
}

func TestTakeRefills(t *testing.T) {
	t.Parallel()
	l := newRates(RateLimit{Requests: 10, Window: time.Second}, "key", "this API key may make %s requests")
	now, h := time.Now(), http.Header{}
	for i := range 10 {
		if err := l.take("k", 1, now, h); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	err := l.take("k", 1, now, h)
	if api.CodeOf(err) != api.CodeRateLimited {
		t.Fatalf("request 11: %v", err)
	}
	if wait := err.(*api.Error).RetryAfter; wait < 90*time.Millisecond || wait > 110*time.Millisecond {
		t.Errorf("told to wait %v", wait)
	}
	if err := l.take("k", 1, now.Add(101*time.Millisecond), h); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

// U5: after a pause a user may make a burst of requests, and then the rate of the limit.
func TestU5_BurstOfUsers(t *testing.T) {
	t.Parallel()
	var limit RateLimit
	if err := limit.UnmarshalText([]byte("20/s:100")); err != nil || limit.String() != "20/s:100" {
		t.Fatal(limit, err)
	}
	l := newRates(limit, "user", "this user may make %s requests")
	now, h := time.Now(), http.Header{}
	for i := range 100 {
		if err := l.take("u", 1, now, h); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if h.Get("RateLimit") != `"user";r=0;t=5` || h.Get("RateLimit-Policy") != `"user";q=100;w=5` {
		t.Errorf("the headers are %v", h)
	}
	if err := l.take("u", 1, now, h); err == nil || err.Error() != "rate_limited: this user may make 20/s requests, 100 at once" {
		t.Errorf("request 101: %v", err)
	}
	passed := 0
	for i := range 4000 { // four seconds; a bucket must not be forgotten before it is full
		if l.take("u", 1, now.Add(time.Duration(i+1)*time.Millisecond), h) == nil {
			passed++
		}
	}
	if passed < 79 || passed > 80 {
		t.Errorf("%d requests in four seconds", passed)
	}
	now = now.Add(9 * time.Second)
	for i := range 100 {
		if err := l.take("u", 1, now, h); err != nil {
			t.Fatalf("after a pause, request %d: %v", i, err)
		}
	}
}

func TestRatesAreRead(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"500/s", "1/h", "1000000000/m", "20/s:100", "5/s:1", "1/h:1000000", "16777216/h:4194304", "off"} {
		var l RateLimit
		if err := l.UnmarshalText([]byte(good)); err != nil || l.String() != good {
			t.Errorf("%s: %v, %v", good, l, err)
		}
		if r := newRates(l, "key", "%s"); l.Requests > 0 && r.period <= 0 {
			t.Errorf("%s: a bucket fills in %v", good, r.period)
		}
	}
	for _, bad := range []string{"20", "20/d", "0/s", "-1/s", "20/s:", "20/s:0", "20/s:-5", "20/s:1000000001", "1/h:1000000000", "20/s:x", "20:100", "20/s:5:5", "off:5"} {
		if err := new(RateLimit).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
