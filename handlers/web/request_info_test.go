package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// mustBegin returns the info of a request that ends when leave is called.
func mustBegin(t testing.TB) (info *requestInfo, leave context.CancelFunc) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	return New(Options{}).newInfo(httptest.NewRecorder(), r), leave
}

// ended waits for the end of a context.
func ended(ctx context.Context, t testing.TB) error {
	t.Helper()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
		return nil
	}
}

// A request is its own context, which ends with its deadline or with its caller, whichever comes
// first.
func TestRequestContext(t *testing.T) {
	t.Parallel()
	t.Run("the deadline ends it, and what was made of it", func(t *testing.T) {
		t.Parallel()
		info, leave := mustBegin(t)
		defer leave()
		info.deadline = time.Now().Add(20 * time.Millisecond)
		child, cancel := context.WithTimeout(context.WithValue(info, connectionKey{}, 1), time.Hour)
		defer cancel()
		if until, ok := child.Deadline(); !ok || !until.Equal(info.deadline) {
			t.Errorf("the deadline is %v, want %v", until, info.deadline)
		}
		if err := ended(child, t); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(child), context.DeadlineExceeded) {
			t.Errorf("%v, because of %v", err, context.Cause(child))
		}
		if err := ended(info, t); !errors.Is(err, context.DeadlineExceeded) || infoOf(child) != info {
			t.Errorf("%v", err)
		}
	})
	t.Run("the caller ends it", func(t *testing.T) {
		t.Parallel()
		for _, until := range []time.Time{{}, time.Now().Add(time.Hour)} {
			info, leave := mustBegin(t)
			info.deadline = until
			child, cancel := context.WithCancel(info)
			defer cancel()
			if err := errors.Join(info.Err(), child.Err()); err != nil {
				t.Fatalf("before: %v", err)
			}
			leave()
			if err := ended(child, t); !errors.Is(err, context.Canceled) || !errors.Is(info.Err(), context.Canceled) {
				t.Errorf("%v, %v", err, info.Err())
			}
		}
	})
	t.Run("an error needs no timer", func(t *testing.T) {
		t.Parallel()
		info, leave := mustBegin(t)
		defer leave()
		info.deadline = time.Now().Add(20 * time.Millisecond)
		if err := info.Err(); err != nil || info.limited != nil {
			t.Errorf("%v, %v", err, info.limited)
		}
		for info.Err() == nil && time.Since(info.deadline) < time.Minute {
			<-time.After(time.Millisecond)
		}
		if err := info.Err(); !errors.Is(err, context.DeadlineExceeded) || time.Now().Before(info.deadline) {
			t.Errorf("%v", err)
		}
		if err := ended(info, t); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	t.Run("nobody who comes late waits for ever", func(t *testing.T) {
		t.Parallel()
		for _, early := range []bool{true, false} {
			info, leave := mustBegin(t)
			info.deadline = time.Now().Add(time.Hour)
			if early {
				info.Done()
			}
			late := make(chan error)
			for range 4 {
				go func() {
					<-info.Done()
					late <- info.Err()
				}()
			}
			info.close()
			leave() // as net/http does
			for range 4 {
				if err := <-late; !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			}
		}
	})
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s, r := New(Options{}), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	seen, letters := map[string]bool{}, map[byte]int{}
	for range 10_000 {
		id := s.newInfo(httptest.NewRecorder(), r).id
		if len(id) != 26 || !validRequestID(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
		letters[id[0]]++
		letters[id[25]]++
	}
	if len(letters) != 32 {
		t.Errorf("only %d letters are in use", len(letters))
	}
}

func TestTraceID(t *testing.T) {
	t.Parallel()
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for header, want := range map[string]string{
		"00-" + id + "-" + span + "-01":                       id,
		"00-" + id + "-" + span + "-00":                       id,
		"cc-" + id + "-" + span + "-01":                       id, // a later version
		"cc-" + id + "-" + span + "-01-what-the-future-adds":  id,
		"00-" + id + "-" + span + "-01-more":                  "",
		"ff-" + id + "-" + span + "-01":                       "",
		"0-" + id + "-" + span + "-01":                        "",
		"00-" + id[1:] + "-" + span + "-01":                   "",
		"00-" + id + "0-" + span + "-01":                      "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01": "",
		"00-" + id[:31] + "g-" + span + "-01":                 "",
		"00-" + id + "-" + span + "-1":                        "",
		"00-" + id + "-" + span:                               "",
		"00-" + id + "-0000000000000000-01":                   "",
		"00-00000000000000000000000000000000-" + span + "-01": "",
		"": "",
	} {
		if got := traceID(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}
