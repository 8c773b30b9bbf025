package lock

import "time"

// Defaults.
const (
	defaultLease       = 30 * time.Second
	defaultRetention   = time.Hour
	defaultMaxAttempts = 8
)

// key is the record of a lock. Each lock has a slot of its own.
func (l *Locker) key(id string) string { return "ff:{l:" + l.o.Name + ":" + id + "}" }

// channel tells waiters of a hand-over.
func (l *Locker) channel(id string) string { return l.key(id) + ":free" }
