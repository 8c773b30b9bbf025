package lock

import "time"

// Defaults, and the keys: one record per lock, each in a slot of its own.
const (
	defaultLease       = 30 * time.Second
	defaultRetention   = time.Hour
	defaultMaxAttempts = 8
)

func (l *Locker) key(id string) string { return "ff:{l:" + l.o.Name + ":" + id + "}" }

// channel tells waiters of a hand-over.
func (l *Locker) channel(id string) string { return l.key(id) + ":free" }
