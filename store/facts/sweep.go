package facts

import (
	"context"
	"time"
)

// Each process moves the facts that its own steps have left, at once. Sweeps look at all outboxes, and find the facts of a process that
// died before it moved them. The processes sweep in turns: the one that asks first when a turn is over has the next one. So the sweeps
// cost the same however many processes there are, and if a process dies in its turn, another one sweeps when that is over.

const (
	// sweepEvery is how often the outboxes are looked at that may have facts of types that are told, and restEvery how often all are.
	sweepEvery, restEvery = 700 * time.Millisecond, 30 * time.Second
	// heldUpEvery is how often a process looks, without waiting for its turn, while it could not move some facts: each time, it reads
	// the same facts again.
	heldUpEvery = 3 * time.Second
)

// sweep is one kind of sweep, as a process knows it.
type sweep struct {
	name  string // names the key of its turn
	every time.Duration
	all   bool      // it looks at all outboxes, also while no type is told
	next  time.Time // when this process asks for the turn again
}

// begin begins a sweep if it is due and this process has the turn: it notes that something may be left in the outboxes. If the process
// cannot ask for the turn, it looks anyway, because only the master with the turn may be away.
func (s *Store) begin(ctx context.Context, w *sweep, heldUp bool) bool {
	now := time.Now()
	if now.Before(w.next) {
		return false
	}
	w.next = now.Add(w.every)
	if !w.all && !s.tells() {
		return false // it is asked again soon: a type may be turned on
	}
	if heldUp {
		w.next = now.Add(max(w.every, heldUpEvery))
	} else if mine, again, err := s.o.DB.Turn(ctx, s.turn(w.name), w.every); err == nil {
		if w.next = now.Add(again); !mine {
			return false
		}
	}
	s.markAll(w.all)
	return true
}

// markAll notes that something may be left in any outbox, or only in those that may have facts of types that are told now.
func (s *Store) markAll(resting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.o.Outboxes {
		if resting || o.Type == "" || s.o.On(o.Type) {
			s.dirty[o] = true
		}
	}
}
