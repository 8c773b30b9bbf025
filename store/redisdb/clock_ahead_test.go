package redisdb

import (
	"testing"
	"time"
)

// A clock is compared with the middle of the time in which it was read.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	asked := time.Now()
	for told, want := range map[time.Duration]time.Duration{
		time.Second: 0, 3 * time.Second: -2 * time.Second, -time.Minute: 61 * time.Second,
	} {
		if got := clockAhead(asked, asked.Add(2*time.Second), asked.Add(told).Round(0)); (got - want).Abs() > time.Millisecond {
			t.Errorf("told %v: ahead by %v, want %v", told, got, want)
		}
	}
}
