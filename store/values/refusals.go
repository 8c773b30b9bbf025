package values

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"fanfare/api"
)

const (
	// refusalTime is how old a refusal from memory may be.
	refusalTime = 100 * time.Millisecond
	// maxRefusals bounds the refusals that are remembered at once. A full map is emptied.
	maxRefusals = 10_000
)

// refusals remembers which adds a bound has refused, so that a counter at its bound does not ask Redis for each of
// thousands of callers. Each of its answers was true at most 100 ms ago.
type refusals struct {
	mu  sync.Mutex
	all map[direction]refusal
}

// direction is a counter and a sign.
type direction struct {
	name string
	down bool
}

// refusal says that an add of so much, or more, was refused.
type refusal struct {
	by, value int64
	until     time.Time
}

func newRefusals() *refusals { return &refusals{all: map[direction]refusal{}} }

// find refuses an add if one that was not larger was refused a moment ago.
func (r *refusals) find(name string, delta int64, saturate bool) error {
	if saturate {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.all[direction{name, delta < 0}]
	if !ok || max(delta, -delta) < known.by || !time.Now().Before(known.until) {
		return nil
	}
	return outOfBounds(known.value)
}

// learn takes over what a run has shown. A change of a counter ends what was known of it.
func (r *refusals) learn(asked time.Time, calls []*call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range calls {
		switch {
		case c.err == nil && c.status == beyond:
			r.put(asked, c)
		case c.err != nil, c.status == done: // an outcome that is not known may be a change
			delete(r.all, direction{c.name, true})
			delete(r.all, direction{c.name, false})
		}
	}
}

// put remembers a refusal, unless the counter is one that asks Redis each time.
func (r *refusals) put(asked time.Time, c *call) {
	value, near, _ := strings.Cut(c.rest, ",")
	n, err := strconv.ParseInt(value, 10, 64)
	delta, ok := c.args[0].(int64)
	if near == api.LocalOff || err != nil || !ok {
		return
	}
	if len(r.all) >= maxRefusals {
		clear(r.all)
	}
	r.all[direction{c.name, delta < 0}] = refusal{by: max(delta, -delta), value: n, until: asked.Add(refusalTime)}
}
