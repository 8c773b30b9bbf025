package shard_test

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// killing is a queue some of whose jobs kill the process that begins them. Its processes come one after the other.
type killing struct {
	t       *rapid.T
	w       *world
	p       *shard.Stepper
	killers map[string]bool // by the id that its dead letter has
	lost    map[string]int  // leases of each job, by the same
	held    []*queue.Claimed
}

// TestQ11_AKillingJobTakesFewWithIt: a job that kills its process is dead with its eighth lease. All others run,
// and lose at most three.
func TestQ11_AKillingJobTakesFewWithIt(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		storetest.CheckModel(t, storetest.Sized(40, 8), func(rt *rapid.T) {
			w := setup(t, db)
			k := &killing{t: rt, w: w, killers: map[string]bool{}, lost: map[string]int{}, p: mustStepper(rt, w.common(db))}
			n := rapid.IntRange(1, 99).Draw(rt, "jobs")
			kills := rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 4).Draw(rt, "killers")
			for i, id := range w.mustEnqueue(make([]queue.Job, n)...) {
				if slices.Contains(kills, i) {
					k.killers[w.q.DeadID(0, id)] = true
				}
			}
			for k.step() {
			}
			list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 100, w.q)
			if err != nil || len(list.Items) != len(k.killers) {
				rt.Fatalf("%d dead letters of %d killing jobs, %v", len(list.Items), len(k.killers), err)
			}
			for _, d := range list.Items {
				if !k.killers[d.ID] || k.lost[d.ID] != 8 {
					rt.Errorf("job %s is dead after %d leases, it kills: %t", d.ID, k.lost[d.ID], k.killers[d.ID])
				}
			}
			for id, lost := range k.lost {
				if lost > 3 && !k.killers[id] {
					rt.Errorf("job %s lost %d leases", id, lost)
				}
			}
		})
	})
}

// step lets the process claim from one of the streams. It returns false when no job is left.
func (k *killing) step() bool {
	which := rapid.Permutation([]string{"m", "f", "a"}).Draw(k.t, "streams")
	for _, letter := range which {
		if k.claim(letter) {
			return true
		}
	}
	if len(k.held) == 0 {
		return false
	}
	k.finish()
	return true
}

// claim claims jobs, which kill the process or end. New jobs may hang for less than a lease: others are begun
// beside them.
func (k *killing) claim(letter string) bool {
	var batch []*queue.Claimed
	var err error
	switch letter {
	case "m":
		batch, err = k.p.Claim(rapid.IntRange(1, 100).Draw(k.t, "n"))
	case "a":
		k.finish() // a lease has passed
		fallthrough
	default:
		batch, err = k.p.ClaimIsolated(letter)
	}
	storetest.Must(k.w.t, err)
	k.held = append(k.held, batch...)
	for _, c := range batch {
		if k.killers[k.w.q.DeadID(0, c.ID)] {
			k.die()
			return true
		}
	}
	if letter != "m" || rapid.Bool().Draw(k.t, "they end") {
		k.finish()
	}
	return len(batch) > 0
}

// finish ends all jobs that are under way.
func (k *killing) finish() {
	for _, c := range k.held {
		if got, err := k.p.Finish(c, queue.Result{}); got != "1" {
			k.t.Fatalf("finish: %s, %v", got, err)
		}
	}
	k.held = nil
}

// die ends the process with all that it holds; another one goes on.
func (k *killing) die() {
	for _, c := range k.held {
		k.lost[k.w.q.DeadID(0, c.ID)]++
	}
	k.held = nil
	k.w.db.Client().ZAdd(context.Background(), k.w.prefix()+"owners", redis.Z{Score: 1, Member: k.p.Session()})
	storetest.Must(k.w.t, k.p.Begin())
	storetest.Must(k.w.t, k.p.Maintain())
}
