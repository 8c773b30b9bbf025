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
	// remembered is how long a lane remembers which fact it got last from an outbox. A fact that could not be moved for so long is
	// dropped, because it may have been moved.
	remembered = 30 * 24 * time.Hour
	// channel tells of new facts.
	channel = "ff:facts"
)

// keys are those of the scripts of a lane: one whose prefix names all others, and one that never exists.
func (s *Store) keys(lane int) []string {
	return []string{s.o.Events.KeyBeside(lane, "jobs"), s.o.Events.KeyBeside(lane, "never")}
}

// lane has the facts of a lane.
func (s *Store) lane(n int) string { return s.o.Events.KeyBeside(n, "facts") }

// last has the id of the last fact of a lane.
func (s *Store) last(n int) string { return s.o.Events.KeyBeside(n, "facts:last") }

// from has the last id that a lane got from each outbox.
func (s *Store) from(n int) string { return s.o.Events.KeyBeside(n, "facts:from") }

// outboxKey has what the steps of a shard have left for other slots.
func outboxKey(q *queue.Queue, shard int) string { return q.KeyBeside(shard, "facts:out") }
