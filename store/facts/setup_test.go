package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

const soon = 20 * time.Second

// always lets a lane take facts however old their ids are.
const always = 1 << 52

// world is a store with a queue of events of its own.
type world struct {
	t  testing.TB
	db *redisdb.DB
	q  *queue.Queue
	s  *Store

	mu   sync.Mutex
	told int // facts that mustTell told
}

// setup makes a store with four lanes.
func setup(t testing.TB, db *redisdb.DB, change ...func(*Options)) *world {
	t.Helper()
	qo := queuetest.Options(t)
	qo.Shards, qo.Lanes = 4, true
	w := &world{t: t, db: db, q: queue.New(db, qo)}
	o := Options{DB: db, Events: w.q, On: func(string) bool { return true }}
	for _, f := range change {
		f(&o)
	}
	w.s = New(o)
	return w
}

// mustTell tells facts of a type about a key, whose data are numbers that rise, and returns these.
func (w *world) mustTell(typ, key string, n int) (numbers []int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	args := []any{"test", always}
	for range n {
		w.told++
		numbers = append(numbers, w.told)
		args = append(args, fmt.Sprintf("%d-0", w.told), typ, key, "", w.told)
	}
	_, err := w.db.Eval(w.t.Context(), redisdb.Write, moveScript, w.s.keys(w.q.LaneOf(key)), args...)
	storetest.Must(w.t, err)
	return numbers
}

// mustRead reads a page without waiting.
func (w *world) mustRead(after string, limit int, types ...string) *api.FactList {
	w.t.Helper()
	list, err := w.s.Read(w.t.Context(), nil, after, types, limit)
	storetest.Must(w.t, err)
	return list
}

// mustReadAll reads pages until there is an empty one, and returns the facts, the end and the gap.
func (w *world) mustReadAll(after string, limit int, types ...string) (all []api.Fact, next string, gap int64) {
	w.t.Helper()
	for {
		list := w.mustRead(after, limit, types...)
		gap += list.Gap
		if len(list.Items) == 0 && list.Next == after {
			return all, after, gap
		}
		all, after = append(all, list.Items...), list.Next
	}
}

// mustLast is the fact with the largest number that mustTell told, among those that are kept.
func (w *world) mustLast() (last api.Fact) {
	w.t.Helper()
	facts, _, _ := w.mustReadAll("", 1000)
	for _, f := range facts {
		var n int
		if json.Unmarshal(f.Data, &n) == nil && (last.ID == "" || n > numberOf(w.t, last)) {
			last = f
		}
	}
	return last
}

// numberOf is the number in a fact that mustTell told.
func numberOf(t testing.TB, f api.Fact) (n int) {
	t.Helper()
	storetest.Must(t, json.Unmarshal(f.Data, &n))
	return n
}

// waiting is a context in which Read waits.
func waiting(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
