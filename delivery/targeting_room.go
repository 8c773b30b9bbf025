package delivery

import (
	"sync"
	"time"
)

const (
	// partPatience is how long a part waits for room to be sent in one hop.
	partPatience = 2 * time.Second
	// maxRefused bounds the events of which the refused apps are remembered.
	maxRefused = 1000
)

// refusals remember by event the apps of a part that found no room, one for each device.
type refusals struct {
	mu   sync.Mutex
	apps map[string][]string
}

// note remembers apps without room; none: there was room.
func (r *refusals) note(event string, apps []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(apps) == 0 {
		delete(r.apps, event)
		return
	}
	if r.apps == nil || len(r.apps) >= maxRefused {
		r.apps = map[string][]string{} // what is forgotten costs one reading of settings
	}
	r.apps[event] = apps
}

func (r *refusals) of(event string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apps[event]
}

// patient tells whether a part waits for room rather than going in two hops.
func (p *page) patient() bool {
	return p.part() && p.c.Now.Sub(p.c.EnqueuedAt) < partPatience
}

// waitsForRoom lets a part wait, before anything is read for it, while there is still no
// room for as many devices of the same apps as a part of its event had.
func (t *Targeting) waitsForRoom(p *page) bool {
	if t.o.Delivery == nil || !p.c.First || !p.patient() {
		return false
	}
	apps := t.refused.of(p.event())
	if len(apps) == 0 || t.o.Delivery.slots.fits(partsShare, partsOf, apps...) {
		return false
	}
	t.wait(p, noRoom)
	return true
}

// noRoom is why a part waits.
const noRoom = "its apps have too many sends under way"
