//go:build !race

package targeting_test

import "time"

// raceEnabled says how large a measuring test may be, and aSecond what the
// second of a promise is for it: the race detector makes everything several
// times slower. The whole-program tests measure the program as it is shipped.
const (
	raceEnabled = false
	aSecond     = time.Second
)
