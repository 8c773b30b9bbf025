package lock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fanfare/store/lock"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// model is a lock in a few lines that are plainly right, beside the real one.
type model struct {
	t        *rapid.T
	l        *lock.Locker
	over     func() // ends the present lease, by hand
	state    string // free, held, over, done, exhausted
	failures int
	fence    int64
	holder   *lock.Lease
	ended    *lock.Lease // the last holder that gave up by itself
	old      []*lock.Lease
}

const modelAttempts = 4

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		rounds := storetest.Sized(100, 40)
		if db.Embedded() {
			rounds = storetest.Sized(100, 15) // its Lua is slow
		}
		storetest.CheckModel(t, rounds, func(rt *rapid.T) {
			l := setup(t, db, lock.Options{Lease: time.Hour, MaxAttempts: modelAttempts})
			m := &model{t: rt, l: l, state: "free"}
			m.over = func() {
				key := keyOf(l, "x")
				parts := strings.Split(db.Client().Get(context.Background(), key).Val(), ":")
				parts[4] = "1"
				db.Client().Set(context.Background(), key, strings.Join(parts, ":"), time.Hour)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"acquire": m.acquire, "renew": m.renew, "done": m.done, "fail": m.fail, "release": m.release,
				"leaseOver": m.leaseOver, "superseded": m.superseded,
			})
		})
	})
}

func (m *model) acquire(t *rapid.T) {
	want := map[string]lock.Status{"free": lock.Acquired, "over": lock.Acquired, "held": lock.Held, "done": lock.Done, "exhausted": lock.Exhausted}[m.state]
	if m.state == "over" {
		m.failures++
		m.drop()
	}
	first := m.state != "exhausted"
	if want == lock.Acquired && m.failures >= modelAttempts {
		want, m.state = lock.Exhausted, "exhausted"
	}
	a, err := m.l.TryAcquire(context.Background(), "x")
	if err != nil || a.Status != want {
		t.Fatalf("%v, %v, want %v of %+v", a.Status, err, want, m)
	}
	switch a.Status {
	case lock.Acquired:
		if a.Attempt != m.failures+1 || a.Lease.Fence <= m.fence {
			t.Fatalf("attempt %d, fence %d of %+v", a.Attempt, a.Lease.Fence, m)
		}
		m.drop()
		m.state, m.holder, m.fence = "held", a.Lease, a.Lease.Fence
	case lock.Held:
		if a.Attempt != m.failures+1 {
			t.Fatalf("attempt %d of %+v", a.Attempt, m)
		}
	case lock.Exhausted:
		if a.First != first {
			t.Fatalf("first %v of %+v", a.First, m)
		}
	}
}

// drop makes the holder a former one, for good.
func (m *model) drop() {
	for _, h := range []*lock.Lease{m.holder, m.ended} {
		if h != nil {
			m.old = append(m.old, h)
		}
	}
	m.holder, m.ended = nil, nil
}

// must checks what the holder is told; without a holder there is nothing to do.
func (m *model) must(t *rapid.T, f func(context.Context) (bool, error)) {
	if ok, err := f(context.Background()); err != nil || !ok {
		t.Fatalf("%v, %v of %+v", ok, err, m)
	}
}

func (m *model) needHolder(t *rapid.T) {
	if m.holder == nil {
		t.Skip("nobody holds it")
	}
}

func (m *model) renew(t *rapid.T) {
	m.needHolder(t)
	m.must(t, m.holder.Renew)
	m.state = "held"
}

func (m *model) done(t *rapid.T) {
	m.needHolder(t)
	m.must(t, m.holder.Done)
	m.must(t, m.holder.Done) // a repeat by the client
	m.drop()
	m.old = m.old[:len(m.old)-1]
	m.state = "done"
}

func (m *model) fail(t *rapid.T) {
	m.needHolder(t)
	m.must(t, m.holder.Fail)
	m.must(t, m.holder.Fail)
	m.failures++
	m.state, m.ended, m.holder = "free", m.holder, nil
}

func (m *model) release(t *rapid.T) {
	m.needHolder(t)
	m.must(t, m.holder.Release)
	m.must(t, m.holder.Release)
	m.state, m.ended, m.holder = "free", m.holder, nil
}

func (m *model) leaseOver(t *rapid.T) {
	m.needHolder(t)
	m.over()
	m.state = "over"
}

// superseded holders are told that they lost, and change nothing.
func (m *model) superseded(t *rapid.T) {
	if len(m.old) == 0 {
		t.Skip("none")
	}
	h := rapid.SampledFrom(m.old).Draw(t, "holder")
	for _, f := range []func(context.Context) (bool, error){h.Renew, h.Done, h.Fail, h.Release} {
		if ok, err := f(context.Background()); err != nil || ok {
			t.Fatalf("%v, %v of %+v", ok, err, m)
		}
	}
}
