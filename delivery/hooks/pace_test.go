package hooks

import (
	"fmt"
	"testing"
	"time"
)

// H5: what each answer means.
func TestH5_Verdicts(t *testing.T) {
	t.Parallel()
	for status := range 600 {
		want := failed
		switch {
		case status/100 == 2:
			want = taken
		case status == 410:
			want = gone
		case status == 408, status == 425, status == 429:
		case status/100 == 4:
			want = refused
		}
		if got := (answer{status: status}).verdict(); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
}

// H5: the wait after a failure is random, up to a limit that doubles from 1 s to 15 min, and at least what the receiver
// asks for. A success ends it.
func TestH5_Backoff(t *testing.T) {
	t.Parallel()
	for n, limit := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second,
		128 * time.Second, 256 * time.Second, 512 * time.Second, 15 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
		var longest time.Duration
		for range 200 {
			p := pace{failures: n}
			do, wait := p.next(answer{}, 10, "a")
			if do != again || wait < 0 || wait >= limit || p.most(10) != 10 {
				t.Fatalf("failure %d: %v %v", n+1, do, wait)
			}
			longest = max(longest, wait)
		}
		if longest < limit/2 {
			t.Errorf("failure %d: at most %v of %v", n+1, longest, limit)
		}
	}
	p := pace{failures: 100}
	if _, wait := p.next(answer{status: 503, asked: maxBackoff}, 1, "a"); wait < maxBackoff {
		t.Errorf("waits %v", wait)
	}
	if do, wait := p.next(answer{status: 200}, 1, "a"); do != advance || wait != 0 || p.failing() {
		t.Errorf("%v %v %+v", do, wait, p)
	}
}

// H5: a refused batch is sent by halves, down to the fact that is refused; after three refusals it is passed over. What
// is taken then makes batches grow again.
func TestH5_HalvesAndThreeRefusals(t *testing.T) {
	t.Parallel()
	const wanted, poison = 100, 37
	var p pace
	at, tries, passed := 0, 0, -1
	for requests := 0; at < 1000; requests++ {
		if requests > 200 {
			t.Fatalf("%d requests, at %d: %+v", requests, at, p)
		}
		most := p.most(wanted)
		if most < 1 || most > wanted {
			t.Fatalf("a batch of %d", most)
		}
		a := answer{status: 200}
		if at <= poison && poison < at+most {
			a.status = 422
			if most == 1 {
				tries++
			}
		}
		do, wait := p.next(a, most, fmt.Sprint(at))
		switch do {
		case advance:
			at += most
		case giveUp:
			passed, at = at, at+1
		case again:
			if most > 1 && wait >= firstBackoff {
				t.Errorf("waits %v before the half", wait)
			}
		}
	}
	if passed != poison || tries != maxRefusals || p.most(wanted) != wanted {
		t.Errorf("passed %d after %d refusals, then %+v", passed, tries, p)
	}
}

// H5: three refusals are of one fact, and failures in between do not count.
func TestH5_RefusalsOfOneFact(t *testing.T) {
	t.Parallel()
	var p pace
	refusal, failure := answer{status: 400}, answer{status: 500}
	for i, step := range []struct {
		a     answer
		first string
		want  action
	}{{refusal, "a", again}, {refusal, "a", again}, {refusal, "b", again}, {failure, "b", again}, {refusal, "b", again}, {answer{status: 429}, "b", again}, {refusal, "b", giveUp}, {refusal, "c", again}} {
		if do, _ := p.next(step.a, 1, step.first); do != step.want {
			t.Errorf("step %d: %v", i, do)
		}
	}
	if do, _ := p.next(answer{status: 410}, 1, "c"); do != end {
		t.Errorf("410: %v", do)
	}
}
