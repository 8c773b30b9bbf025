package storetest

import (
	"slices"
	"testing"
	"time"
)

const (
	// inTimeWanted is how many rounds of InTime have to be in time, among inTimeRounds.
	inTimeWanted, inTimeRounds = 3, 8
)

// InTime fails the test unless what a round waits for comes within some time, again and again. Each round returns how long that took. It is
// enough if some of the rounds are in time: on a busy machine the others may be late. So the next round must begin when the one before it
// has ended: then what is looked at too seldom is late in each round.
func InTime(t testing.TB, within time.Duration, what string, round func(n int) time.Duration) {
	t.Helper()
	var took []time.Duration
	for n := range inTimeRounds {
		took = append(took, round(n))
		inTime := slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d > within })
		if len(inTime) == inTimeWanted {
			return
		}
	}
	t.Errorf("not within %v: %s: %v", within, what, took)
}
