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
