package lock

import (
	"context"
	"fmt"
	"time"

	"fanfare/store/wake"
)

// Acquire waits until the lock is acquired, done or exhausted, or until ctx ends. A waiter first
// subscribes and then tries, so that it misses no hand-over. It tries again at a hand-over or at
// the end of the holder's lease, whichever comes first. All waiters of a Locker share one
// connection. If Redis is away while it waits, that is an error.
func (l *Locker) Acquire(ctx context.Context, id string) (Answer, error) {
	a, err := l.TryAcquire(ctx, id)
	if err != nil || a.Status != Held {
		return a, err
	}
	return l.wait(ctx, id, a, func() (Answer, error) { return l.TryAcquire(ctx, id) })
}

// wait tries again and again for a contender that was answered Held.
func (l *Locker) wait(ctx context.Context, id string, a Answer, try func() (Answer, error)) (Answer, error) {
	told := l.handOvers.Join(ctx, l.channel(id))
	defer l.handOvers.Leave(l.channel(id), told)
	for a.Status == Held {
		err := wake.Await(ctx, told, a.Left+time.Millisecond)
		if err != nil {
			return a, fmt.Errorf("wait for lock %s: %w", id, err)
		}
		if a, err = try(); err != nil {
			return a, err
		}
	}
	return a, nil
}
