package fanfare

import (
	"context"
	"net/http"
	"time"
)

// LockOptions says how a lock is acquired. The zero value does not wait.
type LockOptions struct {
	Lease       time.Duration // how long the hold lasts unless it is renewed; 30 s by default
	Wait        time.Duration // how long to wait for the lock; at most 30 s
	MaxAttempts int64         // how many attempts may fail; 8 by default
	Retention   time.Duration // how long it is remembered that the work is done; 1 h by default
}

// LockHold is a lock that is held. Count its lease from before the call that began or renewed it.
type LockHold struct {
	Token   string `json:"token"`
	Fence   int64  `json:"fence"` // higher than that of every earlier hold
	Attempt int    `json:"attempt"`
	LeaseMS int64  `json:"lease_ms"`
}

// AcquireLock acquires a lock. Its problems are lock_held, lock_done and lock_exhausted.
func (c *Client) AcquireLock(ctx context.Context, lock string, o LockOptions, s ...Setting) (hold LockHold, err error) {
	body := map[string]int64{}
	for name, n := range map[string]int64{
		"lease_ms": o.Lease.Milliseconds(), "wait_ms": o.Wait.Milliseconds(), "max_attempts": o.MaxAttempts, "retention_ms": o.Retention.Milliseconds(),
	} {
		if n != 0 {
			body[name] = n
		}
	}
	s = append([]Setting{Timeout(c.o.Timeout + o.Wait)}, s...)
	err = c.Call(ctx, http.MethodPost, Path("v1", "locks", lock, "acquire"), body, &hold, s...)
	return hold, err
}

// RenewLock begins the lease again. A hold that has ended is the problem lock_lost: then write nothing more.
func (c *Client) RenewLock(ctx context.Context, lock, token string, s ...Setting) (hold LockHold, err error) {
	err = c.holder(ctx, lock, "renew", token, &hold, s)
	return hold, err
}

// FinishLock says that the work is done, so that nobody acquires the lock as long as that is remembered.
func (c *Client) FinishLock(ctx context.Context, lock, token string, s ...Setting) error {
	return c.holder(ctx, lock, "done", token, nil, s)
}

// FailLock says that this attempt failed, and frees the lock.
func (c *Client) FailLock(ctx context.Context, lock, token string, s ...Setting) error {
	return c.holder(ctx, lock, "fail", token, nil, s)
}

// ReleaseLock frees the lock without counting an attempt.
func (c *Client) ReleaseLock(ctx context.Context, lock, token string, s ...Setting) error {
	return c.holder(ctx, lock, "release", token, nil, s)
}

func (c *Client) holder(ctx context.Context, lock, how, token string, answer any, s []Setting) error {
	return c.Call(ctx, http.MethodPost, Path("v1", "locks", lock, how), map[string]string{"token": token}, answer, s...)
}
