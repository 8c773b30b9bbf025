package delivery

import (
	"slices"
	"sync"
	"time"
)

const (
	// partPatience is how long a part waits for room to be sent in one hop.
	partPatience = 2 * time.Second
	// maxRefused bounds the events whose refusals are remembered.
	maxRefused = 1000
)

// refusals remember by event what a part asked for that found no room.
type refusals struct {
	mu    sync.Mutex
	rooms map[string][]room
}

// note remembers what was not to be had; nil: there was room.
func (r *refusals) note(event string, rooms []room) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(rooms) == 0 {
		delete(r.rooms, event)
		return
	}
	if r.rooms == nil || len(r.rooms) >= maxRefused {
		r.rooms = map[string][]room{} // what is forgotten costs one reading of settings
	}
	r.rooms[event] = rooms
}

// of is what a part of the event asked for, a copy.
func (r *refusals) of(event string) []room {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.rooms[event])
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
	rooms := t.refused.of(p.event())
	if len(rooms) == 0 || t.o.Delivery.slots.fits(partsShare, partsOf, rooms...) {
		return false
	}
	t.wait(p, noRoom)
	return true
}

// noRoom is why a part waits.
const noRoom = "its apps have too many sends under way"
