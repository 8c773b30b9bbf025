package record_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// wire stands between the record and its MySQL and can break in three ways.
type wire struct {
	server string
	l      net.Listener
	// hole swallows everything; cut forwards a COMMIT and then drops the
	// connection before the answer.
	hole, cut atomic.Bool
}

// mustWire gives a database URL that leads through a wire.
func mustWire(t testing.TB) (*wire, string) {
	t.Helper()
	url := storetest.MySQL(t)
	user, rest, _ := strings.Cut(strings.TrimPrefix(url, "mysql://"), "@")
	host, name, _ := strings.Cut(rest, "/")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{server: host, l: l}
	t.Cleanup(func() { _ = l.Close() })
	go w.serve()
	return w, "mysql://" + user + "@" + l.Addr().String() + "/" + name
}

func (w *wire) serve() {
	for {
		c, err := w.l.Accept()
		if err != nil {
			return
		}
		go w.join(c)
	}
}

func (w *wire) join(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	defer s.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); w.pass(c, s, stop) }()
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		if w.hole.Load() {
			continue
		}
		cut := w.cut.Load() && bytes.Contains(b[:n], []byte("COMMIT"))
		if cut {
			close(stop)
			<-stopped
		}
		if _, err := s.Write(b[:n]); err != nil {
			return
		}
		if cut {
			_, _ = s.Read(b) // the commit is done: its answer is here
			return
		}
	}
}

// pass carries answers back until it is stopped.
func (w *wire) pass(c io.Writer, s net.Conn, stop chan struct{}) {
	b := make([]byte, 64<<10)
	for {
		select {
		case <-stop:
			_ = s.SetReadDeadline(time.Time{})
			return
		default:
		}
		_ = s.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		n, err := s.Read(b)
		if n > 0 && !w.hole.Load() {
			_, _ = c.Write(b[:n])
		}
		if err != nil && !strings.Contains(err.Error(), "timeout") {
			return
		}
	}
}

func TestSQLAway(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *record.DB) error{
		"Ping":   func(ctx context.Context, db *record.DB) error { _, err := db.Ping(ctx); return err },
		"Read":   func(ctx context.Context, db *record.DB) error { _, err := db.Settings(ctx, "alice"); return err },
		"Write":  func(ctx context.Context, db *record.DB) error { _, err := db.PutOptOut(ctx, "alice", "x"); return err },
		"Delete": func(ctx context.Context, db *record.DB) error { return db.DeleteOutbox(ctx, "x") },
	}
	for name, call := range calls {
		t.Run("NobodyListens"+name, func(t *testing.T) {
			t.Parallel()
			db := mustOpen(t, record.Options{URL: fmt.Sprintf("mysql://u:p@127.0.0.1:%d/x", storetest.FreePort(t))})
			mustFailInTime(t, db, call)
		})
		t.Run("BlackHole"+name, func(t *testing.T) {
			t.Parallel()
			w, url := mustWire(t)
			db := setup(t, url)
			must(t, call(t.Context(), db))
			w.hole.Store(true)
			mustFailInTime(t, db, call)
		})
	}
	t.Run("OptionsTimeoutBoundsCallsWithoutDeadline", func(t *testing.T) {
		t.Parallel()
		w, url := mustWire(t)
		setup(t, url)
		db := mustOpen(t, record.Options{URL: url, Timeout: 300 * time.Millisecond})
		w.hole.Store(true)
		start := time.Now()
		_, err := db.Ping(t.Context())
		wantCode(t, err, api.CodeUnavailable)
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("answered after %v", took)
		}
	})
	t.Run("NoConnectionIsFree", func(t *testing.T) {
		t.Parallel()
		storetest.EachSQL(t, func(t *testing.T, url string) {
			setup(t, url)
			db := mustOpen(t, record.Options{URL: url, MaxOpen: 1})
			conn, err := db.SQL().Conn(t.Context())
			must(t, err)
			for _, call := range calls {
				mustFailInTime(t, db, call)
			}
			must(t, conn.Close())
			must(t, calls["Write"](t.Context(), db))
		})
	})
	t.Run("HealsByItself", func(t *testing.T) {
		t.Parallel()
		w, url := mustWire(t)
		db := setup(t, url)
		w.hole.Store(true)
		mustFailInTime(t, db, calls["Write"])
		w.hole.Store(false)
		must(t, calls["Write"](t.Context(), db))
	})
}

// mustFailInTime wants unavailable, soon after a deadline of 400 ms at most.
func mustFailInTime(t testing.TB, db *record.DB, call func(context.Context, *record.DB) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := call(ctx, db)
	wantCode(t, err, api.CodeUnavailable)
	if took := time.Since(start); took > 1500*time.Millisecond {
		t.Fatalf("answered after %v", took)
	}
	if strings.Contains(err.(*api.Error).Detail, "127.0.0.1") {
		t.Fatalf("internals are shown: %v", err)
	}
}

func TestACommitWhoseAnswerWasLostIsUnknownOutcome(t *testing.T) {
	t.Parallel()
	w, url := mustWire(t)
	db := setup(t, url)
	direct := mustOpen(t, record.Options{URL: url})
	must(t, func() error { _, err := direct.Ping(t.Context()); return err }())
	w.cut.Store(true)
	_, err := db.PutOptOut(t.Context(), "alice", "like")
	w.cut.Store(false)
	wantCode(t, err, api.CodeUnknownOutcome)
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
		must(t, err)
		defer func() { must(t, tx.Rollback()) }()
		mustFailInTime(t, db, func(ctx context.Context, _ *record.DB) error { return put(ctx) })
	})
	t.Run("WaitsForItsTurn", func(t *testing.T) {
		tx, err := other.SQL().Begin()
		must(t, err)
		time.AfterFunc(400*time.Millisecond, func() { _ = tx.Rollback() })
		must(t, put(t.Context()))
	})
}

func TestConcurrentWritesOfTheSameThingAllSucceed(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
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
				_, _, err := db.PutEventType(ctx, "like", &api.EventTypeRequest{Title: fmt.Sprint(i)})
				return err
			},
			"Contacts": func(ctx context.Context, i int) error {
				a, b := record.Contact{"x", "y", "friend"}, record.Contact{"y", "x", "friend"}
				if i%2 == 0 {
					a, b = b, a
				}
				return db.PutContacts(ctx, a, b)
			},
		}
		for name, call := range cases {
			t.Run(name, func(t *testing.T) { atOnce(t, n, call) })
		}
	})
}
