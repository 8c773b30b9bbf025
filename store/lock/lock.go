package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/wake"
)

// Options configure a Locker. Every field may stay zero.
type Options struct {
	// Name separates the locks of one use from those of another; default "lock".
	Name string
	// Lease is how long a lock stays with a holder that does not renew it;
	// default 30 s. Any time from 1 ms on works.
	Lease time.Duration
	// Retention is how long a lock is remembered after its last change: its tombstone, or the
	// attempts and fence of a free lock. Default 1 h. It must not be shorter than the longest time
	// after which the same work may come again.
	Retention time.Duration
	// MaxAttempts is after how many counted attempts a lock is exhausted;
	// default 8.
	MaxAttempts int
}

// Status is the status of a lock for a contender.
type Status int

// The statuses; lock_acquire.lua has the same numbers.
const (
	// Acquired: the caller holds the lock.
	Acquired Status = 1
	// Held: another caller holds it.
	Held Status = 2
	// Done: the work was done. The lock remembers that for the retention.
	Done Status = 3
	// Exhausted: all attempts were used up.
	Exhausted Status = 4
	// Reused: another request of the same name holds the lock (only TryAs and WaitAs).
	Reused Status = 5
	// OtherAttempts: the first acquire had another number of attempts (only TryAs and WaitAs).
	OtherAttempts Status = 6
)

// String names a status for people.
func (s Status) String() string {
	return [...]string{"?", "acquired", "held", "done", "exhausted", "reused", "other attempts"}[s]
}

// Answer is the answer to a contender.
type Answer struct {
	Status Status
	// Attempt is the number of the present attempt, from 1 (Acquired, Held).
	Attempt int
	// Left is how long the holder's lease lasts (Acquired, Held).
	Left time.Duration
	// Repeated says that the same request got this hold before (Acquired).
	Repeated bool
	// First is true for exactly one contender: the first one that learns that the attempts are used
	// up (Exhausted).
	First bool
	// MaxAttempts is the number of attempts that the first acquire had (OtherAttempts).
	MaxAttempts int
	// Lease is the hold (Acquired).
	Lease *Lease
}

// Locker acquires locks of one name. It may be used from any goroutine.
type Locker struct {
	db                  *redisdb.DB
	o                   Options
	acquire, renew, end *redisdb.Script
	look                *redisdb.Script
	handOvers           *wake.Line
}

// New makes a Locker. It starts nothing and does not connect.
func New(db *redisdb.DB, o Options) *Locker {
	o.Name = cmp.Or(o.Name, "lock")
	o = o.or(Options{Lease: defaultLease, Retention: defaultRetention, MaxAttempts: defaultMaxAttempts})
	get := func(name string) *redisdb.Script { return redisdb.MustScript(Lua, "lua/"+name+".lua") }
	l := &Locker{db: db, o: o, acquire: get("lock_acquire"), renew: get("lock_renew"), end: get("lock_end"), look: get("lock_look")}
	l.handOvers = wake.NewLine(db.Blocking())
	return l
}

// or fills the fields that are zero from other options.
func (o Options) or(other Options) Options {
	o.Lease = max(cmp.Or(o.Lease, other.Lease), time.Millisecond)
	o.Retention = cmp.Or(o.Retention, other.Retention)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, other.MaxAttempts)
	return o
}

// With is a Locker of the same locks with other options. Fields that are zero stay as they are with l, and so does the
// name. All of them share one connection for waiters.
func (l *Locker) With(o Options) *Locker {
	other := *l
	name := l.o.Name
	other.o = o.or(l.o)
	other.o.Name = name
	return &other
}

// TryAcquire asks once, in one round trip, for the lock of an identifier (as
// api.ValidIdentifier). If the answer does not arrive, because ctx ends or the connection
// breaks, a hold that Redis may have given is released, uncounted.
func (l *Locker) TryAcquire(ctx context.Context, id string) (Answer, error) {
	return l.try(ctx, id, newRequest())
}

// newRequest makes the id of a request. A repeat by the client has the same id.
func newRequest() string {
	var b [9]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (l *Locker) try(ctx context.Context, id, request string) (Answer, error) {
	a, err := l.ask(ctx, id, request, false)
	if api.CodeOf(err) == api.CodeUnknownOutcome {
		go l.giveBack(context.WithoutCancel(ctx), id, request)
	}
	return a, err
}

// ask asks once. named: the request has a name, and its number of attempts holds for all that follow.
func (l *Locker) ask(ctx context.Context, id, request string, named bool) (Answer, error) {
	if !api.ValidIdentifier(id) {
		return Answer{}, api.Invalid("id", "identifier", "of a lock must be 1 to %d bytes of A-Z a-z 0-9 . _ : @ -", api.MaxIdentifier)
	}
	fixed := 0
	if named {
		fixed = 1
	}
	sent := time.Now() // before the round trip, so that the lease never seems longer than it is
	value, err := l.db.Eval(ctx, redisdb.Write, l.acquire, []string{l.key(id)}, request,
		ms(l.o.Lease), l.o.MaxAttempts, ms(l.o.Retention), fixed)
	if err != nil {
		return Answer{}, fmt.Errorf("acquire lock %s: %w", id, err)
	}
	return l.answer(id, sent, value.([]any)), nil
}

// giveBack releases the hold that a request may have got although its caller was cancelled or
// the answer was lost. It tries once; if that fails, the lease ends by itself.
func (l *Locker) giveBack(ctx context.Context, id, request string) {
	ctx, cancel := context.WithTimeout(ctx, 2*l.db.Timeout()) // the lost request may still be under way
	defer cancel()
	_, _ = l.db.Eval(ctx, redisdb.Write, l.end, []string{l.key(id)}, request, outcomeRelease, ms(l.o.Retention), l.channel(id))
}

func (l *Locker) answer(id string, sent time.Time, v []any) Answer {
	a := Answer{Status: Status(redisdb.Number(v[0]))}
	switch a.Status {
	case Acquired:
		a.Attempt, a.Left = int(redisdb.Number(v[1])), time.Duration(redisdb.Number(v[3]))*time.Millisecond
		a.Repeated = redisdb.Number(v[4]) == 1
		fence, _ := v[2].(string)
		a.Lease = newLease(l, id, fence, a.Attempt, sent.Add(a.Left))
	case Held:
		a.Attempt, a.Left = int(redisdb.Number(v[1])), time.Duration(redisdb.Number(v[2]))*time.Millisecond
	case Exhausted:
		a.First = redisdb.Number(v[1]) == 1
	case OtherAttempts:
		a.MaxAttempts = int(redisdb.Number(v[1]))
	}
	return a
}

// ms is a duration in milliseconds, at least 1.
func ms(d time.Duration) int64 { return max(1, d.Milliseconds()) }

// parseFence reads a fence, which a script gives as text.
func parseFence(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
