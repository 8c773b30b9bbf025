package targeting

import (
	"errors"
	"fmt"
	"testing"

	"fanfare/api"
	"fanfare/store/queue"
)

func TestDeferOrRetry(t *testing.T) {
	t.Parallel()
	for want, err := range map[queue.Outcome]error{
		queue.Defer: api.Errorf(api.CodeUnavailable, "x"), queue.Retry: errors.New("our own fault"), queue.Dead: fmt.Errorf("%w: x", errNoPager),
	} {
		if got := deferOrRetry("r", err).Outcome; got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// TestP6_FewPartsAskSQL: if too many parts ask SQL already, further parts wait. The first ones
// always go on.
func TestP6_FewPartsAskSQL(t *testing.T) {
	t.Parallel()
	var s sqlPages
	if !s.addParts(10, 5) || s.addParts(1, 5) {
		t.Error("the first parts wait, or others do not")
	}
	s.addParts(-10, 0)
	if !s.addParts(3, 5) || !s.addParts(2, 5) || s.addParts(1, 5) {
		t.Error("more or fewer than five parts ask SQL at a time")
	}
}
