package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// killed are two processes that are killed in turns.
type killed struct {
	t       *testing.T
	vars    []string
	mu      sync.Mutex
	servers []*program
	kills   int
}

func newKilled(t *testing.T, vars []string) *killed {
	t.Helper()
	return &killed{t: t, vars: vars, servers: mustServeMany(t, 2, vars...)}
}

// now are the processes that run now.
func (k *killed) now() []*program {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.servers)
}

// insist makes a call until it succeeds, of one process after the other.
func (k *killed) insist(i int, method, path string, body any, header ...string) error {
	return k.insistOver(0, i, method, path, body, header...)
}

// insistOver repeats the call also after an answer with a status that is passing here.
func (k *killed) insistOver(passing, i int, method, path string, body any, header ...string) error {
	deadline := time.Now().Add(2 * time.Minute)
	for attempt := 0; ; attempt++ {
		all := k.now()
		status, answer, err := all[(i+attempt)%len(all)].try(method, path, body, header...)
		if err == nil && status < 300 {
			return nil
		}
		if err == nil && status < 500 && status != passing || time.Now().After(deadline) {
			return fmt.Errorf("%s %s: %v %d %s", method, path, err, status, answer)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// run reads facts while work runs, and kills a process every second or so.
func (k *killed) run(f *told, work func() error) {
	k.t.Helper()
	done := make(chan error, 1)
	go func() { done <- work() }()
	for next, over := time.Now().Add(time.Second), false; !over; {
		select {
		case err := <-done:
			storetest.Must(k.t, err)
			over = true
		default:
			f.read(k.t, k.now()[rand.IntN(2)], 200*time.Millisecond)
		}
		if time.Now().After(next) && k.kills < 6 {
			victim := k.kills % 2
			k.now()[victim].kill()
			fresh := mustServeMany(k.t, 1, k.vars...)[0]
			k.mu.Lock()
			k.servers[victim] = fresh
			k.mu.Unlock()
			k.kills++
			next = time.Now().Add(time.Duration(500+rand.IntN(1500)) * time.Millisecond)
		}
	}
	if k.kills < 2 {
		k.t.Error("too few kills")
	}
}
