package stock

import (
	"math"
	"strconv"
	"testing"
)

// What Redis has as text is read as the number that was written, whatever its sign.
func TestNumbersFromText(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, -1, -62135596800000, 253402300799999, math.MaxInt64, math.MinInt64} {
		if got := integer([]any{strconv.FormatInt(n, 10)}, 0); got != n {
			t.Errorf("%d is read as %d", n, got)
		}
	}
	if got := integer([]any{nil}, 0); got != 0 {
		t.Errorf("nothing is read as %d", got)
	}
}
