//go:build race

package targeting_test

import "time"

// raceEnabled reduces the size of tests that measure, and aSecond is the bound for a promised
// second: the race detector makes everything several times slower. The tests of the whole program
// measure the shipped program.
const (
	raceEnabled = true
	aSecond     = 5 * time.Second
)
