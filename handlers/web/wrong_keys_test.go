package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"fanfare/api"
)

func TestWrongKeys(t *testing.T) {
	t.Parallel()
	here, there := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	now := time.Now()
	t.Run("the window ends", func(t *testing.T) {
		t.Parallel()
		s := &wrongKeys{}
		for range maxWrongKeys {
			if wait := s.count(here, now); wait != 0 {
				t.Fatal(wait)
			}
		}
		if wait := s.count(here, now); wait != wrongKeysWindow {
			t.Errorf("one too many waits %v", wait)
		}
		if wait := s.count(there, now); wait != 0 {
			t.Errorf("another address waits %v", wait)
		}
		if wait := s.count(here, now.Add(wrongKeysWindow)); wait != 0 {
			t.Errorf("a minute later: %v", wait)
		}
	})
	t.Run("many addresses take bounded memory", func(t *testing.T) {
		t.Parallel()
		s := &wrongKeys{}
		for i := range 3 * maxWrongAddresses {
			at := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			s.count(netip.PrefixFrom(at, 32), now)
			if len(s.windows) > maxWrongAddresses {
				t.Fatalf("%d addresses are remembered", len(s.windows))
			}
		}
	})
}

// U6: if an address has sent too many false signatures, two of its tokens are checked at a time,
// and others wait for at most a second. Other addresses do not wait.
func TestU6_FewChecksForAnAddressOfFalseSignatures(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	alice := &api.User{ID: "alice", Scopes: api.UserScopes}
	s := New(Options{HasKeys: func() bool { return true }, Users: Users{
		Recall: func(token string) (*api.User, error) {
			if token == "known." {
				return alice, nil
			}
			return nil, nil
		},
		Verify: func(token string, admit func() error) (*api.User, bool, error) {
			if token == "malformed." {
				return nil, false, api.Errorf(api.CodeUnauthorized, "malformed")
			}
			if err := admit(); err != nil {
				return nil, false, err
			}
			switch token {
			case "false.":
				return nil, true, api.Errorf(api.CodeUnauthorized, "false")
			case "slow.":
				begun <- struct{}{}
				<-end
			}
			return alice, false, nil
		},
	}})
	method := func(context.Context, *struct{}) (*Reply[struct{}], error) { return OK(&struct{}{}), nil }
	h := s.Handler([]Route{{Method: http.MethodGet, Pattern: "/things", Scope: api.ScopeChat, User: AnyUser, Endpoint: Handle(method)}})
	open := func(from, token string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/things", nil)
		r.RemoteAddr, r.Header = from+":1", http.Header{"Authorization": {"Bearer " + token}}
		h.ServeHTTP(w, r)
		return w.Code
	}
	for range 30 {
		if code := open("192.0.2.1", "false."); code != http.StatusUnauthorized {
			t.Fatalf("a false signature: %d", code)
		}
	}
	done := make(chan int)
	for range checksAtOnce {
		go func() { done <- open("192.0.2.1", "slow.") }()
		<-begun
	}
	began := time.Now()
	if code := open("192.0.2.1", "good."); code != http.StatusServiceUnavailable || time.Since(began) < checkWait {
		t.Errorf("a third one: %d after %v", code, time.Since(began))
	}
	for token, want := range map[string]int{"known.": http.StatusOK, "malformed.": http.StatusUnauthorized} {
		if code := open("192.0.2.1", token); code != want {
			t.Errorf("%s meanwhile: %d", token, code)
		}
	}
	if code := open("192.0.2.2", "good."); code != http.StatusOK {
		t.Errorf("another address: %d", code)
	}
	close(end)
	for range checksAtOnce {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a good one that was slow: %d", code)
		}
	}
	if code := open("192.0.2.1", "good."); code != http.StatusOK {
		t.Errorf("a good one after them: %d", code)
	}
}
