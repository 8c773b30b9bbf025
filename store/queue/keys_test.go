package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// overlap notes which keys run, and which ran twice at once.
type overlap struct {
	mu      sync.Mutex
	running map[string]int
	twice   []string
	most    int
}

func (o *overlap) enter(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == nil {
		o.running = map[string]int{}
	}
	if o.running[key]++; o.running[key] > 1 {
		o.twice = append(o.twice, key)
	}
	o.most = max(o.most, len(o.running))
}

func (o *overlap) leave(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running[key]--; o.running[key] == 0 {
		delete(o.running, key)
	}
}

func TestQ1_OneKeyNeverRunsTwiceAtOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 4; o.InFlight = 64; o.Lease = 20 * time.Second })
		var o overlap
		var ended sync.Map
		var done atomic.Int64
		work := func(ctx context.Context, c *queue.Claimed) queue.Result {
			o.enter(c.Key)
			defer o.leave(c.Key)
			sleepBriefly()
			if rand.IntN(10) == 0 {
				return queue.Result{Outcome: queue.Retry, Delay: time.Millisecond}
			}
			if _, again := ended.LoadOrStore(c.ID, true); !again {
				done.Add(1)
			}
			return queue.Result{}
		}
		const workers, keys = 10, 10
		jobs := int64(1000)
		if db.Embedded() {
			jobs = 200 // its scripts take sixteen times as long
		}
		for range workers - 3 {
			w.another(func(o *queue.Options) { o.MaxAttempts = 100 }).run(queue.Each(work))
		}
		stops := make([]func(), 3)
		for i := range stops {
			stops[i] = w.another(func(o *queue.Options) { o.MaxAttempts = 100 }).run(queue.Each(work))
		}
		batch := make([]queue.Job, jobs)
		for i := range batch {
			batch[i] = queue.Job{Type: "x", Key: fmt.Sprint("key", i%keys), Payload: []byte(fmt.Sprint(i))}
		}
		w.mustEnqueue(batch...)
		for i, stop := range stops { // processes come and go meanwhile
			eventually(t, "progress", func() bool { return done.Load() > jobs/10*int64(i) })
			stop()
		}
		eventually(t, "every job ran", func() bool { return done.Load() == jobs })
		if len(o.twice) > 0 {
			t.Fatalf("keys ran twice at once: %v", o.twice)
		}
		if o.most < 2 {
			t.Error("different keys did not run in parallel")
		}
		w.mustBeConsistent()
		w.mustBeEmpty()
	})
}

func TestQ1_AlsoWithKills(t *testing.T) {
	t.Parallel()
	storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 2; o.InFlight = 16; o.Lease = time.Second; o.Logger = nil })
		var o overlap
		var ended sync.Map
		var done, worst atomic.Int64
		process := func() (kill func()) {
			var dead atomic.Bool
			stop := w.another().runUntilKilled(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
				o.enter(c.Key)
				defer o.leave(c.Key)
				for range 3 {
					if dead.Load() || !c.Alive() {
						return queue.Result{Outcome: queue.Release} // the process is gone: nobody hears it
					}
					sleepBriefly()
				}
				if _, again := ended.LoadOrStore(c.ID, true); !again {
					done.Add(1)
				}
				return queue.Result{}
			}))
			return func() { stop(); dead.Store(true); worst.Add(1) }
		}
		const jobs = 400
		batch := make([]queue.Job, jobs)
		for i := range batch {
			batch[i] = queue.Job{Key: fmt.Sprint("key", i%10)}
		}
		w.mustEnqueue(batch...)
		process()
		for n := range 4 {
			kill := process()
			eventually(t, "progress", func() bool { return done.Load() > int64(jobs*n/8) })
			kill()
		}
		process()
		eventually(t, "every job ran", func() bool { return done.Load() == jobs })
		w.mustBeEmpty()
		w.mustBeConsistent()
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.twice) > 0 {
			t.Errorf("keys ran twice at once: %v", o.twice)
		}
	})
}

// sleepBriefly is a job's work.
func sleepBriefly() { time.Sleep(time.Millisecond) } //nolint:forbidigo // the pace of a poll

func TestQ2_BlockedJobsDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Minute })
		started, hold := make(chan string, 10), make(chan struct{})
		w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			select {
			case started <- c.Key:
			default:
			}
			if c.Key == "busy" {
				<-hold
			}
			return queue.Result{}
		}))
		defer close(hold)
		blocked := make([]queue.Job, 1000)
		for i := range blocked {
			blocked[i] = queue.Job{Key: "busy", ID: queue.NewID(0, epoch)}
		}
		rounds := 10
		if db.Embedded() {
			rounds = 2
		}
		for range rounds {
			for i := range blocked {
				blocked[i].ID = queue.NewID(0, epoch)
			}
			w.mustEnqueue(blocked...)
		}
		<-started
		best := time.Hour
		for range 5 { // the machine may be busy: the best of five counts
			before := time.Now()
			w.mustEnqueue(queue.Job{Key: "free", ID: queue.NewID(0, epoch)})
			if key := <-started; key != "free" {
				t.Fatalf("%s started", key)
			}
			best = min(best, time.Since(before))
		}
		soon := 10 * time.Millisecond
		if db.Embedded() {
			soon *= 16 // as much slower are its scripts
		}
		if best > soon {
			t.Errorf("the next runnable job took %v to start", best)
		}
		s, err := w.q.Stats(t.Context())
		if err != nil || s.Blocked != int64(rounds*1000-1) {
			t.Errorf("blocked: %d, %v", s.Blocked, err)
		}
	})
}

func TestQ3_FIFOWithinOneKey(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 20 * time.Second })
		var got seen
		work := queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			got.add(string(c.Payload))
			if string(c.Payload) == "3" && c.Attempt == 1 {
				return queue.Result{Outcome: queue.Retry, Delay: 50 * time.Millisecond}
			}
			return queue.Result{}
		})
		var want []string
		for i := range 20 {
			w.mustEnqueue(queue.Job{Key: "k", ID: queue.NewID(0, epoch), Payload: []byte(fmt.Sprint(i))})
			want = append(want, fmt.Sprint(i))
		}
		for range 3 {
			w.another().run(work)
		}
		eventually(t, "all ran", func() bool { return got.len() == 21 })
		all := got.all()
		for i, item := range all[:20] {
			if i > 3 && item == "3" { // its retry gave up its place
				all = append(all[:i:i], all[i+1:]...)
				break
			}
		}
		if fmt.Sprint(all[:20]) != fmt.Sprint(want) {
			t.Errorf("order %v", got.all())
		}
	})
}

func TestQ4_TheNextOfAKeyStartsAtOnce(t *testing.T) {
	t.Parallel()
	outcomes := map[string]queue.Result{
		"Done": {}, "Retry": {Outcome: queue.Retry, Delay: time.Minute}, "Defer": {Outcome: queue.Defer, Delay: time.Minute},
		"Dead": {Outcome: queue.Dead}, "Park": {Outcome: queue.Park, Parked: "p"},
	}
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for name, result := range outcomes {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := setup(t, db, func(o *queue.Options) { o.Lease = time.Minute })
				ids := w.mustEnqueue(queue.Job{Key: "k"}, queue.Job{Key: "k"})
				var got seen
				w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
					got.add(c.ID)
					if c.ID == ids[0] {
						return result
					}
					return queue.Result{}
				}))
				storetest.Eventually(t, 30*time.Second, "the second job started", func() bool { return got.len() == 2 })
				w.mustBeConsistent()
			})
		}
		t.Run("LeaseOver", func(t *testing.T) {
			t.Parallel()
			w := setup(t, db)
			w.mustEnqueue(queue.Job{Key: "k"}, queue.Job{Key: "k"})
			w.mustClaimAndDie()
			var got seen
			before := time.Now()
			w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result { got.add(c.ID); return queue.Result{} }))
			storetest.Eventually(t, 30*time.Second, "both jobs ran", func() bool { return got.len() == 2 })
			t.Logf("both ran %v after the death", time.Since(before))
			w.mustBeEmpty()
		})
	})
}

func TestQ18_ManyKeysLeaveNoMemoryBehind(t *testing.T) {
	t.Parallel()
	storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) {
		n := storetest.Sized(1_000_000, 20_000)
		w := setup(t, db, func(o *queue.Options) { o.Retention = 300 * time.Millisecond; o.Lease = 20 * time.Second })
		var done atomic.Int64
		w.run(func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch {
				c.Finish(queue.Result{})
			}
			done.Add(int64(len(batch)))
		})
		for i := 0; i < n; i += 1000 {
			batch := make([]queue.Job, 1000)
			for j := range batch {
				batch[j] = queue.Job{Key: fmt.Sprint("key", i+j), Unique: fmt.Sprint("unique", i+j)}
			}
			w.mustEnqueue(batch...)
		}
		eventually(t, "all ran", func() bool { return done.Load() >= int64(n) })
		w.mustBeEmpty()
		eventually(t, "no key is left but the streams", func() bool { return len(w.mustKeys()) <= 12 })
	})
}
