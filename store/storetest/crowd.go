package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
)

// Crowd makes calls that arrive in a certain order while a script is under way, so that the next
// script answers all of them.
type Crowd struct {
	t          testing.TB
	script     string
	scripts    atomic.Int64
	held, open chan struct{} // closed when the first script waits; closed when it may run
	all        sync.WaitGroup
}

// NewCrowd makes a crowd of callers of the script with this name. Its Fault holds up the first run.
func NewCrowd(t testing.TB, script string) *Crowd {
	return &Crowd{t: t, script: script, held: make(chan struct{}), open: make(chan struct{})}
}

// Fault is the Fault for Faulty.
func (c *Crowd) Fault(name string, answered bool) error {
	if name == c.script && !answered && c.scripts.Add(1) == 1 {
		close(c.held)
		<-c.open
	}
	return nil
}

// Add makes a call and returns when the call waits. The first call waits when its script is held
// up.
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

// Release is Open, and checks the number of scripts that ran.
func (c *Crowd) Release(scripts int64) {
	c.t.Helper()
	c.Open()
	if n := c.scripts.Load(); n != scripts {
		c.t.Errorf("%d scripts, want %d", n, scripts)
	}
}

// joined is a context that shows when its call has joined a crowd: then the call waits, also for
// the end of the context.
type joined struct {
	context.Context
	once *sync.Once
	told chan struct{}
}

// Done records that a call waits.
func (j joined) Done() <-chan struct{} {
	j.once.Do(func() { close(j.told) })
	return j.Context.Done()
}
