package storetest

import (
	"os"
	"testing"

	"pgregory.net/rapid"
)

// Full reports whether tests run at the full size of the promises (FANFARE_TEST_FULL=1). By default
// they are smaller, so that make test stays short.
func Full() bool { return os.Getenv("FANFARE_TEST_FULL") == "1" }

// Sized returns the number of a promise or, without FANFARE_TEST_FULL, a smaller one.
func Sized(promise, otherwise int) int {
	if Full() {
		return promise
	}
	return otherwise
}

// CheckModel is rapid.Check with at most the given number of rounds. To make a failing example
// smaller it may take more.
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
