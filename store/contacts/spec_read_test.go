package contacts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"

	"fanfare/api"
	"fanfare/store/record"
)

func TestR1_NewestFirstAndExact(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.work(t)
		w.want(t, "me", 10, "")
		for _, c := range []string{"a", "b", "c", "B", "silent"} {
			w.mustPut(t, "me", c, "friend")
		}
		for i, c := range []string{"a", "b", "B", "c"} {
			w.mustUpload(t, "u-"+c, c, "public", []int64{50, 70, 70, 60}[i])
		}
		w.waitForJobs(t)
		all := "b@70 B@70 c@60 a@50" // a tie: the larger id first
		for n, want := range map[int]string{1: "b@70", 2: "b@70 B@70", 4: all, 10: all, 120: all} {
			w.want(t, "me", n, want)
		}
		stats, err := w.Stats(t.Context())
		if err != nil || stats != (api.ContactsStats{}) {
			t.Fatalf("nothing is to be done, yet the lag is %+v, %v", stats, err)
		}
	})
}

func TestR1_StatsShowTheLag(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustUpload(t, "u1", "star", "public", 5)
		w.mustUpload(t, "u2", "star", "public", 6)
		if stats, err := w.Stats(t.Context()); err != nil || stats.Pending != 2 {
			t.Fatalf("two fan-outs wait, stats say %+v, %v", stats, err)
		}
		w.work(t)
		w.waitForJobs(t)
	})
}

func TestR2_OlderUploadsChangeNothing(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.work(t)
		w.mustPut(t, "me", "a", "friend")
		w.mustUpload(t, "new", "a", "public", 100)
		w.waitForJobs(t)
		w.want(t, "me", 1, "a@100")
		for i, at := range []int64{99, 100, 1} {
			w.mustUpload(t, fmt.Sprint("old", i), "a", "public", at)
			w.waitForJobs(t)
			w.wantMembers(t, "me", "a@100")
		}
	})
}

func TestR3_AddingUsesTheNewestVisibleUpload(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.work(t)
		w.want(t, "me", 5, "") // an index, and it is empty
		w.mustUpload(t, "u1", "a", "public", 10)
		w.mustUpload(t, "u2", "a", "friends", 20)
		w.mustUpload(t, "u3", "a", "private", 30)
		w.mustPut(t, "me", "a", "friend")
		w.mustPut(t, "me", "silent", "friend")
		w.want(t, "me", 5, "a@10")
		w.mustUpload(t, "u4", "silent", "public", 5)
		w.waitForJobs(t)
		w.want(t, "me", 5, "a@10 silent@5")
	})
}

func TestR4_Cap(t *testing.T) {
	t.Parallel()
	t.Run("Defaults", func(t *testing.T) {
		t.Parallel()
		if s := New(nil, nil, nil, Options{}); s.o.Max != 120 || s.o.Min != 10 {
			t.Errorf("defaults: %+v", s.o)
		}
	})
	t.Run("NeverMoreThanMax", func(t *testing.T) {
		t.Parallel()
		eachWorld(t, Options{Max: 127}, func(t *testing.T, w *world) {
			w.want(t, "me", 1, "")
			for i := range 300 {
				storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{fmt.Sprintf("c%03d", (i*7)%300), int64(i)}))
				if n := len(w.members(t, "me")); n != min(i+1, 127) {
					t.Fatalf("%d members after %d contacts", n, i+1)
				}
			}
			w.wantCompact(t, "me")
			if fs, fm := w.state(t, "me", "fs"), w.state(t, "me", "fm"); fs != "172" || fm != "c004" {
				t.Fatalf("the floor is %s %s, want the last one trimmed, 172 c004", fs, fm)
			}
		})
	})
	t.Run("TrimOfAFullSetDeletesNothing", func(t *testing.T) {
		t.Parallel()
		eachWorld(t, Options{Max: 3}, func(t *testing.T, w *world) {
			w.want(t, "me", 1, "")
			for i, c := range []string{"a", "b", "c"} {
				storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{c, int64(i)}))
			}
			storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"b", 9}))
			w.wantMembers(t, "me", "b@9", "c@2", "a@0")
		})
	})
	t.Run("IdsOver64BytesBreakNoPromise", func(t *testing.T) {
		t.Parallel()
		eachWorld(t, Options{Max: 3}, func(t *testing.T, w *world) {
			w.work(t)
			w.want(t, "me", 1, "")
			long := strings.Repeat("x", 126)
			for i := range 9 {
				c := fmt.Sprint(long, i)
				w.mustPut(t, "me", c, "friend")
				w.mustUpload(t, "u"+fmt.Sprint(i), c, "public", int64(i))
			}
			w.waitForJobs(t)
			w.want(t, "me", 3, w.bruteForce(t, "me", 3))
		})
	})
}

// wantCompact checks that Redis stores the index the small way; the embedded one
// has no encodings.
func (w *world) wantCompact(t testing.TB, user string) {
	t.Helper()
	if w.db.Embedded() {
		return
	}
	got, err := w.db.Client().ObjectEncoding(t.Context(), recentKey(user)).Result()
	storetest.Must(t, err)
	if got != "listpack" {
		t.Fatalf("the index of %s is a %s", user, got)
	}
}

func TestR9_CheckedAgainstSQL(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 20, Min: 5}, func(t *testing.T, w *world) {
		// No worker: every entry is stale, the read must sort it out alone.
		for i := range 60 {
			c := fmt.Sprintf("c%02d", i)
			w.mustPut(t, "me", c, "friend")
			w.mustUpload(t, "new-"+c, c, "public", int64(1000+i))
			w.mustUpload(t, "old-"+c, c, "public", int64(i+1))
		}
		w.want(t, "me", 5, w.bruteForce(t, "me", 5))
		t.Run("Relationships", func(t *testing.T) {
			for i := 55; i < 60; i++ {
				_, err := w.rec.RemoveContact(t.Context(), "me", fmt.Sprintf("c%02d", i))
				storetest.Must(t, err)
			}
			w.want(t, "me", 3, "c54@1054 c53@1053 c52@1052")
		})
		t.Run("AFullPageThoughAllCandidatesAreStale", func(t *testing.T) {
			for i := 35; i < 55; i++ {
				storetest.Must(t, w.DeleteUpload(t.Context(), fmt.Sprintf("new-c%02d", i)))
			}
			w.want(t, "me", 5, "c34@1034 c33@1033 c32@1032 c31@1031 c30@1030")
		})
	})
}

func TestR9_ALimitAboveTheCapIsRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Max: 5}} {
		s := New(nil, nil, nil, o)
		_, err := s.RecentContacts(t.Context(), "me", s.o.Max+1)
		storetest.WantCode(t, err, api.CodeValidation)
		if !strings.Contains(err.Error(), fmt.Sprintf("at most %d (FANFARE_CONTACTS_MAX)", s.o.Max)) {
			t.Errorf("the error does not name the cap: %v", err)
		}
	}
	t.Run("TheDefaultIsNotAboveIt", func(t *testing.T) {
		t.Parallel()
		eachWorld(t, Options{Max: 5}, func(t *testing.T, w *world) {
			w.mustHave(t, "me", 7)
			w.want(t, "me", 0, w.bruteForce(t, "me", 5))
		})
	})
}

func TestR9_Visibility(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.work(t)
		viewers := map[string]api.Relationship{"nobody": "", "acquaintance": "contact", "pal": "friend", "sister": "family"}
		for v, r := range viewers {
			w.mustPut(t, v, "owner", "contact")
			if r != "" {
				w.mustPut(t, "owner", v, r)
			}
			w.want(t, v, 1, "")
		}
		for i, v := range []api.Visibility{"public", "contacts", "friends", "family", "private"} {
			w.mustUpload(t, string(v), "owner", v, int64(i+1))
		}
		w.waitForJobs(t)
		for v, want := range map[string]string{"nobody": "owner@1", "acquaintance": "owner@2", "pal": "owner@3", "sister": "owner@4"} {
			w.want(t, v, 1, want)
			w.wantMembers(t, v, want) // the index too, not only the check at the read
		}
	})
}

func TestRecentUploads(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.work(t)
		none, err := w.RecentUploads(t.Context(), "me", 10)
		if err != nil || none.Contact != nil || none.Items == nil || len(none.Items) != 0 {
			t.Fatalf("%+v, %v", none, err)
		}
		w.mustPut(t, "me", "a", "friend")
		w.mustPut(t, "me", "b", "friend")
		w.mustPut(t, "a", "me", "family")
		for i, v := range []api.Visibility{"public", "family", "friends", "contacts"} {
			w.mustUpload(t, "a-"+string(v), "a", v, int64(10+i))
		}
		w.mustUpload(t, "b1", "b", "public", 5)
		w.waitForJobs(t)
		got, err := w.RecentUploads(t.Context(), "me", 2)
		storetest.Must(t, err)
		if *got.Contact != "a" || len(got.Items) != 2 || got.Items[0].ID != "a-contacts" || got.Items[1].ID != "a-family" {
			t.Fatalf("%s: %+v", *got.Contact, got.Items)
		}
		for _, v := range []string{"public", "family", "contacts"} {
			storetest.Must(t, w.DeleteUpload(t.Context(), "a-"+v))
		}
		if got, err = w.RecentUploads(t.Context(), "me", 2); err != nil || *got.Contact != "b" {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

// A read that needs all contacts joins a scan of another read, but never answers from
// one that had begun before: that scan may have passed a contact before its upload.
func TestRecentUploadsFromAScanThatBeganLater(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 10, InlinePages: 2}, func(t *testing.T, w *world) {
		w.mustHave(t, "me", 50)
		pass, passed := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(passed)
			_, err := w.shared(t.Context(), "all me", func(ctx context.Context) (built, error) {
				ranked, finished, err := w.scan(ctx, "me", 1, 0, nil)
				pass <- struct{}{}
				<-pass
				return built{ranked: ranked, finished: finished}, err
			})
			if err != nil {
				t.Error(err)
			}
		}()
		<-pass
		w.mustUpload(t, "now", "me-000000", api.VisiblePublic, 1_000_000)
		read := make(chan *api.RecentUploads)
		go func() {
			got, err := w.RecentUploads(t.Context(), "me", 1)
			if err != nil {
				t.Error(err)
			}
			read <- got
		}()
		for came := time.Now(); time.Since(came) < 100*time.Millisecond; { // most likely, the read has joined the scan
			select {
			case got := <-read:
				t.Fatalf("%+v without the scan under way", got)
			case <-time.After(10 * time.Millisecond):
			}
		}
		pass <- struct{}{}
		<-passed
		if got := <-read; got == nil || got.Contact == nil || *got.Contact != "me-000000" {
			t.Errorf("the read misses the upload before it: %+v", got)
		}
	})
}

// R15's shape without a clock: however many contacts, a read of a built index is
// one read of Redis and one query by primary key.
func TestR15_ReadsDoNotScan(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Page: 100, InlinePages: 100}, func(t *testing.T, w *world) {
		all := make([]record.Contact, 3000)
		for i := range all {
			all[i] = record.Contact{Owner: "me", Contact: fmt.Sprintf("c%04d", i), Relationship: "friend"}
		}
		for part := range slices.Chunk(all, 250) { // a slow machine has five seconds for each
			storetest.Must(t, w.rec.PutContacts(t.Context(), part...))
		}
		for i := range 200 {
			w.mustUpload(t, fmt.Sprint("u", i), all[i*15].Contact, "public", int64(i+1))
		}
		want := w.bruteForce(t, "me", 10)
		w.want(t, "me", 10, want)
		w.forbidScans()
		w.want(t, "me", 10, want)
		w.want(t, "me", 120, w.bruteForce(t, "me", 120))
	})
}

func TestLowerIsCompareAndSet(t *testing.T) {
	t.Parallel()
	at := func(ms int64) *int64 { return &ms }
	steps := map[string]func(t *testing.T, w *world){
		"ANewerUpload": func(t *testing.T, w *world) {
			storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"a", 60}))
		},
		"AnUploadAtTheSameTime": func(t *testing.T, w *world) {
			storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"a", 50}))
		},
		"ARelationship": func(t *testing.T, w *world) {
			r, _, err := w.index.relations(t.Context(), "me")
			storetest.Must(t, err)
			_, err = w.index.sync(t.Context(), "me", r, present{"a", at(50)})
			storetest.Must(t, err)
		},
		"AnotherReader": func(t *testing.T, w *world) {
			l, err := w.index.read(t.Context(), "me", 10)
			storetest.Must(t, err)
			storetest.Must(t, w.index.lower(t.Context(), "me", l.sequence, []stale{{entry{"b", 40}, at(39)}}))
			storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"b", 40}))
		},
	}
	steps["TrimmedAndBack"] = func(t *testing.T, w *world) {
		for i, c := range []string{"x", "y", "z", "a"} {
			storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{c, []int64{60, 61, 62, 50}[i]}))
		}
		storetest.Must(t, w.db.Client().ZRem(t.Context(), recentKey("me"), "x", "y").Err())
		storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"a", 50}))
	}
	for name, between := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, Options{Max: 3}, func(t *testing.T, w *world) {
				w.want(t, "me", 1, "")
				storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"a", 50}))
				storetest.Must(t, w.index.raise(t.Context(), []string{"me"}, entry{"b", 40}))
				l, err := w.index.read(t.Context(), "me", 10)
				storetest.Must(t, err)
				between(t, w)
				storetest.Must(t, w.index.lower(t.Context(), "me", l.sequence, []stale{{l.entries[0], at(10)}}))
				if got := w.members(t, "me"); len(got) != 2 || slices.Contains(got, "a@10") {
					t.Fatalf("lowered past a change: %v", got)
				}
				l, err = w.index.read(t.Context(), "me", 10)
				storetest.Must(t, err)
				now := l.entries[slices.IndexFunc(l.entries, func(e entry) bool { return e.contact == "a" })]
				storetest.Must(t, w.index.lower(t.Context(), "me", l.sequence, []stale{{now, at(10)}, {entry{"b", 40}, nil}, {entry{"z", 62}, nil}}))
				w.wantMembers(t, "me", "a@10")
			})
		})
	}
}

func TestKeysShareASlotPerUser(t *testing.T) {
	t.Parallel()
	for _, key := range buildKeys("some.user:1") {
		if !strings.Contains(key, "{c:some.user:1}") || strings.Count(key, "{") != 1 {
			t.Errorf("%s has another slot than the user's other keys", key)
		}
	}
}
