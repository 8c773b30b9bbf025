// Command river measures the queue River on PostgreSQL, for the comparison with fanfare's: no-op jobs that one process
// enqueues and processes. It is a separate module, so that fanfare does not depend on River.
//
//	river hundreds|singles URL DURATION   jobs a second, enqueued 100 or one a call, as {"rate": ...}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	// outstanding is the most jobs that are enqueued and not done. River needs less than a second for them.
	outstanding = 10_000
	connections = 64
)

// callers are how many goroutines enqueue, by how many jobs a call has.
var callers = map[int]int{1: 64, 100: 16}

// work is a job that does nothing.
type work struct {
	Invoice  string `json:"invoice"`
	Customer int    `json:"customer"`
}

// Kind is the type of the job.
func (work) Kind() string { return "invoice" }

type worker struct{ river.WorkerDefaults[work] }

// Work does the job.
func (worker) Work(context.Context, *river.Job[work]) error { return nil }

func main() {
	each := map[string]int{"hundreds": 100, "singles": 1}
	if len(os.Args) != 4 || each[os.Args[1]] == 0 {
		check(errors.New("usage: river hundreds|singles URL DURATION"))
	}
	d, err := time.ParseDuration(os.Args[3])
	check(err)
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(os.Args[2])
	check(err)
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	check(err)
	rate, err := measure(ctx, pool, each[os.Args[1]], d)
	check(err)
	pool.Close()
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{"rate": rate}))
}

// check ends the program if something went wrong.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// open makes a client on empty tables. Its settings are those of River's own benchmark, which are much faster than the
// default ones.
func open(ctx context.Context, pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker{})
	return river.NewClient(driver, &river.Config{
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}}, Workers: workers,
	})
}

// measure enqueues for a while from many goroutines, with a limited number of outstanding jobs, and waits until all are
// done and on record as such.
func measure(ctx context.Context, pool *pgxpool.Pool, each int, d time.Duration) (rate float64, err error) {
	client, err := open(ctx, pool)
	if err != nil {
		return 0, err
	}
	events, leave := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * outstanding, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer leave()
	var enqueued, done atomic.Int64
	go func() {
		for range events {
			done.Add(1)
		}
	}()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	enqueue := func() error {
		for time.Since(began) < d {
			if enqueued.Load()-done.Load() >= outstanding {
				time.Sleep(time.Millisecond)
				continue
			}
			enqueued.Add(int64(each))
			if err := insert(ctx, client, each); err != nil {
				return err
			}
		}
		return nil
	}
	var all sync.WaitGroup
	errs := make([]error, callers[each])
	for i := range errs {
		all.Go(func() { errs[i] = enqueue() })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	for done.Load() < enqueued.Load() {
		if time.Since(began) > time.Minute+d {
			return 0, fmt.Errorf("%d of %d jobs are done", done.Load(), enqueued.Load())
		}
		time.Sleep(time.Millisecond)
	}
	rate = float64(done.Load()) / time.Since(began).Seconds()
	return rate, client.Stop(ctx)
}

// insert enqueues jobs with one call.
func insert(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	one := work{"2026-01", 42}
	if n == 1 {
		_, err := client.Insert(ctx, one, nil)
		return err
	}
	many := make([]river.InsertManyParams, n)
	for i := range many {
		many[i].Args = one
	}
	_, err := client.InsertManyFast(ctx, many)
	return err
}
