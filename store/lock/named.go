package lock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Request is an acquire that its caller may repeat: a repeat gets the same hold while its lease lasts. With another
// Body the same Name is answered Reused. Neither may have a dot. Without a Body nobody repeats it, and a hold whose
// answer was lost is given back.
type Request struct{ Name, Body string }

// NewRequest is a request that nobody repeats.
func NewRequest() Request { return Request{Name: newRequest()} }

func (r Request) text() string { return r.Name + "." + r.Body }

// TryAs asks once for a lock, as a request. The number of attempts is that of the first acquire: another one is
// answered OtherAttempts for as long as the lock is remembered. While Redis is nearly full, the error is overloaded.
func (l *Locker) TryAs(ctx context.Context, id string, r Request) (Answer, error) {
	if err := l.db.Overloaded(); err != nil {
		return Answer{}, err
	}
	a, err := l.ask(ctx, id, r.text(), true)
	if r.Body == "" && api.CodeOf(err) == api.CodeUnknownOutcome {
		go l.giveBack(context.WithoutCancel(ctx), id, r.text())
	}
	return a, err
}

// WaitAs waits for a contender that was answered Held, as Acquire does. When ctx ends first, the answer is the last
// one, Held, and no error.
func (l *Locker) WaitAs(ctx context.Context, id string, r Request, held Answer) (Answer, error) {
	until := time.Now().Add(held.Left)
	a, err := l.wait(ctx, id, held, func() (Answer, error) {
		// The end of the wait must not take the answer of a try that is under way.
		a, err := l.TryAs(context.WithoutCancel(ctx), id, r)
		until = time.Now().Add(a.Left)
		return a, err
	})
	if a.Status == Held && ctx.Err() != nil {
		a.Left, err = max(time.Until(until), 0), nil
	}
	return a, err
}

// Token is what a holder must keep to use its lease from another process: see Resume. It is no secret.
func (l *Lease) Token() string {
	o := &l.locker.o
	return strings.Join([]string{l.text, strconv.Itoa(l.Attempt), strconv.FormatInt(ms(o.Lease), 10), strconv.FormatInt(ms(o.Retention), 10)}, ".")
}

// Resume makes a lease from its Token. The methods of the lease tell whether it is lost. Alive and Left mean nothing
// before it is renewed. ok is false for a text that is no token.
func (l *Locker) Resume(id, token string) (lease *Lease, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 4 || !api.ValidIdentifier(id) {
		return nil, false
	}
	var numbers [4]int64
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 1 || strconv.FormatInt(n, 10) != part {
			return nil, false
		}
		numbers[i] = n
	}
	if numbers[2] > ms(api.MaxLockLease) || numbers[3] > ms(api.MaxLockRetention) {
		return nil, false
	}
	of := l.With(Options{Lease: time.Duration(numbers[2]) * time.Millisecond, Retention: time.Duration(numbers[3]) * time.Millisecond})
	return newLease(of, id, parts[0], int(numbers[1]), time.Now()), true
}

// State is what a lock's record says.
type State struct {
	// Status is Held, Done, Exhausted, or 0 for a lock that is free.
	Status Status
	// Attempt is the number of the present attempt (Held), or of those that were counted (free).
	Attempt int
	// Left is how long the holder's lease lasts (Held).
	Left time.Duration
	// Fence is the last one that was given out; 0: none that is remembered.
	Fence int64
}

// Look reads the state of a lock and changes nothing. A lock that was never acquired is free.
func (l *Locker) Look(ctx context.Context, id string) (s State, err error) {
	value, err := l.db.Eval(ctx, redisdb.Read, l.look, []string{l.key(id)})
	if err != nil {
		return State{}, fmt.Errorf("look at lock %s: %w", id, err)
	}
	v := value.([]any)
	s = State{Status: Status(redisdb.NumberAt(v, 0)), Attempt: int(redisdb.NumberAt(v, 1)), Left: time.Duration(redisdb.NumberAt(v, 2)) * time.Millisecond}
	s.Fence = parseFence(redisdb.TextAt(v, 3))
	return s, nil
}
