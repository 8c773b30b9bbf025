package shard_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// leaseLeft is how long a process' lease on shard 0 lasts.
func (w *world) leaseLeft(p *shard.Stepper) time.Duration {
	w.t.Helper()
	end, err := w.db.Client().ZScore(w.t.Context(), w.prefix()+"owners", p.Session()).Result()
	storetest.Must(w.t, err)
	return time.Until(time.UnixMilli(int64(end)))
}

// TestALifeIsAboveAllBefore: also when Redis' clock was set back since.
func TestALifeIsAboveAllBefore(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		last := time.Now().Add(time.Hour).UnixMicro()
		storetest.Must(t, db.Client().Set(t.Context(), w.prefix()+"epoch", last, 0).Err())
		for range 2 {
			name := w.mustStep().Session()
			epoch, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
			if err != nil || epoch <= last {
				t.Fatalf("session %s after the epoch %d", name, last)
			}
			last = epoch
		}
	})
}

// TestQ6_AClaimHasOneLease: a process that has claimed is missed after one lease, whatever
// its other calls said meanwhile, and one that has nothing in hand after three, from the
// next look on.
func TestQ6_AClaimHasOneLease(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const lease = time.Hour
		w := setup(t, db, func(o *queue.Options) { o.Lease = lease })
		p, q := w.mustStep(), w.mustStep()
		wantLease := func(when string, p *shard.Stepper, leases time.Duration) {
			t.Helper()
			if left := w.leaseLeft(p); left > leases*lease || left < leases*lease-lease/2 {
				t.Errorf("%s the lease lasts for %v, want %v", when, left, leases*lease)
			}
		}
		wantLease("at the begin", p, 3)
		w.mustEnqueue(queue.Job{})
		c := mustClaim(t, p, 1)[0]
		wantLease("after a claim", p, 1)
		if _, err := p.Finish(c, queue.Result{}); err != nil {
			t.Fatal(err)
		}
		wantLease("after the last result", p, 1)
		storetest.Must(t, p.Maintain())
		wantLease("with nothing in hand", p, 3)
		if batch, err := p.Claim(1); err != nil || len(batch) > 0 {
			t.Fatalf("claimed %d jobs, %v", len(batch), err)
		}
		wantLease("after a claim that found nothing", p, 3)
		read := redis.XReadGroupArgs{Group: "g", Consumer: p.Session(), Streams: []string{w.prefix() + "main", ">"}, Count: 1}
		w.mustEnqueue(queue.Job{})
		storetest.Must(t, db.Client().XReadGroup(t.Context(), &read).Err()) // a call under way claims
		storetest.Must(t, p.Maintain())
		wantLease("after a look that left before a claim", p, 1)
		if batch, err := q.EnqueueAndClaim(1, queue.Job{ID: queue.NewID(0, epoch)}); err != nil || len(batch) != 1 {
			t.Fatalf("claimed %d jobs, %v", len(batch), err)
		}
		wantLease("after an enqueueing that claimed", q, 1)
		w.mustEnqueue(queue.Job{})
		c = mustClaim(t, q, 1)[0]
		if batch, err := q.EnqueueAndClaim(1, queue.Job{ID: queue.NewID(0, epoch)}); err != nil || len(batch) != 1 {
			t.Fatalf("claimed %d jobs, %v", len(batch), err)
		}
		if _, err := q.Finish(c, queue.Result{}); err != nil { // made before the other call was answered
			t.Fatal(err)
		}
		wantLease("after a result beside which another call claimed", q, 1)
	})
}

// TestK9_ARepeatedResultRenewsTheLease: the answer to a result is lost, and the call is
// sent again late in the lease. Redis answers as before and renews the lease: the process
// takes it for renewed.
func TestK9_ARepeatedResultRenewsTheLease(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const lease = time.Hour
		w := setup(t, db, func(o *queue.Options) { o.Lease = lease })
		p := w.mustStep()
		w.mustEnqueue(queue.Job{}, queue.Job{})
		first := mustClaim(t, p, 2)[0]
		if answer, err := p.Finish(first, queue.Result{}); err != nil || answer != "1" {
			t.Fatal(answer, err)
		}
		soon := redis.Z{Member: p.Session(), Score: float64(time.Now().Add(time.Minute).UnixMilli())}
		storetest.Must(t, db.Client().ZAddXX(t.Context(), w.prefix()+"owners", soon).Err())
		if answer, err := p.Again(first, queue.Result{}); err != nil || answer != "1" {
			t.Fatal(answer, err)
		}
		if left := w.leaseLeft(p); left < lease/2 {
			t.Errorf("after the repeat the lease lasts for %v", left)
		}
	})
}

// TestQ7_ALifeEndsBeforeItIsEmptied: what a process had goes back in steps, and from the
// first on none of its results counts, also of what is not yet back.
func TestQ7_ALifeEndsBeforeItIsEmptied(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const jobs = 250 // more than two steps take
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour })
		late, other := w.mustStep(), w.mustStep()
		for range jobs {
			w.mustEnqueue(queue.Job{})
		}
		batch := mustClaim(t, late, jobs)
		storetest.Must(t, db.Client().ZAdd(t.Context(), w.prefix()+"owners", redis.Z{Member: late.Session(), Score: 1}).Err())
		if more, err := other.Look(); err != nil || !more {
			t.Fatalf("the first step put all back: %v", err)
		}
		for _, c := range []*queue.Claimed{batch[0], batch[jobs-1]} { // back, and not yet
			if answer, err := late.Finish(c, queue.Result{}); err != nil || answer != "0" {
				t.Errorf("a result that came too late is answered %q, %v", answer, err)
			}
		}
		storetest.Must(t, other.Maintain())
		mustClaim(t, other, jobs)
	})
}

// TestP9_ALostResultCountsNothing: Redis forgot that a job is this process', which lives
// on: nothing that its result counts is added.
func TestP9_ALostResultCountsNothing(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour })
		group := queue.NewID(0, epoch)
		p := w.mustStep()
		w.mustEnqueue(queue.Job{Group: group})
		c, main := mustClaim(t, p, 1)[0], w.prefix()+"main"
		entry, err := db.Client().XRange(t.Context(), main, "-", "+").Result()
		storetest.Must(t, err)
		storetest.Must(t, db.Client().XAck(t.Context(), main, "g", entry[0].ID).Err())
		answer, err := p.Finish(c, queue.Result{Label: "ended", Counts: map[string]int64{"sent": 1}})
		if err != nil || answer != "0" {
			t.Errorf("the result is answered %q, %v", answer, err)
		}
		counts, err := w.q.Groups(t.Context(), group)
		if err != nil || len(counts) != 1 || counts["created"] != 1 {
			t.Errorf("counts %v, %v", counts, err)
		}
	})
}

// TestALateCopyOfACallDoesNothing: a copy of a call arrives after the call that followed it. It
// claims no job, which nobody would run.
func TestALateCopyOfACallDoesNothing(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		p, other := w.mustStep(), w.mustStep()
		mustClaim(t, p, 0)
		mustClaim(t, p, 0)
		w.mustEnqueue(queue.Job{})
		if ran, err := p.LateClaim(1); err != nil || ran {
			t.Errorf("the late copy ran: %t, %v", ran, err)
		}
		mustClaim(t, other, 1)
	})
}

// TestQ7_AComparisonFindsWhatIsLost: Redis forgot that a job is this process', which lives on.
// The comparison ends its context, so that the handler stops.
func TestQ7_AComparisonFindsWhatIsLost(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		p := w.mustStep()
		w.mustEnqueue(queue.Job{}, queue.Job{})
		batch, main := mustClaim(t, p, 2), w.prefix()+"main"
		entries, err := db.Client().XRange(t.Context(), main, "-", "+").Result()
		storetest.Must(t, err)
		storetest.Must(t, db.Client().XAck(t.Context(), main, "g", entries[0].ID).Err())
		storetest.Must(t, p.Compare())
		if batch[0].Alive() || !batch[1].Alive() {
			t.Errorf("the forgotten job is alive: %t; the other: %t", batch[0].Alive(), batch[1].Alive())
		}
	})
}

// TestQ7_ALeaseIsTrustedOnce: a process trusts a lease for as long as Redis keeps it.
func TestQ7_ALeaseIsTrustedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	if got := w.mustStep().LeaseTrusted(); got != w.o.Lease {
		t.Errorf("a lease of %v is trusted for %v", w.o.Lease, got)
	}
}

// TestQ7_NoLeaseIsTrustedForTooLong: Redis cuts its time to milliseconds, so that it may have counted the lease from up to one
// before it got the call.
func TestQ7_NoLeaseIsTrustedForTooLong(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	if got := w.mustStep().TrustedAfter(time.Now().Add(time.Second)); got > w.o.Lease-time.Millisecond {
		t.Errorf("a lease of %v is trusted for %v after the call was sent", w.o.Lease, got)
	}
}

// TestMarksOfALostJobAreDropped: what a process has marked of a job, and not yet sent, is in no call
// of its next session: another process has the job by then.
func TestMarksOfALostJobAreDropped(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	p := w.mustStep()
	w.mustEnqueue(queue.Job{ID: queue.NewID(0, epoch)})
	c := mustClaim(t, p, 1)[0]
	c.Mark("part", "ended", "")
	p.EndSession()
	storetest.Must(t, p.Begin())
	if n := p.MarksToSend(); n > 0 {
		t.Errorf("%d marks of the last session", n)
	}
}

// TestALookPutsBackAHundredJobs: also when many processes have died at once.
func TestALookPutsBackAHundredJobs(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		const processes, each = 20, 30
		w.mustEnqueue(make([]queue.Job, processes*each)...)
		for range processes {
			p := w.mustStep()
			mustClaim(t, p, each)
			storetest.Must(t, db.Client().ZAdd(t.Context(), w.prefix()+"owners", redis.Z{Score: 1, Member: p.Session()}).Err())
		}
		p, back := w.mustStep(), 0
		for more := true; more; {
			var err error
			if more, err = p.Look(); err != nil {
				t.Fatal(err)
			}
			now := len(w.mustState().Streams["r"])
			if back, now = now, now-back; now > 100 {
				t.Errorf("a look put back %d jobs", now)
			}
		}
		if back != processes*each {
			t.Errorf("%d of %d jobs came back", back, processes*each)
		}
	})
}
