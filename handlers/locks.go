package handlers

import (
	"context"
	"encoding/base64"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/lock"
)

type acquireLockRequest struct {
	Lock        string `path:"lock" validate:"identifier"`
	Idempotency api.Idempotency
	Body        *api.LockAcquire
}

// acquireWaits reports whether an acquire may wait.
func acquireWaits(in *acquireLockRequest) bool { return in.Body != nil && in.Body.WaitMS > 0 }

// acquireLock acquires a lock.
//
//	@Summary		Acquire a lock
//	@Description	At most one caller holds a lock at a time, by Redis' clock, until it ends the hold or its lease is over. Attempts
//	@Description	are counted: one that fails, or whose lease ends, counts; one that is released does not. After `max_attempts` nobody
//	@Description	gets the lock any more (409 `lock_exhausted`), and after `done` neither (409 `lock_done`), for as long as that is
//	@Description	remembered. While another holds it: 409 `lock_held`; with `wait_ms` the call waits and is woken when the holder ends.
//	@Description	Count `lease_ms` from before the request was sent, and write nothing after it; after a wait, renew the lease before
//	@Description	you begin. Even so a holder can be paused between its look at the clock and its write: send `fence` along, and let what
//	@Description	is written to refuse a fence that is lower than the highest that it has seen. With an Idempotency-Key a repeat gets the same hold while its lease lasts. Without one,
//	@Description	a caller that hangs up while it waits leaves no hold and no attempt behind.
//	@Tags			locks
//	@ID				acquireLock
//	@Accept			json
//	@Produce		json
//	@Param			lock			path		string			true	"The lock"	example(report:2026-01)
//	@Param			Idempotency-Key	header		string			false	"Makes the call safe to repeat while its lease lasts"	minlength(1)	maxlength(255)
//	@Param			acquire			body		api.LockAcquire	false	"Lease, wait, attempts and retention"
//	@Success		200				{object}	api.LockHold	"The caller holds the lock"
//	@Header			200				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		409				{object}	api.Problem		"lock_held, lock_done, lock_exhausted"
//	@Failure		422				{object}	api.Problem		"validation_failed (also another `max_attempts` than that of the first acquire), idempotency_key_reused"
//	@Router			/v1/locks/{lock}/acquire [post]
func (s *server) acquireLock(ctx context.Context, in *acquireLockRequest) (*web.Reply[api.LockHold], error) {
	if in.Body == nil {
		in.Body = &api.LockAcquire{}
	}
	locker, request := s.o.Locks.With(lockOptions(in.Body)), lockRequest(in)
	a, err := locker.TryAs(ctx, in.Lock, request)
	if err == nil && a.Status == lock.Held && in.Body.WaitMS > 0 {
		waiting, cancel := s.web.WaitContext(ctx, time.Duration(in.Body.WaitMS)*time.Millisecond)
		a, err = locker.WaitAs(waiting, in.Lock, request, a)
		cancel()
	}
	if err != nil {
		return nil, err
	}
	if a.Status != lock.Acquired {
		return nil, lockRefusal(a)
	}
	err = s.mayKeep(ctx, in.Idempotency, func(brief context.Context) { _, _ = a.Lease.Release(brief) }) // otherwise its lease ends
	if err != nil {
		return nil, err
	}
	hold := &api.LockHold{Token: a.Lease.Token(), Fence: a.Lease.Fence, Attempt: a.Attempt, LeaseMS: a.Left.Milliseconds()}
	return web.OK(hold).Replayed(a.Repeated && in.Idempotency.Key != ""), nil
}

// mayKeep calls giveBack if the caller of a long poll has left in the meantime, or may not make the call any more. A caller
// with an Idempotency-Key may come again.
func (s *server) mayKeep(ctx context.Context, once api.Idempotency, giveBack func(context.Context)) error {
	err := s.web.StillAllowed(ctx)
	if err == nil && once.Key == "" {
		err = s.web.Left(ctx)
	}
	if err != nil {
		brief, cancel := s.web.Briefly(ctx)
		defer cancel()
		giveBack(brief)
	}
	return err
}

// lockOptions are what an acquire asks for. What it leaves out has the defaults of the Locker.
func lockOptions(b *api.LockAcquire) (o lock.Options) {
	if b.LeaseMS != nil {
		o.Lease = time.Duration(*b.LeaseMS) * time.Millisecond
	}
	if b.RetentionMS != nil {
		o.Retention = time.Duration(*b.RetentionMS) * time.Millisecond
	}
	if b.MaxAttempts != nil {
		o.MaxAttempts = int(*b.MaxAttempts)
	}
	return o
}

// lockRequest names an acquire by its Idempotency-Key.
func lockRequest(in *acquireLockRequest) lock.Request {
	i := in.Idempotency
	if i.Key == "" {
		return lock.NewRequest()
	}
	return lock.Request{Name: i.Name(), Body: base64.RawURLEncoding.EncodeToString(i.Body[:9])}
}

// lockRefusal is the error of a contender that did not get a lock.
func lockRefusal(a lock.Answer) error {
	switch a.Status {
	case lock.Held:
		e := api.Errorf(api.CodeLockHeld, "another holds the lock").With("attempt", a.Attempt)
		e.RetryAfter = max(a.Left, time.Millisecond)
		return e
	case lock.Done:
		return api.Errorf(api.CodeLockDone, "the work of this lock is done")
	case lock.Exhausted:
		return api.Errorf(api.CodeLockExhausted, "the attempts of this lock are used up").With("first", a.First)
	case lock.Reused:
		return api.IdempotencyReused()
	default:
		return api.Invalid("max_attempts", "equal", "must be %d, as of the first acquire", a.MaxAttempts)
	}
}

type lockHolderRequest struct {
	Lock        string `path:"lock" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.LockHolder
}

// renewLock renews a lease.
//
//	@Summary		Renew a lease
//	@Description	Extends the lease to its full time from now on, also if it is over, as long as nobody has acquired the lock since.
//	@Description	409 `lock_lost`: the caller must not go on. Renew at a third of the lease.
//	@Tags			locks
//	@ID				renewLock
//	@Accept			json
//	@Produce		json
//	@Param			lock			path		string			true	"The lock"	example(report:2026-01)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			holder			body		api.LockHolder	true	"The token of the hold"
//	@Success		200				{object}	api.LockHold	"The hold with its new lease"
//	@Failure		409				{object}	api.Problem		"lock_lost"
//	@Router			/v1/locks/{lock}/renew [post]
func (s *server) renewLock(ctx context.Context, in *lockHolderRequest) (*web.Reply[api.LockHold], error) {
	lease, err := s.endOrRenew(in, func(l *lock.Lease) (bool, error) { return l.Renew(ctx) })
	if err != nil {
		return nil, err
	}
	return web.OK(&api.LockHold{Token: in.Body.Token, Fence: lease.Fence, Attempt: lease.Attempt, LeaseMS: lease.Duration().Milliseconds()}), nil
}

// finishLock ends a hold whose work is done.
//
//	@Summary		The work is done
//	@Description	Nobody acquires the lock for the next `retention_ms`. The last holder's call is taken even after its lease, as long as
//	@Description	nobody has acquired the lock since. Repeating the call is safe.
//	@Tags			locks
//	@ID				finishLock
//	@Accept			json
//	@Produce		json
//	@Param			lock			path		string			true	"The lock"	example(report:2026-01)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			holder			body		api.LockHolder	true	"The token of the hold"
//	@Success		200				{object}	api.Lock		"Is done"
//	@Failure		409				{object}	api.Problem		"lock_lost"
//	@Router			/v1/locks/{lock}/done [post]
func (s *server) finishLock(ctx context.Context, in *lockHolderRequest) (*web.Reply[api.Lock], error) {
	return s.endLock(in, api.LockDone, func(l *lock.Lease) (bool, error) { return l.Done(ctx) })
}

// failLock ends a hold whose work failed.
//
//	@Summary		The work failed
//	@Description	Ends the hold. The attempt counts, and a waiting caller gets the lock at once. Repeating the call is safe.
//	@Tags			locks
//	@ID				failLock
//	@Accept			json
//	@Produce		json
//	@Param			lock			path		string			true	"The lock"	example(report:2026-01)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			holder			body		api.LockHolder	true	"The token of the hold"
//	@Success		200				{object}	api.Lock		"Is free"
//	@Failure		409				{object}	api.Problem		"lock_lost"
//	@Router			/v1/locks/{lock}/fail [post]
func (s *server) failLock(ctx context.Context, in *lockHolderRequest) (*web.Reply[api.Lock], error) {
	return s.endLock(in, api.LockFree, func(l *lock.Lease) (bool, error) { return l.Fail(ctx) })
}

// releaseLock gives a hold back.
//
//	@Summary		Release a lock
//	@Description	Ends the hold without a result: the attempt does not count, and a waiting caller gets the lock at once. Repeating
//	@Description	the call is safe.
//	@Tags			locks
//	@ID				releaseLock
//	@Accept			json
//	@Produce		json
//	@Param			lock			path		string			true	"The lock"	example(report:2026-01)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			holder			body		api.LockHolder	true	"The token of the hold"
//	@Success		200				{object}	api.Lock		"Is free"
//	@Failure		409				{object}	api.Problem		"lock_lost"
//	@Router			/v1/locks/{lock}/release [post]
func (s *server) releaseLock(ctx context.Context, in *lockHolderRequest) (*web.Reply[api.Lock], error) {
	return s.endLock(in, api.LockFree, func(l *lock.Lease) (bool, error) { return l.Release(ctx) })
}

// endLock ends a hold and answers with the state that follows.
func (s *server) endLock(in *lockHolderRequest, next api.LockState, end func(*lock.Lease) (bool, error)) (*web.Reply[api.Lock], error) {
	lease, err := s.endOrRenew(in, end)
	if err != nil {
		return nil, err
	}
	return web.OK(&api.Lock{State: next, Fence: lease.Fence}), nil
}

// endOrRenew makes a call for the hold of a token.
func (s *server) endOrRenew(in *lockHolderRequest, call func(*lock.Lease) (bool, error)) (*lock.Lease, error) {
	lease, ok := s.o.Locks.Resume(in.Lock, in.Body.Token)
	if !ok {
		return nil, api.Invalid("token", "token", "is not one that an acquire gave")
	}
	held, err := call(lease)
	if err == nil && !held {
		err = api.Errorf(api.CodeLockLost, "the lock is lost")
	}
	return lease, err
}

type getLockRequest struct {
	Lock string `path:"lock" validate:"identifier"`
}

// getLock reads the state of a lock.
//
//	@Summary		Read a lock
//	@Description	Says whether a lock is held, and by which attempt, whether its work is done, or its attempts are used up. A lock that
//	@Description	was never acquired, or that is no longer remembered, is free.
//	@Tags			locks
//	@ID				getLock
//	@Produce		json
//	@Param			lock	path		string		true	"The lock"	example(report:2026-01)
//	@Success		200		{object}	api.Lock	"The lock"
//	@Router			/v1/locks/{lock} [get]
func (s *server) getLock(ctx context.Context, in *getLockRequest) (*web.Reply[api.Lock], error) {
	state, err := s.o.Locks.Look(ctx, in.Lock)
	if err != nil {
		return nil, err
	}
	named := map[lock.Status]api.LockState{lock.Held: api.LockHeld, lock.Done: api.LockDone, lock.Exhausted: api.LockExhausted, 0: api.LockFree}
	return web.OK(&api.Lock{State: named[state.Status], Attempt: state.Attempt, LeaseMS: state.Left.Milliseconds(), Fence: state.Fence}), nil
}
