package queue_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestAnEarlierFormIsRefused: a Redis with the queues of an earlier version is never
// misread; the error says what to do and which keys to delete. With these gone, and no
// other, the queue starts.
func TestAnEarlierFormIsRefused(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for _, earlier := range []string{"3", "2:3", "3:3", "4:3", "5:3", "6:3", "7:3"} {
			name := "t" + queue.NewID(0, time.Now())[8:16]
			meta, others := "ff:{q:"+name+"}:meta", "ff:{q:"+name+"s:0}:main"
			for _, key := range []string{"ff:{q:" + name + ":0}:main", "ff:{q:" + name + ":2}:main", others} {
				storetest.Must(t, db.Client().XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []string{"e", "Pid\x00"}}).Err())
			}
			if err := db.Client().HSet(t.Context(), meta, "shards", earlier).Err(); err != nil {
				t.Fatal(err)
			}
			err := queue.New(db, queue.Options{Name: name, Shards: 3}).Init(t.Context())
			if api.CodeOf(err) != api.CodeConflict {
				t.Fatalf("the form of an earlier version: %v", err)
			}
			for _, says := range []string{"earlier version", "drain", meta, "ff:{q:" + name + ":", "chats and stock"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
			if n := db.Client().HGet(t.Context(), meta, "shards").Val(); n != earlier {
				t.Errorf("the number of shards became %q", n)
			}
			pattern := regexp.MustCompile(`--pattern '(.*?)'`).FindStringSubmatch(err.Error())[1]
			found := queuetest.MustScan(t, db, pattern)
			if slices.Sort(found); !slices.Equal(found, []string{"ff:{q:" + name + ":0}:main", "ff:{q:" + name + ":2}:main"}) {
				t.Errorf("the pattern %s finds %v", pattern, found)
			}
			storetest.Must(t, db.Client().Del(t.Context(), meta).Err())
			for _, key := range found {
				storetest.Must(t, db.Client().Del(t.Context(), key).Err())
			}
			storetest.Must(t, queue.New(db, queue.Options{Name: name, Shards: 3}).Init(t.Context()))
			if n := db.Client().XLen(t.Context(), others).Val(); n != 1 {
				t.Error("keys of another queue are gone")
			}
		}
		name := "t" + queue.NewID(0, time.Now())[8:16]
		second := queue.New(db, queue.Options{Name: name, Shards: 3})
		if err := second.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := db.Client().HGet(t.Context(), "ff:{q:"+name+"}:meta", "shards").Val(); n == "3" {
			t.Error("the earlier version would take this form for its own")
		}
	})
}

// TestAFullRedisDrains: enqueueings are refused, and everything else goes on:
// renewals, claims, results of every kind.
func TestAFullRedisDrains(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	w := setup(t, db, func(o *queue.Options) { o.Lease = time.Second; o.InFlight = 10; o.RetryMax = 20 * time.Millisecond })
	group := queue.NewID(0, epoch)
	var jobs []queue.Job
	for range 200 {
		jobs = append(jobs, queue.Job{Group: group, Key: "k" + fmt.Sprint(len(jobs)%50), Payload: make([]byte, 2000)})
	}
	w.mustEnqueue(jobs...)
	full := func(limit string) {
		if err := db.Client().ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1")
	if _, err := w.q.Enqueue(t.Context(), queue.Job{}); api.CodeOf(err) != api.CodeOverloaded {
		t.Errorf("a full Redis took a job: %v", err)
	}
	var runs atomic.Int64
	outcomes := []queue.Result{{}, {Outcome: queue.Retry}, {Outcome: queue.Defer}, {Outcome: queue.Release}, {Outcome: queue.Continue}, {Outcome: queue.Dead}}
	w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
		n := runs.Add(1)
		if n < 12 {
			select { // longer than a lease, which is renewed
			case <-ctx.Done():
				t.Error("a lease was lost")
			case <-time.After(1500 * time.Millisecond):
			}
		}
		if c.Attempt > 1 {
			return queue.Result{}
		}
		return outcomes[n%int64(len(outcomes))]
	}))
	eventually(t, "every job to end", func() bool {
		s, err := w.q.Stats(t.Context())
		return err == nil && s.Depth+s.InFlight+s.Blocked+s.Scheduled == 0 && runs.Load() > 200
	})
	full("0")
	w.mustBeEmpty()
	w.mustBeConsistent()
	w.mustEnqueue(queue.Job{})
	if s, err := w.q.Stats(t.Context()); err != nil || s.Recovered > 0 {
		t.Errorf("%d leases were lost, %v", s.Recovered, err)
	}
}

// mustMakeSuspects stores jobs of a type that have lost so many leases.
func (w *world) mustMakeSuspects(kind string, n, lost int) {
	w.t.Helper()
	for range n {
		w.mustEnqueue(queue.Job{Type: kind})
	}
	for range lost {
		w.mustClaimAndDie()
		looking := w.another()
		looking.q.SetFault(w.t, func(step string, _ bool) error {
			if step == "claim" {
				return storetest.ErrCut
			}
			return nil
		})
		stop := looking.run(nil) // it looks and claims nothing
		eventually(w.t, "they come back", func() bool {
			return len(w.mustState(0).In("ready")) == n && w.undelivered() == int64(n)
		})
		stop()
	}
}

// TestJobsThatRunAloneLeaveOthersTheirTime: between two of them others may run for as long
// as they stood still.
func TestJobsThatRunAloneLeaveOthersTheirTime(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const took = time.Second
		w := setup(t, db, func(o *queue.Options) { o.Lease = 3 * time.Second })
		w.mustMakeSuspects("slow", 2, 3)
		var between atomic.Int64
		slow := make(chan time.Time, 4)
		w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			if c.Type != "slow" {
				between.Add(1)
				return queue.Result{}
			}
			slow <- time.Now()
			time.Sleep(took) //nolint:forbidigo // how long the job takes
			slow <- time.Now()
			return queue.Result{}
		}))
		<-slow
		ended := <-slow
		before := between.Load()
		w.mustEnqueue(queue.Job{})
		if rest := (<-slow).Sub(ended); rest < took || between.Load() == before {
			t.Errorf("the next one began %v after one that took %v; others ran: %t", rest, took, between.Load() > before)
		}
		<-slow
		w.mustBeEmpty()
	})
}

// TestALongJobThatRunsAloneClosesNothing: after a lease others go on beside it,
// and are not stopped again.
func TestALongJobThatRunsAloneClosesNothing(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const lease = 2 * time.Second
		w := setup(t, db, func(o *queue.Options) { o.Lease = lease })
		w.mustMakeSuspects("long", 1, 3)
		alone, hold := make(chan bool, 1), make(chan bool)
		var others atomic.Int64
		w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			if c.Type == "long" {
				alone <- true
				<-hold
				return queue.Result{}
			}
			others.Add(1)
			return queue.Result{}
		}))
		<-alone
		began, longest, last := time.Now(), time.Duration(0), time.Now()
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for time.Since(began) < 6*lease {
			<-pace.C
			before := others.Load()
			w.mustEnqueue(queue.Job{})
			eventually(t, "another to run", func() bool { return others.Load() > before })
			if since := time.Since(last); time.Since(began) > 2*lease {
				longest = max(longest, since)
			}
			last = time.Now()
		}
		close(hold)
		if longest > lease*3/4 {
			t.Errorf("others stood still for %v beside a job that runs alone", longest)
		}
		w.mustBeEmpty()
	})
}

// undelivered counts the entries of shard 0 that nobody was given.
func (w *world) undelivered() (n int64) {
	for _, stream := range []string{"main", "ready", "few", "alone"} {
		key := w.prefix(0) + stream
		n += w.db.Client().XLen(w.t.Context(), key).Val()
		if p, err := w.db.Client().XPending(w.t.Context(), key, "g").Result(); err == nil {
			n -= p.Count
		}
	}
	return n
}

// TestARedisThatForgets goes back to what it was before the last results: the jobs
// that are pending again, of which their process knows nothing, run again.
func TestARedisThatForgets(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	w := setup(t, db, func(o *queue.Options) { o.Lease = 20 * time.Second; o.Shards = 2 })
	const n = 40
	var runs, known atomic.Int64
	hold := make(chan bool)
	worker := w.another()
	worker.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
		runs.Add(1)
		<-hold
		return queue.Result{}
	}))
	for range n {
		w.mustEnqueue(queue.Job{})
	}
	eventually(t, "all run", func() bool { return runs.Load() == n })
	if err := db.Client().Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	close(hold)
	w.mustBeEmpty()
	known.Store(runs.Load())
	server.Kill()
	server.Restart()
	eventually(t, "what is pending again to run", func() bool { return runs.Load() >= known.Load()+n })
	w.mustBeEmpty()
	w.mustEnqueue(queue.Job{})
	eventually(t, "others to run", func() bool { return runs.Load() > known.Load()+n })
	w.mustBeEmpty()
	w.mustBeConsistent()
}

// TestAMovingSlot moves a shard's slot, key by key, under load: no script stops
// midway, no job is lost or runs twice.
func TestAMovingSlot(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	w := setup(t, storetest.Open(t, cluster.URL()), func(o *queue.Options) { o.Lease = 20 * time.Second; o.Logger = nil })
	client := w.db.Client().(*redis.ClusterClient)
	var runs atomic.Int64
	w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { runs.Add(1); return queue.Result{} }))
	stop, stopped := make(chan bool), make(chan bool)
	var sent, unknown, tries atomic.Int64
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				tries.Add(1)
				// Without an answer it is not known whether the job was stored: one that
				// was refused is no job.
				if _, err := w.q.Enqueue(context.WithoutCancel(t.Context()), queue.Job{Key: fmt.Sprint("k", n%7)}); err == nil {
					sent.Add(1)
				} else if api.CodeOf(err) == api.CodeUnknownOutcome {
					unknown.Add(1)
				} else if api.CodeOf(err) != api.CodeUnavailable {
					t.Errorf("a job was refused: %v", err)
				}
			}
		}
	}()
	w.mustEnqueue(queue.Job{Delay: time.Hour}) // so that there always is a record
	for n := range int64(3) {
		eventually(t, "jobs to go on", func() bool { return sent.Load() > 100*(n+1) })
		w.mustMoveSlot(client, w.prefix(0)+"jobs", func() {
			until := tries.Load() + 5
			eventually(t, "calls on a slot of which half has moved", func() bool { return tries.Load() > until })
		})
	}
	close(stop)
	<-stopped
	n := sent.Load()
	eventually(t, "every job to end", func() bool {
		s, err := w.q.Stats(t.Context())
		return err == nil && s.Depth+s.InFlight+s.Blocked == 0
	})
	if got := runs.Load(); got < n || got > n+unknown.Load() {
		t.Errorf("%d runs of %d jobs", got, n)
	}
	w.mustBeConsistent()
}

// mustMoveSlot moves the slot of a key to another master, as an operator does, and
// calls half when most of its keys have moved: those that a script reads first are
// still there.
func (w *world) mustMoveSlot(c *redis.ClusterClient, key string, half func()) {
	w.t.Helper()
	ctx := w.t.Context()
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	slot := c.ClusterKeySlot(ctx, key).Val()
	var from, to *redis.Client
	var mu sync.Mutex
	ids := map[string]string{}
	must(c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		id, err := node.Do(ctx, "cluster", "myid").Text()
		_, absent := node.ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		keys := node.ClusterCountKeysInSlot(ctx, int(slot)).Val()
		mu.Lock()
		defer mu.Unlock()
		if ids[node.Options().Addr] = id; keys > 0 && absent == nil {
			from = node
		} else {
			to = node
		}
		return err
	}))
	source, target := from.Options().Addr, to.Options().Addr
	must(to.Do(ctx, "cluster", "setslot", slot, "importing", ids[source]).Err())
	must(from.Do(ctx, "cluster", "setslot", slot, "migrating", ids[target]).Err())
	host, port, _ := strings.Cut(target, ":")
	for _, part := range []string{"others", "all"} {
		keys, err := from.ClusterGetKeysInSlot(ctx, int(slot), 1000).Result()
		must(err)
		for _, one := range keys {
			stays := one == key || strings.Contains(one, "}:memo:") || strings.Contains(one, "}:heads")
			if part == "all" || !stays {
				must(from.Migrate(ctx, host, port, one, 0, 5*time.Second).Err())
			}
		}
		if part == "others" {
			half()
		}
	}
	for _, node := range []*redis.Client{to, from} {
		must(node.Do(ctx, "cluster", "setslot", slot, "node", ids[target]).Err())
	}
}
