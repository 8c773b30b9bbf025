package contacts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fanfare/store/storetest"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
)

func TestR5_FillsUpBelowMin(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 6, Min: 3}, func(t *testing.T, w *world) {
		w.work(t)
		for i := range 10 {
			c := fmt.Sprint("c", i)
			w.mustUpload(t, "u"+c, c, "public", int64(i))
			w.mustPut(t, "me", c, "friend")
		}
		w.want(t, "me", 1, "c9@9")
		w.waitForJobs(t)
		w.wantMembers(t, "me", "c9@9", "c8@8", "c7@7", "c6@6", "c5@5", "c4@4")
		for _, c := range []string{"c9", "c7", "c5"} {
			w.mustRemove(t, "me", c)
		}
		w.waitForJobs(t)
		w.wantMembers(t, "me", "c8@8", "c6@6", "c4@4") // three are not fewer than min
		w.mustRemove(t, "me", "c4")
		w.waitForJobs(t)
		w.wantMembers(t, "me", "c8@8", "c6@6", "c3@3", "c2@2", "c1@1", "c0@0")
	})
}

func TestR5_SmallListsAreCompleteAndLeftAlone(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 6, Min: 3}, func(t *testing.T, w *world) {
		w.work(t)
		for _, c := range []string{"a", "b", "c"} {
			w.mustUpload(t, "u"+c, c, "public", 5)
			w.mustPut(t, "me", c, "friend")
		}
		w.want(t, "me", 1, "c@5")
		w.waitForJobs(t)
		built := w.state(t, "me", "q")
		w.forbidScans()
		w.mustRemove(t, "me", "c")
		w.mustRemove(t, "me", "b")
		w.waitForJobs(t)
		w.want(t, "me", 6, "a@5")
		if fs := w.state(t, "me", "fs"); fs != "" || built == "" {
			t.Fatalf("a small list has a floor: %s", fs)
		}
	})
}

// The numbers of the spec: max 5, min 2; add a1..a8 with uploads 1..8; remove
// a4, a5, a6; add b with upload 0.5; remove a8; the top two are a7, a3.
func TestR6_Floor(t *testing.T) {
	t.Parallel()
	t.Run("ItsNumbers", func(t *testing.T) {
		t.Parallel()
		for _, jobs := range []bool{true, false} {
			t.Run(fmt.Sprintf("Jobs=%t", jobs), func(t *testing.T) {
				t.Parallel()
				eachWorld(t, Options{Max: 5, Min: 2}, func(t *testing.T, w *world) { floorCase(t, w, jobs) })
			})
		}
	})
	t.Run("Scaled", func(t *testing.T) {
		t.Parallel()
		eachWorld(t, Options{Max: 120, Min: 10}, func(t *testing.T, w *world) {
			w.want(t, "me", 1, "")
			name := func(i int) string { return fmt.Sprintf("a%04d", i) }
			for i := range 400 {
				_, _, err := w.rec.PutUpload(t.Context(), uploadOf("u"+name(i), name(i), int64(10*i+10)), api.Idempotency{})
				storetest.Must(t, err)
				_, err = w.rec.PutContact(t.Context(), record.Contact{Owner: "me", Contact: name(i), Relationship: "friend"})
				storetest.Must(t, err)
				storetest.Must(t, w.syncOne(t.Context(), "me", name(i)))
			}
			if n := len(w.members(t, "me")); n != 120 {
				t.Fatalf("%d members", n)
			}
			for i := 281; i < 400; i++ { // only a0280 is left of what the index held
				w.mustRemove(t, "me", name(i))
			}
			w.mustUpload(t, "low", "b", "public", 5)
			w.mustPut(t, "me", "b", "friend")
			for _, n := range []int{1, 2, 10, 120} {
				w.want(t, "me", n, w.bruteForce(t, "me", n))
			}
		})
	})
}

func floorCase(t *testing.T, w *world, jobs bool) {
	t.Helper()
	wait := func() {}
	if jobs {
		w.work(t)
		wait = func() { w.waitForJobs(t) }
	}
	w.want(t, "me", 1, "")
	for i := 1; i <= 8; i++ {
		c := fmt.Sprint("a", i)
		w.mustUpload(t, "u"+c, c, "public", int64(10*i))
		w.mustPut(t, "me", c, "friend")
	}
	wait()
	w.wantMembers(t, "me", "a8@80", "a7@70", "a6@60", "a5@50", "a4@40")
	for _, c := range []string{"a4", "a5", "a6"} {
		w.mustRemove(t, "me", c)
	}
	w.mustUpload(t, "ub", "b", "public", 5)
	w.mustPut(t, "me", "b", "friend")
	wait()
	w.mustRemove(t, "me", "a8")
	wait()
	w.want(t, "me", 2, "a7@70 a3@30")
	w.want(t, "me", 5, "a7@70 a3@30 a2@20 a1@10 b@5")
	if fs := w.state(t, "me", "fs"); fs != "" {
		t.Fatalf("everybody is in the index, yet there is a floor: %s", fs)
	}
}

func uploadOf(id, owner string, ms int64) *api.UploadRequest {
	at := api.AtMillis(ms)
	return &api.UploadRequest{ID: id, Owner: owner, Visibility: "public", UploadedAt: &at}
}

// R6: the first one left out is the floor, and what ranks above it by name alone
// is trusted.
func TestR6_FloorAmongTies(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 5, Min: 2}, func(t *testing.T, w *world) {
		for _, c := range []string{"a", "B", "b", "a.", "Z", "_", "9", "-"} {
			w.mustUpload(t, "u"+c, c, "public", 7)
			w.mustPut(t, "me", c, "friend")
		}
		w.want(t, "me", 5, "b@7 a.@7 a@7 _@7 Z@7")
		if fm := w.state(t, "me", "fm"); fm != "B" {
			t.Fatalf("the floor is %q, want B", fm)
		}
		w.forbidScans()
		w.want(t, "me", 5, "b@7 a.@7 a@7 _@7 Z@7") // proven without SQL's list
	})
}

func TestR7_AnyOrderEndsWithTheNewest(t *testing.T) {
	t.Parallel()
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustUpload(t, "u", "c", "public", 5)
		for i, order := range orders {
			for _, last := range []bool{true, false} {
				user := fmt.Sprintf("me%d%t", i, last)
				w.want(t, user, 1, "")
				jobs := []queue.Job{w.put(t, user, "c"), w.remove(t, user, "c")}
				if last {
					jobs = append(jobs, w.put(t, user, "c"))
				} else {
					jobs = append(jobs, jobs[0])
				}
				for _, n := range order {
					w.do(t, jobs[n])
				}
				w.do(t, jobs[order[0]]) // and one again
				want := []string{}
				if last {
					want = []string{"c@5"}
				}
				if got := w.members(t, user); !slices.Equal(got, want) {
					t.Errorf("order %v, add last %t: %v, want %v", order, last, got, want)
				}
			}
		}
	})
}

// R7: a contact that comes back after its row was forgotten goes on above all versions it
// had, and late jobs of its first time change nothing.
func TestR7_AForgottenContactComesBack(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 4, Min: 2}, func(t *testing.T, w *world) {
		ctx, friend := t.Context(), &api.ContactRequest{Relationship: "friend"}
		w.mustUpload(t, "u", "c", "public", 5)
		var jobs []queue.Job
		w.announce = func(_ context.Context, made ...queue.Job) { jobs = append(jobs, made...) }
		version := func() (v int64) {
			storetest.Must(t, w.sql.QueryRow("SELECT version FROM contacts WHERE owner = 'me' AND contact = 'c'").Scan(&v))
			return v
		}
		put := func() {
			t.Helper()
			_, created, err := w.PutContact(ctx, "me", "c", friend)
			if storetest.Must(t, err); !created {
				t.Error("it was there")
			}
		}
		w.want(t, "me", 4, "")
		put()
		late := jobs[len(jobs)-1]
		storetest.Must(t, w.DeleteContact(ctx, "me", "c"))
		last := version()
		_, err := w.rec.PurgeContacts(ctx, 0)
		if storetest.Must(t, err); version() != last {
			t.Error("it was forgotten while jobs have work with it")
		}
		w.do(t, jobs[len(jobs)-1])
		storetest.Must(t, w.rec.DeleteOutbox(ctx, late.Unique)) // as if its process died right after that
		storetest.Eventually(t, testPatience, "it is forgotten", func() bool {
			_, err := w.rec.PurgeContacts(ctx, 0)
			storetest.Must(t, err)
			var n int
			storetest.Must(t, w.sql.QueryRow("SELECT COUNT(*) FROM contacts").Scan(&n))
			return n == 0
		})
		w.do(t, late)
		w.wantMembers(t, "me")
		put()
		if v := version(); v <= last {
			t.Errorf("version %d after %d", v, last)
		}
		w.do(t, late)
		w.wantMembers(t, "me", "c@5")
	})
}

// put and remove change SQL and give the job that another process would get.
func (w *world) put(t testing.TB, user, contact string) queue.Job {
	t.Helper()
	out, err := w.rec.PutContact(t.Context(), record.Contact{Owner: user, Contact: contact, Relationship: "friend"})
	storetest.Must(t, err)
	return contactJob(out.Outbox, record.Pair{Owner: user, Contact: contact})
}

func (w *world) remove(t testing.TB, user, contact string) queue.Job {
	t.Helper()
	out, err := w.rec.RemoveContact(t.Context(), user, contact)
	storetest.Must(t, err)
	return contactJob(out.Outbox, record.Pair{Owner: user, Contact: contact})
}

// do runs the handler of a job here.
func (w *world) do(t testing.TB, j queue.Job) {
	t.Helper()
	r := w.Jobs()[j.Type](t.Context(), &queue.Claimed{Job: j})
	if r.Outcome != queue.Done {
		t.Fatalf("%s: %+v", j.Type, r)
	}
}

// R7: the job that read SQL first may write last.
func TestR7_ALateWriterReadsAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustUpload(t, "u", "c", "public", 5)
		w.want(t, "me", 1, "")
		w.remove(t, "me", "c")
		before, _, err := w.index.relations(t.Context(), "me")
		storetest.Must(t, err) // a job has read: not a contact
		w.do(t, w.put(t, "me", "c"))
		out, err := w.index.sync(t.Context(), "me", before, present{"c", nil})
		if err != nil || out.status != syncMoved {
			t.Fatalf("an old view was written: %+v, %v", out, err)
		}
		w.wantMembers(t, "me", "c@5")
	})
}

// R7, R8: a contact that has nothing to show yet, by a reading of SQL that a fan-out
// has overtaken, stays where the fan-out put it.
func TestR7_ASyncDoesNotUndoAFanOut(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.want(t, "me", 1, "")
		w.put(t, "me", "c")
		storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"c", 50}))
		storetest.Must(t, w.syncOne(t.Context(), "me", "c"))
		w.wantMembers(t, "me", "c@50")
	})
}

func TestR7_ManyAtOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 8, Min: 4}, func(t *testing.T, w *world) {
		w.work(t)
		w.want(t, "me", 1, "")
		for i := range 20 {
			w.mustUpload(t, fmt.Sprint("u", i), fmt.Sprint("c", i), "public", int64(i))
		}
		done := make(chan error, 8)
		for range 8 {
			go func() { done <- w.churn(t.Context(), 40) }()
		}
		for range 8 {
			storetest.Must(t, <-done)
		}
		w.waitForJobs(t)
		for _, n := range []int{1, 5, 8} {
			w.want(t, "me", n, w.bruteForce(t, "me", n))
		}
		w.wantCompact(t, "me")
	})
}

func (w *world) churn(ctx context.Context, times int) error {
	for range times {
		c := fmt.Sprint("c", rand.IntN(20))
		var err error
		if rand.IntN(2) == 0 {
			_, _, err = w.PutContact(ctx, "me", c, &api.ContactRequest{Relationship: "friend"})
		} else {
			err = w.DeleteContact(ctx, "me", c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestR8_RepopulateRaces(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, w *world) (*build, *ranking) {
		t.Helper()
		b := &build{x: w.index, user: "me", token: "mine", lease: jobLease}
		mine, err := b.begin(t.Context(), false)
		if err != nil || !mine {
			t.Fatalf("begin: %t, %v", mine, err)
		}
		r, _, err := w.scan(t.Context(), "me", w.o.Max+1, 0, nil)
		storetest.Must(t, err)
		return b, r
	}
	race := func(t *testing.T, fn func(t *testing.T, w *world)) {
		t.Helper()
		t.Parallel()
		eachWorld(t, Options{Max: 4, Min: 2}, func(t *testing.T, w *world) {
			for i := range 8 {
				c := fmt.Sprint("c", i)
				_, _, err := w.rec.PutUpload(t.Context(), uploadOf("u"+c, c, int64(10*i)), api.Idempotency{})
				storetest.Must(t, err)
				storetest.Must(t, w.rec.PutContacts(t.Context(), record.Contact{Owner: "me", Contact: c, Relationship: "friend"}))
			}
			fn(t, w)
		})
	}
	t.Run("RemovalWinsOverTheOlderSnapshot", func(t *testing.T) {
		race(t, func(t *testing.T, w *world) {
			b, old := begin(t, w)
			w.do(t, w.remove(t, "me", "c7"))
			if status, err := b.fill(t.Context(), old); err != nil || status != buildMoved {
				t.Fatalf("an old snapshot was taken: %d, %v", status, err)
			}
			w.wantMembers(t, "me")
			again, _, err := w.scan(t.Context(), "me", w.o.Max+1, 0, nil)
			storetest.Must(t, err)
			if status, err := b.fill(t.Context(), again); err != nil || status != buildOK {
				t.Fatalf("fill: %d, %v", status, err)
			}
			w.wantMembers(t, "me", "c6@60", "c5@50", "c4@40", "c3@30")
		})
	})
	t.Run("ANewerUploadWins", func(t *testing.T) {
		race(t, func(t *testing.T, w *world) {
			b, old := begin(t, w)
			w.mustUpload(t, "newer", "c6", "public", 99)
			w.mustUpload(t, "newest", "c0", "public", 100) // not in the snapshot at all
			for _, owner := range []string{"c6", "c0"} {
				storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{owner, map[string]int64{"c6": 99, "c0": 100}[owner]}))
			}
			if status, err := b.fill(t.Context(), old); err != nil || status != buildOK {
				t.Fatalf("fill: %d, %v", status, err)
			}
			w.wantMembers(t, "me", "c0@100", "c6@99", "c7@70", "c5@50")
			w.want(t, "me", 4, "c0@100 c6@99 c7@70 c5@50")
		})
	})
	t.Run("WhatIsTrimmedMeanwhileRaisesTheFloor", func(t *testing.T) {
		race(t, func(t *testing.T, w *world) {
			b, old := begin(t, w)
			for i := range 6 { // none of these is in the snapshot
				c := fmt.Sprint("n", i)
				w.mustUpload(t, "u"+c, c, "public", int64(1000+i))
				storetest.Must(t, w.rec.PutContacts(t.Context(), record.Contact{Owner: "me", Contact: c, Relationship: "friend"}))
				storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{c, int64(1000 + i)}))
			}
			if status, err := b.fill(t.Context(), old); err != nil || status != buildOK {
				t.Fatalf("fill: %d, %v", status, err)
			}
			if fm := w.state(t, "me", "fm"); fm != "n1" {
				t.Fatalf("the floor is %s, want n1, the best that was trimmed", fm)
			}
			w.want(t, "me", 4, w.bruteForce(t, "me", 4))
		})
	})
	t.Run("ALostRightFillsNothing", func(t *testing.T) {
		race(t, func(t *testing.T, w *world) {
			b, old := begin(t, w)
			storetest.Must(t, w.db.Client().Set(t.Context(), buildKey("me"), "another", 0).Err())
			if status, err := b.fill(t.Context(), old); err != nil || status != buildLost {
				t.Fatalf("fill: %d, %v", status, err)
			}
			w.wantMembers(t, "me")
		})
	})
}

func TestR11_WidenedVisibility(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.work(t)
		w.mustPut(t, "me", "a", "friend")
		w.mustUpload(t, "u", "a", "private", 50)
		w.mustUpload(t, "v", "a", "public", 10)
		w.want(t, "me", 1, "a@10")
		for _, v := range []api.Visibility{"friends", "public"} {
			_, err := w.SetVisibility(t.Context(), "u", v)
			storetest.Must(t, err)
		}
		w.waitForJobs(t)
		w.wantMembers(t, "me", "a@50")
		w.want(t, "me", 1, "a@50")

		_, err := w.SetVisibility(t.Context(), "u", "family") // narrowed
		storetest.Must(t, err)
		if stats, _ := w.Stats(t.Context()); stats.Pending != 0 {
			t.Fatalf("narrowing left work: %+v", stats)
		}
		w.want(t, "me", 1, "a@10")
		w.wantMembers(t, "me", "a@10") // the read sorted it out

		w.mustPut(t, "a", "me", "family") // the owner calls the viewer more
		w.waitForJobs(t)
		w.wantMembers(t, "me", "a@50")
		w.mustPut(t, "a", "me", "contact")
		w.want(t, "me", 1, "a@10")
	})
}

func TestR11_DeletedUpload(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.work(t)
		w.mustPut(t, "me", "a", "friend")
		w.mustPut(t, "me", "b", "friend")
		w.mustUpload(t, "a2", "a", "public", 20)
		w.mustUpload(t, "b1", "b", "public", 10)
		w.waitForJobs(t)
		w.want(t, "me", 2, "a@20 b@10")
		for range 2 {
			storetest.Must(t, w.DeleteUpload(t.Context(), "a2"))
		}
		if stats, _ := w.Stats(t.Context()); stats.Pending != 0 {
			t.Fatalf("a deletion left work: %+v", stats)
		}
		w.want(t, "me", 2, "b@10")
		w.wantMembers(t, "me", "b@10")
	})
}

func TestRebuildOnRequest(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 4, Min: 2}, func(t *testing.T, w *world) {
		w.work(t)
		w.mustUpload(t, "u", "a", "public", 5)
		w.mustPut(t, "me", "a", "friend")
		w.want(t, "me", 1, "a@5")
		storetest.Must(t, w.db.Client().ZAdd(t.Context(), recentKey("me"), z("ghost", 99)).Err())
		once := api.Idempotency{Scope: "k /v1", Key: "x"}
		first, replayed, err := w.Rebuild(t.Context(), "me", once)
		if err != nil || replayed {
			t.Fatal(replayed, err)
		}
		again, replayed, err := w.Rebuild(t.Context(), "me", once)
		if err != nil || !replayed || *again != *first {
			t.Fatalf("%+v, %t, %v; want %+v again", again, replayed, err, first)
		}
		once.Body = [32]byte{1}
		_, _, err = w.Rebuild(t.Context(), "me", once)
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
		w.waitForJobs(t)
		w.wantMembers(t, "me", "a@5")
		if strings.Contains(w.mustRecent(t, "me", 4), "ghost") {
			t.Fatal("a ghost")
		}
	})
}
