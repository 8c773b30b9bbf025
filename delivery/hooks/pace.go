package hooks

import (
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// firstBackoff is the longest wait after the first failure. It doubles with each further one, up to maxBackoff.
	firstBackoff = time.Second
	maxBackoff   = 15 * time.Minute
	// maxRefusals is how often a fact may be refused alone.
	maxRefusals = 3
)

// verdict is what an answer means.
type verdict int

const (
	taken   verdict = iota // the receiver has the facts
	refused                // the same facts will be refused again
	gone                   // the receiver wants no facts any more
	failed                 // the same request may succeed later
)

// Outcomes are the names of what answers mean, by verdict.
var Outcomes = [...]string{taken: "taken", refused: "refused", gone: "gone", failed: "failed"}

// verdict tells what an answer means. A redirect is a failure: it is not followed.
func (a answer) verdict() verdict {
	switch {
	case a.status/100 == 2:
		return taken
	case a.status == http.StatusGone:
		return gone
	case a.status/100 != 4:
		return failed
	}
	switch a.status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return failed
	}
	return refused
}

// action is what a lane does after an answer.
type action int

const (
	advance action = iota // go on after the facts
	again                 // send the facts, or the first half of them, once more
	giveUp                // put the only fact aside, and go on after it
	end                   // turn the webhook off
)

// pace decides how a lane of a webhook goes on after each answer. The zero value has seen none.
type pace struct {
	half     int    // how many facts a batch has at most after a refusal; 0: as many as the webhook wants
	failures int    // in a row, which count for the backoff
	alone    string // the fact that was refused alone
	refusals int    // how often
}

// most is how many facts the next batch has at most.
func (p *pace) most(wanted int) int {
	if p.half == 0 {
		return wanted
	}
	return min(p.half, wanted)
}

// failing reports whether nothing was taken since the last failure.
func (p *pace) failing() bool { return p.failures > 0 }

// next says what to do after the answer to a batch of some facts, of which the first has an id, and how long to wait
// before the next request.
//
// A refused batch is sent again by halves, so that one fact that the receiver cannot take is found. That is no reason to
// wait long: the next request is another one. When the receiver takes facts again, batches double.
func (p *pace) next(a answer, facts int, first string) (action, time.Duration) {
	switch a.verdict() {
	case taken:
		p.failures, p.refusals, p.alone = 0, 0, ""
		if p.half *= 2; p.half > maxFacts {
			p.half = 0
		}
		return advance, 0
	case gone:
		return end, 0
	case refused:
		if facts > 1 {
			p.half = facts / 2
			return again, max(a.asked, jitter(firstBackoff))
		}
		if p.alone != first {
			p.alone, p.refusals = first, 0
		}
		p.half = 1
		if p.refusals++; p.refusals == maxRefusals {
			p.alone, p.refusals = "", 0
			return giveUp, p.backOff(a.asked)
		}
	}
	return again, p.backOff(a.asked)
}

// backOff is the wait after one more failure: with full jitter, and at least as long as the receiver asked for.
func (p *pace) backOff(asked time.Duration) time.Duration {
	limit := firstBackoff << min(p.failures, 10)
	p.failures++
	return max(asked, jitter(min(limit, maxBackoff)))
}

// jitter is a random part of d.
func jitter(d time.Duration) time.Duration { return rand.N(d) }
