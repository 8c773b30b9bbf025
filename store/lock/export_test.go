package lock

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Key is the key of a lock.
func Key(l *Locker, id string) string { return l.key(id) }

// TryAgain is TryAcquire under a given request id, as a repeat by the client.
func TryAgain(ctx context.Context, l *Locker, id, request string) (Answer, error) {
	return l.try(ctx, id, request)
}

// HeldNow reads the record and compares its lease with Redis' time, changing
// nothing.
func HeldNow(ctx context.Context, l *Locker, id string) bool {
	until, held := Until(ctx, l, id)
	now, err := l.db.Client().Time(ctx).Result()
	return held && err == nil && now.Before(until)
}

// Until reads from the record when the holder's lease is over, by Redis' time.
func Until(ctx context.Context, l *Locker, id string) (until time.Time, held bool) {
	text, err := l.db.Client().Get(ctx, l.key(id)).Result()
	if err != nil || !strings.HasPrefix(text, "R:") {
		return time.Time{}, false
	}
	ms, _ := strconv.ParseInt(strings.Split(text, ":")[4], 10, 64)
	return time.UnixMilli(ms), true
}

// NameOf is a Locker's name.
func NameOf(l *Locker) string { return l.o.Name }

// Waiters counts who waits for a lock with a live subscription.
func Waiters(l *Locker, id string) int { return l.handOvers.Waiting(l.channel(id)) }
