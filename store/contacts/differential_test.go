package contacts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

const (
	diffUsers  = 200
	diffWindow = 5
)

// operation is one step of the differential test.
type operation struct {
	what       string
	user, peer string
	upload     string
	relation   api.Relationship
	visibility api.Visibility
	at         int64
	limit      int
}

func (op operation) String() string {
	return fmt.Sprintf("%s %s %s %s %s %s %d", op.what, op.user, op.peer, op.upload, op.relation, op.visibility, op.at)
}

// plan makes n random operations: most users know a few dozen others, times
// repeat, uploads are widened, narrowed and deleted.
func plan(r *rand.Rand, n int) []operation {
	relations := []api.Relationship{"contact", "friend", "family"}
	visibilities := []api.Visibility{"public", "public", "public", "contacts", "friends", "family", "private"}
	user := func() string { return fmt.Sprintf("u%03d", r.IntN(diffUsers)) }
	near := func(u string) string {
		i, _ := strconv.Atoi(u[1:])
		return fmt.Sprintf("u%03d", (i+1+r.IntN(40))%diffUsers)
	}
	uploads := 0
	ops := make([]operation, n)
	for i := range ops {
		op := operation{user: user(), relation: relations[r.IntN(3)], visibility: visibilities[r.IntN(len(visibilities))], at: int64(1 + r.IntN(n/2)), limit: 1 + r.IntN(20)}
		op.peer = near(op.user)
		if r.IntN(3) == 0 { // the way back, which decides what is seen
			op.user, op.peer = op.peer, op.user
		}
		op.upload = fmt.Sprint("up", r.IntN(max(1, uploads)))
		switch k := r.IntN(100); {
		case k < 32:
			op.what = "put"
		case k < 40:
			op.what = "batch"
		case k < 52:
			op.what = "remove"
		case k < 77:
			op.what, op.upload = "upload", fmt.Sprint("up", uploads)
			uploads++
		case k < 84:
			op.what = "show"
		case k < 90:
			op.what = "delete"
		case k < 99:
			op.what = "read"
		default:
			op.what = "rebuild"
		}
		ops[i] = op
	}
	return ops
}

// shuffle changes the order within a window and repeats one in ten.
func shuffle(r *rand.Rand, ops []operation) []operation {
	var out []operation
	for part := range slices.Chunk(ops, diffWindow) {
		part = slices.Clone(part)
		for _, op := range part {
			if r.IntN(10) == 0 {
				part = append(part, op)
			}
		}
		r.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		out = append(out, part...)
	}
	return out
}

// apply does one operation; what is not there yet, or any more, is no error.
func (w *world) apply(ctx context.Context, op operation) (err error) {
	switch op.what {
	case "put":
		_, _, err = w.PutContact(ctx, op.user, op.peer, &api.ContactRequest{Relationship: op.relation})
	case "batch":
		_, err = w.PutContacts(ctx, op.user, neighbours(op.peer, op.relation), api.Idempotency{})
	case "remove":
		err = w.DeleteContact(ctx, op.user, op.peer)
	case "upload":
		at := api.AtMillis(op.at)
		r := &api.UploadRequest{ID: op.upload, Owner: op.user, Visibility: op.visibility, UploadedAt: &at}
		_, _, _, err = w.PostUpload(ctx, r, api.Idempotency{})
	case "show":
		_, err = w.SetVisibility(ctx, op.upload, op.visibility)
	case "delete":
		err = w.DeleteUpload(ctx, op.upload)
	case "read":
		_, err = w.RecentContacts(ctx, op.user, min(op.limit, w.o.Max))
	case "rebuild":
		_, _, err = w.Rebuild(ctx, op.user, api.Idempotency{})
	}
	if api.CodeOf(err) == api.CodeNotFound {
		return nil
	}
	return err
}

// neighbours are a few users, beginning with one, as contacts.
func neighbours(user string, r api.Relationship) []api.Contact {
	i, _ := strconv.Atoi(user[1:])
	list := make([]api.Contact, 5)
	for k := range list {
		list[k] = api.Contact{Contact: fmt.Sprintf("u%03d", (i+k)%diffUsers), Relationship: r}
	}
	return list
}

// applyAll does the operations of a window at once, window after window.
func (w *world) applyAll(t testing.TB, ops []operation) {
	t.Helper()
	for part := range slices.Chunk(ops, diffWindow) {
		storetest.AtOnce(t, len(part), func(ctx context.Context, i int) error {
			if err := w.apply(ctx, part[i]); err != nil {
				return fmt.Errorf("%s: %w", part[i], err)
			}
			return nil
		})
	}
}

// compare holds every user's index and answers against plain SQL.
func (w *world) compare(t testing.TB) {
	t.Helper()
	indexed := 0
	for i := range diffUsers {
		user := fmt.Sprintf("u%03d", i)
		w.wantSound(t, user)
		if w.state(t, user, "q") != "" {
			indexed++
		}
		all := strings.Fields(w.bruteForce(t, user, 500))
		for _, n := range []int{1, 3, w.o.Max - 1, w.o.Max} {
			w.want(t, user, n, strings.Join(all[:min(n, len(all))], " "))
		}
	}
	if indexed < diffUsers/2 {
		t.Fatalf("only %d of %d users had an index: the test compares nothing", indexed, diffUsers)
	}
}

// wantSound checks an index itself, before any read repairs it: the cap, the
// encoding, and that nobody above the floor is missing or too low.
func (w *world) wantSound(t testing.TB, user string) {
	t.Helper()
	members := w.members(t, user)
	if len(members) > w.o.Max {
		t.Fatalf("%s has %d members, more than %d", user, len(members), w.o.Max)
	}
	if len(members) > 0 {
		w.wantCompact(t, user)
	}
	if w.state(t, user, "q") == "" || w.state(t, user, "u") != "" {
		return
	}
	scores := map[string]int64{}
	for _, m := range members {
		e := parse(m)
		scores[e.contact] = e.at
	}
	floor := entry{w.state(t, user, "fm"), -1}
	if fs := w.state(t, user, "fs"); fs != "" {
		floor.at, _ = strconv.ParseInt(fs, 10, 64)
	}
	for _, text := range strings.Fields(w.bruteForce(t, user, 500)) {
		e := parse(text)
		if score, ok := scores[e.contact]; floor.less(e) && (!ok || score < e.at) {
			t.Fatalf("%s: %s is above the floor %v, but the index has %v", user, text, floor, members)
		}
	}
}

func parse(text string) entry {
	contact, at, _ := strings.Cut(text, "@")
	ms, _ := strconv.ParseInt(at, 10, 64)
	return entry{contact, ms}
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(10_000, 3000)
	o := Options{Max: 12, Min: 4, Page: 7, JobPages: 2, InlinePages: 20}
	relay := record.RelayOptions{Every: 200 * time.Millisecond, Age: 500 * time.Millisecond}
	t.Run("redis+mysql,WorkersKilled", func(t *testing.T) {
		t.Parallel()
		w := setup(t, storetest.Redis(t).URL(), storetest.MySQL(t), o)
		w.relay = relay
		w.differ(t, n, func() (stop func()) { return w.killWorkers(t) })
	})
	t.Run("embedded+sqlite,WorkersStopped", func(t *testing.T) {
		t.Parallel()
		storetest.SkipShort(t, "many seconds")
		w := setup(t, "embedded", storetest.SQLite(t), o)
		w.relay = relay
		w.differ(t, n/5, func() (stop func()) { return w.stopWorkers(t) })
	})
}

func (w *world) differ(t *testing.T, n int, workers func() (stop func())) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range diffUsers { // everybody has an index from the start
		w.want(t, fmt.Sprintf("u%03d", i), 1, "")
	}
	stop := workers()
	began := time.Now()
	ops := shuffle(r, plan(r, n))
	w.applyAll(t, ops)
	t.Logf("%d operations in %v", len(ops), time.Since(began))
	stop()
	w.work(t)
	w.waitForJobs(t)
	w.compare(t)
}

// killWorkers runs two worker processes and kills one of them with kill -9 again
// and again, till stop.
func (w *world) killWorkers(t testing.TB) (stop func()) {
	t.Helper()
	p := &process{Role: "worker", Redis: w.redisURL(), SQL: w.sqlURL, Options: w.o, Relay: w.relay}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	kills := 0
	wg.Go(func() {
		steady := p.start(t)
		defer kill(steady)
		for {
			victim := p.start(t)
			select {
			case <-quit:
				kill(victim)
				return
			case <-time.After(time.Duration(400+rand.IntN(1200)) * time.Millisecond):
			}
			kill(victim)
			kills++
		}
	})
	return func() {
		close(quit)
		wg.Wait()
		t.Logf("%d workers killed", kills)
		if kills < 3 {
			t.Errorf("only %d workers were killed", kills)
		}
	}
}

// stopWorkers stops and starts the worker of an embedded Redis, which has no
// other process.
func (w *world) stopWorkers(t testing.TB) (stop func()) {
	t.Helper()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			stop := w.work(t)
			select {
			case <-quit:
				stop()
				return
			case <-time.After(time.Duration(100+rand.IntN(300)) * time.Millisecond):
			}
			stop()
		}
	})
	return func() {
		close(quit)
		wg.Wait()
	}
}
