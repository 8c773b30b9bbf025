package storetest

import (
	"os"
	"testing"

	"pgregory.net/rapid"
)

// Full tells whether tests run at the size of what they hold: FANFARE_TEST_FULL=1. They
// are smaller by default, so that make test stays short.
func Full() bool { return os.Getenv("FANFARE_TEST_FULL") == "1" }

// Sized is a number of a promise, or without FANFARE_TEST_FULL its smaller stand-in.
func Sized(promise, otherwise int) int {
	if Full() {
		return promise
	}
	return otherwise
}

// CheckModel is rapid.Check with at most so many rounds. A failure is made smaller in as
// many as that takes.
func CheckModel(t *testing.T, rounds int, check func(*rapid.T)) {
	t.Helper()
	done, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if done++; done > rounds && !failed {
			return
		}
		defer func() { failed = failed || rt.Failed() }()
		check(rt)
	})
}
