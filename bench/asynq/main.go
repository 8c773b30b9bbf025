// Command asynq measures that queue, to compare with fanfare's: no-op jobs,
// enqueued and processed by one process. It is a module of its own, so that
// fanfare does not depend on asynq.
//
//	asynq singles ADDR DURATION   jobs a second, as {"rate": ...}
//	asynq pick-up ADDR DURATION   ms from enqueueing to handler at 200/s, as {"p50": ..., "p99": ...}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const (
	callers     = 64
	outstanding = 5000 // enqueued and not done yet, at most; it takes most of a second for them
	pace        = 200
)

// peer enqueues and works in the same process.
type peer struct {
	client *asynq.Client
	done   atomic.Int64

	mu      sync.Mutex
	waiting map[string]chan time.Time // by payload
}

func main() {
	if len(os.Args) != 4 {
		fail(errors.New("usage: asynq singles|pick-up ADDR DURATION"))
	}
	d, err := time.ParseDuration(os.Args[3])
	if err != nil {
		fail(err)
	}
	store := asynq.RedisClientOpt{Addr: os.Args[2], PoolSize: 2 * callers}
	p := &peer{client: asynq.NewClient(store), waiting: map[string]chan time.Time{}}
	server := asynq.NewServer(store, asynq.Config{Concurrency: callers, LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.HandlerFunc(p.handle)); err != nil {
		fail(err)
	}
	measure := map[string]func(time.Duration) (map[string]float64, error){"singles": p.singles, "pick-up": p.pickUps}[os.Args[1]]
	got, err := measure(d)
	server.Shutdown()
	if err != nil {
		fail(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "asynq:", err)
	os.Exit(1)
}

// handle does nothing with a job but to tell who waits for it.
func (p *peer) handle(_ context.Context, t *asynq.Task) error {
	if len(t.Payload()) < 64 {
		p.mu.Lock()
		p.waiting[string(t.Payload())] <- time.Now()
		p.mu.Unlock()
	}
	p.done.Add(1)
	return nil
}

// singles enqueues from many goroutines for a while, never too far ahead, and
// waits until all jobs are done.
func (p *peer) singles(d time.Duration) (map[string]float64, error) {
	var all sync.WaitGroup
	var enqueued atomic.Int64
	fails := make([]error, callers)
	payload := make([]byte, 64)
	began := time.Now()
	for g := range callers {
		all.Go(func() {
			for time.Since(began) < d && fails[g] == nil {
				if enqueued.Load()-p.done.Load() >= outstanding {
					time.Sleep(time.Millisecond)
					continue
				}
				enqueued.Add(1)
				_, fails[g] = p.client.Enqueue(asynq.NewTask("n", payload))
			}
		})
	}
	all.Wait()
	for p.done.Load() < enqueued.Load() {
		if time.Since(began) > time.Minute+d {
			fails = append(fails, errors.New("jobs are missing"))
			break
		}
		time.Sleep(time.Millisecond)
	}
	return map[string]float64{"rate": float64(enqueued.Load()) / time.Since(began).Seconds()}, errors.Join(fails...)
}

// pickUps enqueues one job at a time and notes when its handler began.
func (p *peer) pickUps(d time.Duration) (map[string]float64, error) {
	count := max(int(d.Seconds()*pace), 1)
	took, fails := make([]float64, count), make([]error, count)
	tick := time.NewTicker(time.Second / pace)
	defer tick.Stop()
	var all sync.WaitGroup
	for n := range count {
		<-tick.C
		all.Go(func() { took[n], fails[n] = p.pickUp(strconv.Itoa(n)) })
	}
	all.Wait()
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(count-1))] }
	return map[string]float64{"p50": at(.5), "p99": at(.99)}, errors.Join(fails...)
}

// pickUp gives the time from enqueueing to handler in ms.
func (p *peer) pickUp(payload string) (float64, error) {
	begun := make(chan time.Time, 1)
	p.mu.Lock()
	p.waiting[payload] = begun
	p.mu.Unlock()
	began := time.Now()
	if _, err := p.client.Enqueue(asynq.NewTask("n", []byte(payload))); err != nil {
		return 0, err
	}
	select {
	case at := <-begun:
		return float64(at.Sub(began)) / 1e6, nil
	case <-time.After(30 * time.Second):
		return 0, errors.New("a job was not picked up within 30 s")
	}
}
