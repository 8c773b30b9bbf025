package facts

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// H6: a lane keeps the newest facts up to its number and its age, and all lanes together up to their share of memory; readers are
// told of what they missed.
func TestH6_Retention(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"Number": func(o *Options) { o.Most = 300 },
		"Memory": func(o *Options) { o.Bytes = 40 << 10 },
		"Age":    func(o *Options) { o.Retention = time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), change)
			for n := range 4 {
				w.mustTell("a", "begin", 1)
				_, err := w.db.Eval(t.Context(), redisdb.Write, moveScript, w.s.keys(n), "large", always, "1-0", "a", "k", "", `"`+strings.Repeat("x", 3000)+`"`)
				storetest.Must(t, err)
			}
			at := w.mustRead("", 1000)
			for n := range 20 {
				w.mustTell("a", fmt.Sprint("key", n), 200)
			}
			storetest.Eventually(t, soon, "old facts go", func() bool {
				storetest.Must(t, w.s.Trim(t.Context()))
				k, err := w.s.Kept(t.Context())
				storetest.Must(t, err)
				return k.Facts < 2000
			})
			k, err := w.s.Kept(t.Context())
			storetest.Must(t, err)
			if name != "Age" && (k.Facts < 100 || k.Age <= 0 || k.Age > time.Hour) {
				t.Errorf("%d facts are kept, the oldest for %v", k.Facts, k.Age)
			}
			facts, _, gap := w.mustReadAll(at.Next, 1000)
			if int64(len(facts))+gap != 4000 || gap < 2000 {
				t.Errorf("a late reader gets %d facts, and %d are gone", len(facts), gap)
			}
			if name == "Age" { // all may be gone
				return
			}
			if n := numberOf(t, w.mustLast()); n != w.told {
				t.Errorf("the newest fact that is kept is %d of %d", n, w.told)
			}
		})
	}
}

// H6: what is over the limits goes with the next look, also if it is much.
func TestH6_MuchGoesAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *Options) { o.Most = 1000 })
	for range 10 {
		w.mustTell("a", "key", 4000)
	}
	storetest.Must(t, w.s.Trim(t.Context()))
	if k, err := w.s.Kept(t.Context()); err != nil || k.Facts > 2000 {
		t.Errorf("%d facts are left, %v", k.Facts, err)
	}
}

// H6: facts are kept for 7 days, at most 1,000,000 in a lane, and those of all lanes in 5 % of what Redis may take, or in 512 MiB.
func TestH6_Limits(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, storetest.Open(t, server.URL()))
	if o := w.s.o; o.Retention != 7*24*time.Hour || o.Most != 1_000_000 {
		t.Errorf("kept for %v, at most %d", o.Retention, o.Most)
	}
	storetest.Eventually(t, soon, "the room without maxmemory", func() bool { return w.s.room() == 512<<20 })
	storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", "400mb").Err())
	storetest.Eventually(t, soon, "the room with maxmemory", func() bool { return w.s.room() == 20<<20 })
}

// H6: the upkeep of a process drops what is over the limits, again and again, while types are on.
func TestH6_Upkeep(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *Options) { o.Most = 300 })
	fill := func() { w.mustTell("a", "key", 2000) }
	dropped := func() bool {
		k, err := w.s.Kept(t.Context())
		storetest.Must(t, err)
		return k.Facts < 1000
	}
	fill()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.s.RunUpkeep(ctx) }()
	for range 2 {
		storetest.Eventually(t, 2*soon, "old facts go", dropped)
		fill()
	}
	stop()
	storetest.Must(t, <-done)
}

// E6: the facts that name an erased user are deleted from lanes and outboxes, and those of what happened before are counted.
func TestE6_FactsOfAnErasedUserGo(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRelay(t, db)
		since := time.Now().Add(-time.Minute).UnixMilli()
		o := &record.Operation{Subject: "ann", Since: since, CreatedAt: since + 1000} // the clock of SQL is ahead
		for n, at := range []int64{since, o.CreatedAt, o.CreatedAt + 1} {
			for _, data := range []string{`{"user":"ann","reason":"bob"}`, `{"chat":"bob","sender":"ann"}`, `{"user":"bob","reason":"ann"}`, `{"chat":"ann","sender":"bob"}`} {
				r.mustLeave(0, "a", fmt.Sprint("key", n), data, fmt.Sprint(at))
				r.mustLeave(1, "a", fmt.Sprint("key", n), data, fmt.Sprint(at))
			}
		}
		storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes[:1])) // those of the first are in lanes, of the second in the outbox
		if n := r.mustErase(o); n != 8 {
			t.Errorf("%d facts of what had happened were erased, want 8", n)
		}
		storetest.Must(t, r.s.Sweep(t.Context()))
		facts, _, _ := r.mustReadAll("", 100)
		if len(facts) != 12 {
			t.Errorf("%d are left, want 12", len(facts))
		}
		for _, f := range facts {
			if names(string(f.Data), "ann") {
				t.Errorf("%s is left: %s", f.ID, f.Data)
			}
		}
	})
}

// H6, E6: facts that an erasure deletes are told as a gap to a reader who has not come to them.
func TestE6_ErasedFactsAreMissed(t *testing.T) {
	t.Parallel()
	r := setupRelay(t, storetest.Open(t, "embedded"))
	r.mustTell("a", "key", 1)
	at := r.mustRead("", 10).Next
	for n := range 6 {
		r.mustLeave(0, "a", "key", fmt.Sprintf(`{"user":%q}`, []string{"ann", "bob"}[n%2]))
	}
	storetest.Must(t, r.s.Sweep(t.Context()))
	if n := r.mustErase(&record.Operation{Subject: "ann", Since: time.Now().Add(time.Minute).UnixMilli()}); n != 3 {
		t.Errorf("%d facts were erased, want 3", n)
	}
	if facts, _, gap := r.mustReadAll(at, 10); len(facts) != 3 || gap != 3 {
		t.Errorf("a reader gets %d facts and misses %d, want 3 and 3", len(facts), gap)
	}
}

// E6: after an outbox had a fact about the user there is another pass, because a relay may have read it. What happens later than results
// of what was there before is deleted, too, and makes no other pass: a name that goes on being used has such facts in each.
func TestE6_AFactOnItsWayMakesAnotherPass(t *testing.T) {
	t.Parallel()
	r := setupRelay(t, storetest.Open(t, "embedded"))
	o := &record.Operation{Subject: "ann", Since: 1000, CreatedAt: 1100} // the clock of SQL is ahead
	key := outboxKey(r.other, 0)
	r.mustLeave(1, "a", "key", `{"user":"annie"}`, "1001")
	for at, want := range map[string]Erased{"1000": {Before: 1, Any: true}, "1100": {Before: 1, Any: true}, "1101": {Any: true}, "3100": {Any: true}, "3101": {}, "": {}} {
		r.mustLeave(0, "a", "key", `{"chat":"c","sender":"ann"}`, at)
		for _, want := range []Erased{want, {}} {
			if got, err := r.s.EraseLeft(t.Context(), o, 2*time.Second, []string{key, outboxKey(r.other, 1), r.s.lane(0)}); err != nil || got != want {
				t.Errorf("of what happened at %q: %+v %v, want %+v", at, got, err, want)
			}
		}
		if left := r.db.Client().XLen(t.Context(), key).Val(); left != 0 {
			t.Errorf("of what happened at %q %d are left", at, left)
		}
	}
}

// E6: however many lanes and facts there are, an erasure reads a bounded number of them in a round trip, and deletes those of a lane
// together.
func TestE6_FactsAreErasedAtABoundedCost(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	r := setupRelay(t, storetest.Open(t, server.URL()))
	var keys []string
	want := Erased{Any: true}
	for n := range 3 * eraseAtOnce {
		key := fmt.Sprintf("ff:{test:%d}:facts:out", n)
		many := eraseAtOnce*erasePage/10 + n
		if n == 0 {
			many = 3*erasePage + 1
		}
		var adds []redis.Cmder
		for m := range many {
			adds = append(adds, redis.NewStringCmd(t.Context(), "xadd", key, "*", "t", "a", "k", "k", "a", "1", "d", fmt.Sprintf(`{"user":%q}`, []string{"ann", "bob"}[m%2])))
		}
		storetest.Must(t, r.db.Do(t.Context(), redisdb.Write, adds...))
		keys, want.Before = append(keys, key), want.Before+int64(many+1)/2
	}
	var counted reads
	r.db.Client().AddHook(&counted)
	storetest.Must(t, server.Client().ConfigResetStat(t.Context()).Err())
	o := &record.Operation{Subject: "ann", Since: time.Now().UnixMilli()}
	if got, err := r.s.EraseLeft(t.Context(), o, 0, keys); err != nil || got != want {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
	if most := counted.most.Load(); most > eraseAtOnce*erasePage {
		t.Errorf("%d facts were read at once", most)
	}
	if dels := storetest.Calls(t, server.Client(), "xdel"); dels != len(keys)+3 {
		t.Errorf("%d commands deleted facts, want one of each page", dels)
	}
}

// mustErase erases as the operation does: outboxes first, then lanes.
func (r *relayed) mustErase(o *record.Operation) (erased int64) {
	r.t.Helper()
	var mu sync.Mutex
	storetest.Must(r.t, r.db.Walk(r.t.Context(), "ff:*", func(ctx context.Context, keys []string) error {
		mu.Lock() // the masters of a Cluster are walked through at the same time
		defer mu.Unlock()
		n, err := r.s.EraseLeft(ctx, o, 0, keys)
		erased += n.Before
		return err
	}))
	n, err := r.s.Erase(r.t.Context(), o)
	storetest.Must(r.t, err)
	return erased + n.Before
}

// E6: a fact that is moved between the looks at the outboxes and at the lanes is found.
func TestE6_AFactThatIsMovedMeanwhileGoes(t *testing.T) {
	t.Parallel()
	r := setupRelay(t, storetest.Open(t, "embedded"))
	lanes := map[int]bool{}
	for n := 0; len(lanes) < r.s.Lanes(); n++ { // a fact for each lane
		if key := fmt.Sprint("key", n); !lanes[r.q.LaneOf(key)] {
			lanes[r.q.LaneOf(key)] = true
			r.mustLeave(n%3, "a", key, `{"user":"ann"}`)
		}
	}
	var move sync.Once
	before := r.s
	r.s = r.relay(storetest.Faulty(t, r.db, func(name string, answered bool) error {
		if name == "xrange" && answered { // the first place was looked at
			move.Do(func() { storetest.Must(t, before.Sweep(t.Context())) })
		}
		return nil
	}))
	if erased := r.mustErase(&record.Operation{Subject: "ann", Since: time.Now().Add(time.Minute).UnixMilli()}); erased != int64(before.Lanes()) {
		t.Errorf("%d of %d facts were erased", erased, before.Lanes())
	}
	storetest.Must(t, before.Sweep(t.Context()))
	if facts, _, _ := r.mustReadAll("", 100); len(facts) > 0 {
		t.Errorf("these are left: %v", facts)
	}
}
