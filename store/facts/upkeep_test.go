package facts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
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

// E6: the facts that name an erased user are deleted from lanes and outboxes, if they are older than the operation.
func TestE6_FactsOfAnErasedUserGo(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRelay(t, db)
		tell := func(key, user string) {
			t.Helper()
			r.told++
			_, err := db.Eval(t.Context(), redisdb.Write, moveScript, r.s.keys(r.q.LaneOf(key)), "test", always, fmt.Sprintf("%d-0", r.told), "a", key, "", `{"user":"`+user+`","reason":"ann"}`)
			storetest.Must(t, err)
			r.mustLeave(1, "a", key, `{"user":"`+user+`"}`, fmt.Sprint(time.Now().UnixMilli()))
		}
		old := queue.NewID(2, time.Now())
		for n := range 3 {
			tell(fmt.Sprint("key", n), "ann")
			tell(fmt.Sprint("key", n), "bob")
		}
		since := time.Now().Add(time.Second)
		o := &record.Operation{Subject: "ann", Since: since.UnixMilli(), CreatedAt: since.UnixMilli()}
		storetest.Eventually(t, soon, "a second is over", func() bool { return time.Now().After(since.Add(10 * time.Millisecond)) })
		tell("new", "ann")
		tell(old, "ann") // of an event that was there before
		erased, mu := int64(0), sync.Mutex{}
		storetest.Must(t, db.Walk(t.Context(), "ff:*", func(ctx context.Context, keys []string) error {
			mu.Lock() // the masters of a Cluster are walked through at the same time
			defer mu.Unlock()
			n, err := r.s.Erase(ctx, o, keys)
			erased += n
			return err
		}))
		if erased != 8 {
			t.Errorf("%d facts were erased, want 8", erased)
		}
		storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes))
		facts, _, _ := r.mustReadAll("", 100)
		if len(facts) != 8 {
			t.Errorf("these are left: %v", facts)
		}
		for _, f := range facts {
			if f.Key != "new" && strings.Contains(string(f.Data), `"ann"`) && !strings.Contains(string(f.Data), "bob") {
				t.Errorf("%s is left: %s", f.ID, f.Data)
			}
		}
	})
}

// E6: what counts is when it happened, by the clock of its step, however late it was moved.
func TestE6_FactsThatWereMovedLateGo(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		r := setupRelay(t, db)
		since := time.Now().Add(-time.Minute).UnixMilli()
		o := &record.Operation{Subject: "eve", Since: since, CreatedAt: since + 3_600_000} // the clock of SQL is ahead
		leave := func(typ, key, data string, at int64) {
			t.Helper()
			r.mustLeave(0, typ, key, data, fmt.Sprint(at))
		}
		leave(api.FactChatMessage, "chat", `{"chat":"chat","id":1,"sender":"eve"}`, since)
		leave(api.FactChatMessage, "chat", `{"chat":"chat","id":2,"sender":"eve"}`, since+1)
		leave(api.FactChatMessage, "eve", `{"chat":"eve","id":3,"sender":"bob"}`, since)
		leave(api.FactDeviceDropped, "phone", `{"user":"eve","reason":"4"}`, o.CreatedAt)
		leave(api.FactDeviceDropped, "phone", `{"user":"eve","reason":"5"}`, o.CreatedAt+1)
		storetest.Must(t, r.s.round(t.Context(), r.s.o.Outboxes))
		mu := sync.Mutex{}
		storetest.Must(t, db.Walk(t.Context(), "ff:*", func(ctx context.Context, keys []string) error {
			mu.Lock()
			defer mu.Unlock()
			_, err := r.s.Erase(ctx, o, keys)
			return err
		}))
		facts, _, _ := r.mustReadAll("", 100)
		var left []string
		for _, f := range facts {
			left = append(left, string(f.Data))
		}
		slices.Sort(left)
		want := []string{`{"chat":"chat","id":2,"sender":"eve"}`, `{"chat":"eve","id":3,"sender":"bob"}`, `{"user":"eve","reason":"5"}`}
		if !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
	})
}
