package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// Crowd are calls that arrive in an order while a script is under way, so that one
// script answers them.
type Crowd struct {
	t          testing.TB
	script     string
	scripts    atomic.Int64
	held, open chan struct{} // the first script waits; it may run
	all        sync.WaitGroup
}

// NewCrowd makes a crowd of the callers of one script, by its name: its Fault holds up the
// first run.
func NewCrowd(t testing.TB, script string) *Crowd {
	return &Crowd{t: t, script: script, held: make(chan struct{}), open: make(chan struct{})}
}

// Fault is a Fault, for Faulty.
func (c *Crowd) Fault(name string, answered bool) error {
	if name == c.script && !answered && c.scripts.Add(1) == 1 {
		close(c.held)
		<-c.open
	}
	return nil
}

// Add makes a call and returns when it waits, the first when its script is held up.
func (c *Crowd) Add(ctx context.Context, call func(ctx context.Context)) {
	j := joined{ctx, new(sync.Once), make(chan struct{})}
	c.all.Go(func() { call(j) })
	<-j.told
	<-c.held
}

// Open lets the scripts run and waits for all answers.
func (c *Crowd) Open() {
	close(c.open)
	c.all.Wait()
}

// Release is Open, and checks how many scripts it took.
func (c *Crowd) Release(scripts int64) {
	c.t.Helper()
	c.Open()
	if n := c.scripts.Load(); n != scripts {
		c.t.Errorf("%d scripts, want %d", n, scripts)
	}
}

// joined is a context that tells when its call has joined a crowd: then the call
// waits, also for the context's end.
type joined struct {
	context.Context
	once *sync.Once
	told chan struct{}
}

// Done tells that somebody waits.
func (j joined) Done() <-chan struct{} {
	j.once.Do(func() { close(j.told) })
	return j.Context.Done()
}
