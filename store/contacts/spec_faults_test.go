package contacts

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustFollow makes many users who call a star a contact, each with an index that
// is built and empty.
func (w *world) mustFollow(t testing.TB, star string, n int) []string {
	t.Helper()
	users := make([]string, n)
	rows := make([]record.Contact, n)
	for i := range users {
		users[i] = fmt.Sprintf("f%07d", i)
		rows[i] = record.Contact{Owner: users[i], Contact: star, Relationship: "contact"}
	}
	for part := range slices.Chunk(rows, 10_000) {
		storetest.Must(t, w.rec.PutContacts(t.Context(), part...))
	}
	for part := range slices.Chunk(users, 5000) {
		_, err := w.db.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, u := range part {
				p.HSet(t.Context(), stateKey(u), "q", 1, "r", 1)
				p.Expire(t.Context(), stateKey(u), time.Hour)
			}
			return nil
		})
		storetest.Must(t, err)
	}
	return users
}

// raised counts the users in whose index the star stands with that time.
func (w *world) raised(t testing.TB, users []string, star string, ms float64) int {
	t.Helper()
	n := 0
	for part := range slices.Chunk(users, 5000) {
		cmds, err := w.db.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, u := range part {
				p.ZScore(t.Context(), recentKey(u), star)
			}
			return nil
		})
		if err != redis.Nil {
			storetest.Must(t, err)
		}
		for _, c := range cmds {
			if score, err := c.(*redis.FloatCmd).Result(); err == nil && score == ms {
				n++
			}
		}
	}
	return n
}

func TestR10_FanOutInPages(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 10, JobPages: 3}, func(t *testing.T, w *world) {
		users := w.mustFollow(t, "star", 175)
		w.mustPut(t, "star", users[30], "friend")
		w.mustPut(t, "star", users[31], "family")
		w.work(t)
		began := time.Now()
		w.mustUpload(t, "u1", "star", "public", 50)
		if d := time.Since(began); d > 5*time.Second {
			t.Fatalf("accepting took %v", d)
		}
		w.mustUpload(t, "u2", "star", "friends", 60)
		w.waitForJobs(t)
		if n := w.raised(t, users, "star", 50); n != 174 {
			t.Fatalf("%d of 174 followers", n)
		}
		if n := w.raised(t, users[30:31], "star", 60); n != 1 {
			t.Fatal("the friend was forgotten")
		}
		if ttl := w.db.Client().PTTL(t.Context(), recentKey(users[0])).Val(); ttl <= time.Hour {
			t.Fatalf("the entries live %v, no longer than their state", ttl)
		}
	})
}

// A narrowed upload goes on to those who may still see it, from the very page that
// was read before and raised after.
func TestR11_NarrowedInMidFanOut(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 10, JobPages: 1000}, func(t *testing.T, w *world) {
		users := w.mustFollow(t, "star", 6000)
		var friends []string
		var rows []record.Contact
		for i := 5; i < len(users); i += 10 { // one on each page
			friends = append(friends, users[i])
			rows = append(rows, record.Contact{Owner: "star", Contact: users[i], Relationship: "friend"})
		}
		storetest.Must(t, w.rec.PutContacts(t.Context(), rows...))
		w.work(t)
		w.mustUpload(t, "u1", "star", "public", 50)
		storetest.Eventually(t, 20*time.Second, "the fan-out has begun", func() bool { return w.raised(t, users[:1], "star", 50) > 0 })
		_, err := w.SetVisibility(t.Context(), "u1", "friends")
		storetest.Must(t, err)
		w.waitForJobs(t)
		if w.raised(t, users, "star", 50) == len(users) {
			t.Fatal("narrowed too late")
		}
		if n := w.raised(t, friends, "star", 50); n != len(friends) {
			t.Fatalf("%d of %d friends", n, len(friends))
		}
	})
}

func TestR10_KilledInMidFanOut(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Redis(t).URL(), storetest.MySQL(t), Options{})
	users := w.mustFollow(t, "star", 12_000)
	w.mustUpload(t, "u1", "star", "public", 50)
	p := &process{Role: "worker", Redis: w.redisURL(), SQL: w.sqlURL, Options: Options{Page: 10, JobPages: 5}}
	first := p.start(t)
	storetest.Eventually(t, 20*time.Second, "the fan-out has begun", func() bool { return w.raised(t, users[:100], "star", 50) > 0 })
	kill(first)
	half := w.raised(t, users, "star", 50)
	if half == 0 || half == len(users) {
		t.Fatalf("killed when %d of %d were raised: too early or too late", half, len(users))
	}
	p.start(t)
	w.waitForJobs(t)
	if n := w.raised(t, users, "star", 50); n != len(users) {
		t.Fatalf("%d of %d followers after a kill at %d", n, len(users), half)
	}
}

func (w *world) redisURL() string { return storetest.URLOf(w.db) }

func TestR12_KilledBetweenCommitAndEnqueue(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"Contact", "Batch", "Upload"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			upload := ""
			if change == "Upload" {
				upload = "u1"
			}
			w := setup(t, storetest.Redis(t).URL(), storetest.MySQL(t), Options{})
			w.relay = quick
			if upload == "" {
				w.mustUpload(t, "before", "a", "public", 50)
			} else {
				storetest.Must(t, w.rec.PutContacts(t.Context(), record.Contact{Owner: "me", Contact: "a", Relationship: "friend"}))
			}
			w.want(t, "me", 1, "")
			p := &process{Role: "dies", Redis: w.redisURL(), SQL: w.sqlURL, Upload: upload, Batch: change == "Batch"}
			if err := p.start(t).Wait(); err == nil || err.Error() != "signal: killed" {
				t.Fatalf("it did not die between commit and enqueue: %v", err)
			}
			if stats, err := w.Stats(t.Context()); err != nil || stats.Pending == 0 {
				t.Fatalf("nothing was committed: %+v, %v", stats, err)
			}
			w.work(t)
			w.waitForJobs(t)
			w.wantMembers(t, "me", "a@50")
		})
	}
}

func TestR12_QueueEmptiedBeforeTheFanOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "embedded"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, sqlURL := "embedded", storetest.SQLite(t)
			if name == "redis" {
				url, sqlURL = storetest.Redis(t).URL(), storetest.MySQL(t)
			}
			first := setup(t, url, sqlURL, Options{})
			main := storetest.Open(t, url) // the embedded one is another each time
			w := withStore(t, first.db, main, first.rec, sqlURL, Options{})
			w.relay = quick
			w.mustPut(t, "me", "a", "friend")
			w.want(t, "me", 1, "")
			w.mustUpload(t, "u1", "a", "public", 50)
			for _, k := range main.Client().Keys(t.Context(), "ff:{q:*").Val() {
				storetest.Must(t, main.Client().Del(t.Context(), k).Err())
			}
			w.work(t)
			w.waitForJobs(t)
			w.wantMembers(t, "me", "a@50")
		})
	}
}

func TestR12_TheSameUploadAgainIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.relay.Age = time.Hour
		w.mustPut(t, "me", "a", "friend")
		w.want(t, "me", 1, "")
		announce := w.announce
		w.announce = func(context.Context, ...queue.Job) {} // dies here
		w.mustUpload(t, "u1", "a", "public", 50)
		w.announce = announce
		w.work(t)
		_, created, _, err := w.PostUpload(t.Context(), uploadOf("u1", "a", 50), api.Idempotency{})
		if err != nil || created {
			t.Fatalf("created %t, %v", created, err)
		}
		storetest.Eventually(t, 30*time.Second, "the fan-out is done", func() bool { return slices.Equal(w.members(t, "me"), []string{"a@50"}) })
	})
}

func TestR12_AChangeHasOneLiveJob(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		relay := w.rec.NewRelay(record.RelayOptions{Age: time.Nanosecond}, w.Outbox())
		w.mustUpload(t, "u1", "a", "public", 50)
		for range 5 {
			storetest.Must(t, relay.Sweep(t.Context()))
		}
		if q, err := w.jobs.Stats(t.Context()); err != nil || q.Depth != 1 {
			t.Fatalf("%d jobs for one upload, %v", q.Depth, err)
		}
	})
}

func TestR13_OneBuildAtATime(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 10, InlinePages: 2}, func(t *testing.T, w *world) {
		for _, user := range []string{"small", "large"} {
			for i := range map[string]int{"small": 5, "large": 50}[user] {
				c := fmt.Sprintf("%s%02d", user, i)
				storetest.Must(t, w.rec.PutContacts(t.Context(), record.Contact{Owner: user, Contact: c, Relationship: "friend"}))
				_, _, err := w.rec.PutUpload(t.Context(), uploadOf("u"+c, c, int64(i+1)), api.Idempotency{})
				storetest.Must(t, err)
			}
			b := &build{x: w.index, user: user, token: "elsewhere", lease: time.Hour}
			if mine, err := b.begin(t.Context(), false); err != nil || !mine {
				t.Fatal(mine, err)
			}
			other := &build{x: w.index, user: user, token: "here", lease: time.Hour}
			if mine, err := other.begin(t.Context(), false); err != nil || mine {
				t.Fatalf("two build at once: %t, %v", mine, err)
			}
		}
		w.want(t, "small", 2, "small04@5 small03@4") // from SQL
		w.want(t, "large", 2, "...")                 // says that it may hide someone
		w.wantMembers(t, "small")
		if w.state(t, "small", "u") == "" {
			t.Fatal("a read ended another's build")
		}
		w.work(t)
		for _, user := range []string{"small", "large"} { // the builder died: its right ends
			storetest.Must(t, w.db.Client().PExpire(t.Context(), buildKey(user), time.Millisecond).Err())
		}
		storetest.Eventually(t, 20*time.Second, "the large one is built", func() bool { return w.mustRecent(t, "large", 2) == "large49@50 large48@49" })
		w.want(t, "small", 2, "small04@5 small03@4")
	})
}

func TestR13_TheRightToBuildExpires(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		b := &build{x: w.index, user: "me", token: "dies", lease: 300 * time.Millisecond}
		mine, err := b.begin(t.Context(), true)
		if err != nil || !mine {
			t.Fatal(mine, err)
		}
		w.want(t, "me", 1, "")
		storetest.Eventually(t, 30*time.Second, "a read builds the index", func() bool {
			return w.mustRecent(t, "me", 1) == "" && w.state(t, "me", "u") == ""
		})
	})
}

// A job that stood still beyond its right begins anew: what uploaded and was trimmed
// meanwhile it has read as it was before.
func TestR13_ARightThatEndedIsNotKept(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 10}, func(t *testing.T, w *world) {
		w.mustHave(t, "me", 25)
		for _, ended := range []bool{false, true} {
			b := &build{x: w.index, user: "me", token: "job", over: readerToken, lease: time.Hour}
			if mine, err := b.begin(t.Context(), true); err != nil || !mine {
				t.Fatal(mine, err)
			}
			want := error(nil)
			if ended {
				storetest.Must(t, w.db.Client().Del(t.Context(), buildKey("me")).Err())
				want = errLater
			}
			if _, _, err := w.run(t.Context(), b, 0); err != want {
				t.Errorf("ended: %t: %v, want %v", ended, err, want)
			}
		}
	})
}

// A job that comes late to a user with many contacts finds a read's right to build,
// and another read's after that: it does not wait for them.
func TestR13_AJobGoesBeforeReads(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 10, InlinePages: 2}, func(t *testing.T, w *world) {
		w.mustHave(t, "me", 50)
		read := &build{x: w.index, user: "me", token: readerToken + "elsewhere", lease: time.Hour}
		if mine, err := read.begin(t.Context(), false); err != nil || !mine {
			t.Fatal(mine, err)
		}
		w.work(t)
		w.enqueue(t.Context(), rebuildJob("me"))
		want := w.bruteForce(t, "me", 2)
		storetest.Eventually(t, 20*time.Second, "the index is built", func() bool { return w.mustRecent(t, "me", 2) == want })
		if status, err := read.fill(t.Context(), &ranking{}); err != nil || status != buildLost {
			t.Errorf("the read that gave way fills the index: %d, %v", status, err)
		}
		w.want(t, "me", 2, want)
	})
}

// However often a rebuild is asked for, one job runs and one waits: the one that
// waits is for all who came after the other had begun.
func TestR13_RebuildsThatAreAskedForAreShared(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		ask := func(key string) string {
			t.Helper()
			r, replayed, err := w.Rebuild(t.Context(), "me", api.Idempotency{Scope: "k /v1", Key: key})
			if err != nil || replayed {
				t.Fatal(replayed, err)
			}
			return r.ID
		}
		live := func() int64 {
			q, err := w.jobs.Stats(t.Context())
			storetest.Must(t, err)
			return q.Depth + q.InFlight + q.Scheduled + q.Blocked
		}
		first := ask("")
		for i := range 20 {
			if id := ask(fmt.Sprint("key-", i)); id != first {
				t.Fatalf("operation %s, want %s again", id, first)
			}
		}
		if n := live(); n != 1 {
			t.Fatalf("%d jobs after 21 calls, want 1", n)
		}
		w.forbidScans()
		w.work(t)
		w.mustHave(t, "me", 3)
		storetest.Eventually(t, testPatience, "the rebuild has begun, so that a call begins another one", func() bool { return ask("") != first })
		second := ask("")
		if n := live(); n != 2 {
			t.Fatalf("%d jobs after calls while one has begun, want 2", n)
		}
		for _, id := range []string{first, second} {
			if o := w.mustOperation(t, id); o.State != api.OperationRunning {
				t.Errorf("operation %+v, want it to run", o)
			}
		}
		w.allowScans()
		w.waitForJobs(t)
		w.wantMembers(t, "me", strings.Fields(w.bruteForce(t, "me", 10))...)
		for _, id := range []string{first, second} {
			want := api.Operation{ID: id, Action: api.ActionRebuild, State: api.OperationDone, Removed: map[string]int64{}, Kept: map[string]int64{}}
			o := w.mustOperation(t, id)
			if want.BegunAt = o.BegunAt; o.BegunAt.IsZero() || !reflect.DeepEqual(*o, want) {
				t.Errorf("operation %+v, want %+v", *o, want)
			}
		}
	})
}

func (w *world) mustOperation(t testing.TB, id string) *api.Operation {
	t.Helper()
	o, err := w.rec.Operation(t.Context(), id)
	storetest.Must(t, err)
	return o
}

// A rebuild whose job is lost, because Redis was emptied, is done even so, and its operation says
// so only then.
func TestR13_ARebuildOutlivesRedis(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.relay = quick
		w.mustHave(t, "me", 3)
		r, _, err := w.Rebuild(t.Context(), "me", api.Idempotency{})
		storetest.Must(t, err)
		storetest.Must(t, w.db.Client().FlushAll(t.Context()).Err())
		storetest.Must(t, w.jobs.Init(t.Context()))
		if o := w.mustOperation(t, r.ID); o.State != api.OperationRunning {
			t.Errorf("%+v before any process works", o)
		}
		w.work(t)
		storetest.Eventually(t, testPatience, "the operation is done", func() bool { return w.mustOperation(t, r.ID).State == api.OperationDone })
		w.wantMembers(t, "me", strings.Fields(w.bruteForce(t, "me", 10))...)
	})
}

func TestR14_RedisEmptied(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 10, InlinePages: 2}, func(t *testing.T, w *world) {
		for _, user := range []string{"small", "large"} {
			for i := range map[string]int{"small": 5, "large": 50}[user] {
				c := fmt.Sprintf("%s%02d", user, i)
				w.mustPut(t, user, c, "friend")
				w.mustUpload(t, "u"+c, c, "public", int64(i+1))
			}
		}
		stop := w.work(t)
		w.waitForJobs(t)
		stop()
		storetest.Must(t, w.db.Client().FlushAll(t.Context()).Err())
		storetest.Must(t, w.jobs.Init(t.Context()))
		w.want(t, "nobody", 10, "") // no contacts: complete, and empty
		w.want(t, "small", 2, "small04@5 small03@4")
		w.want(t, "large", 2, "...") // never an empty list that claims to be all
		got, err := w.RecentUploads(t.Context(), "large", 1)
		if err != nil || got.Contact == nil || *got.Contact != "large49" {
			t.Fatalf("%+v, %v", got, err)
		}
		w.work(t)
		storetest.Eventually(t, 20*time.Second, "a job built it", func() bool { return w.mustRecent(t, "large", 2) == "large49@50 large48@49" })
	})
}

func TestR14_ManyReadersOfAMissingIndex(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		for i := range 30 {
			c := fmt.Sprintf("c%02d", i)
			storetest.Must(t, w.rec.PutContacts(t.Context(), record.Contact{Owner: "me", Contact: c, Relationship: "friend"}))
			_, _, err := w.rec.PutUpload(t.Context(), uploadOf("u"+c, c, int64(i)), api.Idempotency{})
			storetest.Must(t, err)
		}
		type answer struct {
			r   *api.RecentContacts
			err error
		}
		answers := make(chan answer, 40)
		for range cap(answers) {
			go func() {
				r, err := w.RecentContacts(t.Context(), "me", 2)
				answers <- answer{r, err}
			}()
		}
		for range cap(answers) {
			a := <-answers
			storetest.Must(t, a.err)
			if got := write(a.r); got != "c29@29 c28@28" {
				t.Fatal(got)
			}
		}
	})
}

// A read may share another read's build only if the build began after it came.
func TestR13_ABuildThatBeganEarlierIsNotTheAnswer(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		storetest.Must(t, w.rec.PutContacts(t.Context(), record.Contact{Owner: "me", Contact: "a", Relationship: "friend"}))
		began, released := make(chan struct{}), make(chan struct{})
		w.builds.DoChan("me", func() (any, error) {
			b := built{ranked: &ranking{}, finished: true, began: time.Now()} // has passed a already
			close(began)
			<-released
			return b, nil
		})
		<-began
		w.mustUpload(t, "u", "a", "public", 50) // no index: its fan-out has nothing to do
		got := make(chan string, 1)
		go func() {
			r, err := w.RecentContacts(t.Context(), "me", 5)
			if err != nil {
				got <- err.Error()
				return
			}
			got <- write(r)
		}()
		storetest.Eventually(t, testPatience, "the read has joined the build", func() bool {
			select {
			case text := <-got:
				t.Fatalf("answered %q before the build it joined", text)
			case <-time.After(200 * time.Millisecond):
			}
			return true
		})
		close(released)
		if text := <-got; text != "a@50" {
			t.Fatalf("%q", text)
		}
	})
}

func TestSQLStopped(t *testing.T) {
	t.Parallel()
	proxy, sqlURL := storetest.ProxyTo(t, storetest.MySQL(t))
	w := setup(t, storetest.Redis(t).URL(), sqlURL, Options{})
	w.mustPut(t, "me", "a", "friend")
	w.mustPut(t, "me", "b", "friend")
	w.mustUpload(t, "a1", "a", "public", 10)
	w.want(t, "me", 5, "a@10")
	w.mustUpload(t, "b1", "b", "public", 20)
	proxy.Cut()
	w.work(t) // its jobs meet a database that is away
	calls := map[string]func() error{
		"RecentContacts": func() error { _, err := w.RecentContacts(t.Context(), "me", 5); return err },
		"MissingIndex":   func() error { _, err := w.RecentContacts(t.Context(), "stranger", 5); return err },
		"RecentUploads":  func() error { _, err := w.RecentUploads(t.Context(), "me", 5); return err },
		"PutContact": func() error {
			_, _, err := w.PutContact(t.Context(), "me", "c", &api.ContactRequest{Relationship: "friend"})
			return err
		},
		"PostUpload": func() error {
			_, _, _, err := w.PostUpload(t.Context(), uploadOf("c1", "c", 1), api.Idempotency{})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { storetest.WantCode(t, call(), api.CodeUnavailable) })
	}
	proxy.Mend()
	w.waitForJobs(t) // nobody gave up, nothing is in the dead letters
	w.want(t, "me", 5, "b@20 a@10")
	w.wantMembers(t, "me", "b@20", "a@10")
	if q, err := w.jobs.Stats(t.Context()); err != nil || q.DeadLetters != 0 {
		t.Fatalf("%d dead letters, %v", q.DeadLetters, err)
	}
}

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t, "--appendonly", "yes")
	rec, err := record.Open(t.Context(), record.Options{URL: storetest.MySQL(t)})
	storetest.Must(t, err)
	t.Cleanup(func() { _ = rec.Close() })
	storetest.Must(t, rec.Migrate(t.Context()))
	db := storetest.OpenWith(t, redisdb.Options{URL: server.URL(), Timeout: 500 * time.Millisecond})
	w := &world{db: db, relay: quick}
	jobs := queue.New(db, queue.Options{Name: "jobs", Shards: 2, MaxAge: -1, Lease: 2 * time.Second, RetryMax: time.Second})
	storetest.Must(t, jobs.Init(t.Context()))
	w.Store = New(db, rec, jobs, Options{})
	w.mustPut(t, "me", "a", "friend")
	w.want(t, "me", 5, "")
	server.Kill()
	_, err = w.RecentContacts(t.Context(), "me", 5)
	storetest.WantCode(t, err, api.CodeUnavailable)
	w.mustUpload(t, "a1", "a", "public", 10) // on record: nothing is lost
	w.mustPut(t, "me", "b", "friend")
	server.Restart()
	w.work(t)
	w.mustUpload(t, "b1", "b", "public", 20)
	w.waitForJobs(t)
	w.want(t, "me", 5, "b@20 a@10") // whether Redis kept the index or not
	w.wantMembers(t, "me", "b@20", "a@10")
}

func TestR12_ARowThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		announce := w.announce
		w.announce = func(context.Context, ...queue.Job) {} // dies here
		w.mustPut(t, "me", "a", "friend")
		w.mustPut(t, "me", "b", "friend")
		w.announce = announce
		_, err := w.sql.ExecContext(t.Context(), "UPDATE outbox SET payload = 'broken' WHERE payload LIKE '%\"a\"%'")
		storetest.Must(t, err)
		relay := w.rec.NewRelay(record.RelayOptions{Age: time.Nanosecond}, w.Outbox())
		storetest.Must(t, relay.Sweep(t.Context()))
		if q, err := w.jobs.Stats(t.Context()); err != nil || q.Depth != 1 {
			t.Fatalf("%d jobs, want that of the other row, %v", q.Depth, err)
		}
	})
}
