package facts

import (
	"time"

	"fanfare/store/queue"
)

const (
	// defaultRetention is how long facts are kept, if there is room.
	defaultRetention = 7 * 24 * time.Hour
	// defaultMost is how many facts a lane keeps.
	defaultMost = 1_000_000
	// share is the share of Redis' maxmemory that all lanes may take, one part in so many.
	share = 20
	// remembered is how long a lane remembers which fact it got last from an outbox. After that time it cannot tell whether an older
	// fact in the outbox was moved, and drops it.
	remembered = 30 * 24 * time.Hour
	// channel is where each new fact is announced.
	channel = "ff:facts"
)

// keys are the keys of the scripts of a lane: one whose prefix begins the names of all others, and one that never exists.
func (s *Store) keys(lane int) []string {
	return []string{s.o.Events.KeyBeside(lane, "jobs"), s.o.Events.KeyBeside(lane, "never")}
}

// lane has the facts of a lane.
func (s *Store) lane(n int) string { return s.o.Events.KeyBeside(n, "facts") }

// last has the id of the last fact of a lane.
func (s *Store) last(n int) string { return s.o.Events.KeyBeside(n, "facts:last") }

// from has the last id that a lane got from each outbox.
func (s *Store) from(n int) string { return s.o.Events.KeyBeside(n, "facts:from") }

// turn says which process has the turn of a sweep.
func (s *Store) turn(sweep string) string { return s.o.Events.KeyBeside(0, "facts:turn:"+sweep) }

// outboxKey names the outbox of a shard: the facts that its steps have left for lanes of other slots.
func outboxKey(q *queue.Queue, shard int) string { return q.KeyBeside(shard, "facts:out") }
