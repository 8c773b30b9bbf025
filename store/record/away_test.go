package record_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

func TestSQLAway(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *record.DB) error{
		"Ping":   func(ctx context.Context, db *record.DB) error { _, err := db.Ping(ctx); return err },
		"Read":   func(ctx context.Context, db *record.DB) error { _, err := db.Settings(ctx, "alice"); return err },
		"Write":  func(ctx context.Context, db *record.DB) error { _, err := db.PutOptOut(ctx, "alice", "x"); return err },
		"Delete": func(ctx context.Context, db *record.DB) error { return db.DeleteOutbox(ctx, "x") },
	}
	for scheme, server := range eachServer() {
		for name, call := range calls {
			t.Run("NobodyListens"+name+scheme, func(t *testing.T) {
				t.Parallel()
				db := mustOpen(t, record.Options{URL: fmt.Sprintf("%s://u:p@127.0.0.1:%d/x", scheme, storetest.FreePort(t))})
				mustFailInTime(t, db, call)
			})
			t.Run("BlackHole"+name+scheme, func(t *testing.T) {
				t.Parallel()
				p, url := storetest.ProxyTo(t, server(t))
				db := setup(t, url)
				storetest.Must(t, call(t.Context(), db))
				p.Swallow(true)
				mustFailInTime(t, db, call)
			})
		}
		t.Run("OptionsTimeoutBoundsCallsWithoutDeadline"+scheme, func(t *testing.T) {
			t.Parallel()
			p, url := storetest.ProxyTo(t, server(t))
			setup(t, url)
			db := mustOpen(t, record.Options{URL: url, Timeout: 300 * time.Millisecond})
			p.Swallow(true)
			start := time.Now()
			_, err := db.Ping(t.Context())
			storetest.WantCode(t, err, api.CodeUnavailable)
			if took := time.Since(start); took > 2*time.Second {
				t.Fatalf("answered after %v", took)
			}
		})
		t.Run("HealsByItself"+scheme, func(t *testing.T) {
			t.Parallel()
			p, url := storetest.ProxyTo(t, server(t))
			db := setup(t, url)
			p.Swallow(true)
			mustFailInTime(t, db, calls["Write"])
			p.Swallow(false)
			storetest.Must(t, calls["Write"](t.Context(), db))
		})
	}
	t.Run("NoConnectionIsFree", func(t *testing.T) {
		t.Parallel()
		storetest.EachDialect(t, func(t *testing.T, url string) {
			setup(t, url)
			db := mustOpen(t, record.Options{URL: url, MaxOpen: 1})
			conn, err := db.SQL().Conn(t.Context())
			storetest.Must(t, err)
			for _, call := range calls {
				mustFailInTime(t, db, call)
			}
			storetest.Must(t, conn.Close())
			storetest.Must(t, calls["Write"](t.Context(), db))
		})
	})
}

// eachServer is a database of each kind of server, by the scheme of its URL.
func eachServer() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{"mysql": storetest.MySQL, "postgres": storetest.Postgres}
}

// mustFailInTime wants unavailable, soon after a deadline of 400 ms at most.
func mustFailInTime(t testing.TB, db *record.DB, call func(context.Context, *record.DB) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := call(ctx, db)
	storetest.WantCode(t, err, api.CodeUnavailable)
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Fatalf("answered after %v", took)
	}
	if strings.Contains(err.(*api.Error).Detail, "127.0.0.1") {
		t.Fatalf("internals are shown: %v", err)
	}
}

func TestACommitWhoseAnswerWasLostIsUnknownOutcome(t *testing.T) {
	t.Parallel()
	for scheme, server := range eachServer() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			testLostCommit(t, server(t))
		})
	}
}

func testLostCommit(t *testing.T, server string) {
	t.Helper()
	p, url := storetest.ProxyTo(t, server)
	db := setup(t, url)
	direct := mustOpen(t, record.Options{URL: url})
	storetest.Must(t, func() error { _, err := direct.Ping(t.Context()); return err }())
	p.OnSent(func(c *storetest.ProxyConn, sent []byte) storetest.Fate {
		c.Marked.Store(bytes.HasSuffix(bytes.ToUpper(bytes.TrimRight(sent, "\x00")), []byte("COMMIT")))
		return storetest.Pass
	})
	p.OnAnswer(func(c *storetest.ProxyConn, _ []byte) storetest.Fate {
		if c.Marked.Load() {
			return storetest.Close
		}
		return storetest.Pass
	})
	_, err := db.PutOptOut(t.Context(), "alice", "like")
	p.OnAnswer(nil)
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	s, err := db.Settings(t.Context(), "alice")
	if err != nil || len(s.OptOuts) != 1 {
		t.Fatalf("the commit had happened, yet: %+v, %v", s, err)
	}
}

func TestSQLiteBusy(t *testing.T) {
	t.Parallel()
	url := storetest.SQLite(t)
	db, other := setup(t, url), mustOpen(t, record.Options{URL: url})
	put := func(ctx context.Context) error { _, err := db.PutOptOut(ctx, "alice", "like"); return err }
	t.Run("UnavailableWithinTheDeadline", func(t *testing.T) {
		tx, err := other.SQL().Begin()
		storetest.Must(t, err)
		defer func() { storetest.Must(t, tx.Rollback()) }()
		mustFailInTime(t, db, func(ctx context.Context, _ *record.DB) error { return put(ctx) })
	})
	t.Run("WaitsForItsTurn", func(t *testing.T) {
		tx, err := other.SQL().Begin()
		storetest.Must(t, err)
		time.AfterFunc(400*time.Millisecond, func() { _ = tx.Rollback() })
		storetest.Must(t, put(t.Context()))
	})
}

func TestConcurrentWritesOfTheSameThingAllSucceed(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		const n = 32
		future := api.At(time.Now().Add(time.Hour))
		cases := map[string]func(ctx context.Context, i int) error{
			"OptOut": func(ctx context.Context, _ int) error { _, err := db.PutOptOut(ctx, "alice", "like"); return err },
			"Mute": func(ctx context.Context, i int) error {
				_, err := db.PutMute(ctx, fmt.Sprint("user", i%2), "album", &future)
				return err
			},
			"PutAndDelete": func(ctx context.Context, i int) (err error) {
				if i%2 == 0 {
					_, err = db.PutOptOut(ctx, "bob", "like")
				} else {
					_, err = db.DeleteOptOut(ctx, "bob", "like")
				}
				return err
			},
			"EventType": func(ctx context.Context, i int) error {
				_, _, err := db.PutEventType(ctx, "like", &api.EventTypeRequest{Title: fmt.Sprint(i)}, api.Match{})
				return err
			},
			"Contacts": func(ctx context.Context, i int) error {
				a, b := record.Contact{Owner: "x", Contact: "y", Relationship: "friend"}, record.Contact{Owner: "y", Contact: "x", Relationship: "friend"}
				if i%2 == 0 {
					a, b = b, a
				}
				return db.PutContacts(ctx, a, b)
			},
		}
		for name, call := range cases {
			t.Run(name, func(t *testing.T) { storetest.AtOnce(t, n, call) })
		}
	})
}
