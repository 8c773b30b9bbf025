package delivery

import (
	"sync"
	"time"
)

// rate counts in one slot per second, for the mean of the last minute.
type rate struct {
	mu    sync.Mutex
	slots [60]int64
	last  int64 // the newest slot's second
	since int64 // the first second counted
}

func (r *rate) add(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now.Unix())
	r.slots[now.Unix()%60]++
}

// mean is per second; before a minute has passed, over the time since the first.
func (r *rate) mean(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now.Unix())
	var sum int64
	for _, n := range r.slots {
		sum += n
	}
	return float64(sum) / float64(min(60, now.Unix()-r.since+1))
}

// forget clears the slots of seconds that have passed since the last call.
func (r *rate) forget(second int64) {
	if r.since == 0 {
		r.since, r.last = second, second
	}
	for s := max(r.last+1, second-59); s <= second; s++ {
		r.slots[s%60] = 0
	}
	r.last = max(r.last, second)
}
