// Command asynq measures the queue asynq, for the comparison with fanfare's: no-op jobs that one
// process enqueues and processes. It is a separate module, so that fanfare does not depend on
// asynq.
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
	outstanding = 5000 // the most jobs that are enqueued and not done; asynq needs most of a second for them
	pace        = 200
)

// peer enqueues and processes jobs in one process.
type peer struct {
	client  *asynq.Client
	done    atomic.Int64
	waiting sync.Map // by payload, a chan time.Time that gets the time at which the handler began
}

func main() {
	if len(os.Args) != 4 {
		check(errors.New("usage: asynq singles|pick-up ADDR DURATION"))
	}
	d, err := time.ParseDuration(os.Args[3])
	check(err)
	store := asynq.RedisClientOpt{Addr: os.Args[2], PoolSize: 2 * callers}
	p := &peer{client: asynq.NewClient(store)}
	server := asynq.NewServer(store, asynq.Config{Concurrency: callers, LogLevel: asynq.FatalLevel})
	check(server.Start(asynq.HandlerFunc(p.handle)))
	found := map[string]func(time.Duration) map[string]float64{"singles": p.singles, "pick-up": p.pickUps}[os.Args[1]](d)
	server.Shutdown()
	check(json.NewEncoder(os.Stdout).Encode(found))
}

// check ends the program if something went wrong.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "asynq:", err)
		os.Exit(1)
	}
}

// handle only tells the caller that waits for a job.
func (p *peer) handle(_ context.Context, t *asynq.Task) error {
	if begun, ok := p.waiting.LoadAndDelete(string(t.Payload())); ok {
		begun.(chan time.Time) <- time.Now()
	}
	p.done.Add(1)
	return nil
}

func (p *peer) enqueue(payload []byte) {
	_, err := p.client.Enqueue(asynq.NewTask("n", payload))
	check(err)
}

// singles enqueues from many goroutines for a while, with a limited number of outstanding jobs, and
// waits until all jobs are done.
func (p *peer) singles(d time.Duration) map[string]float64 {
	var all sync.WaitGroup
	var enqueued atomic.Int64
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < d {
				if enqueued.Load()-p.done.Load() >= outstanding {
					time.Sleep(time.Millisecond)
					continue
				}
				enqueued.Add(1)
				p.enqueue(make([]byte, 64))
			}
		})
	}
	all.Wait()
	for p.done.Load() < enqueued.Load() {
		if time.Since(began) > time.Minute+d {
			check(errors.New("jobs are missing"))
		}
		time.Sleep(time.Millisecond)
	}
	return map[string]float64{"rate": float64(enqueued.Load()) / time.Since(began).Seconds()}
}

// pickUps enqueues one job at a time and measures the time until its handler begins.
func (p *peer) pickUps(d time.Duration) map[string]float64 {
	count := max(int(d.Seconds()*pace), 1)
	took := make([]float64, count) // ms
	tick := time.NewTicker(time.Second / pace)
	defer tick.Stop()
	var all sync.WaitGroup
	for n := range count {
		<-tick.C
		all.Go(func() {
			payload, begun, began := strconv.Itoa(n), make(chan time.Time, 1), time.Now()
			p.waiting.Store(payload, begun)
			p.enqueue([]byte(payload))
			select {
			case at := <-begun:
				took[n] = float64(at.Sub(began)) / 1e6
			case <-time.After(30 * time.Second):
				check(errors.New("a job was not picked up within 30 s"))
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(count-1))] }
	return map[string]float64{"p50": at(.5), "p99": at(.99)}
}
