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

// Of several masters whose clocks differ the middle one counts, wherever in time each was
// read.
func TestMiddleClock(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var all []clockReading
	for i, wrong := range []time.Duration{time.Hour, time.Second, -time.Minute, 0, 2 * time.Second} {
		at := began.Add(time.Duration(i) * 10 * time.Second)
		all = append(all, clockReading{told: at.Add(wrong), at: at})
	}
	if got := middle(all); got.told.Sub(got.at) != time.Second {
		t.Errorf("the clock that is %v ahead, want that of 1s", got.told.Sub(got.at))
	}
}
