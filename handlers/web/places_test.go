package web

import (
	"sync"
	"testing"

	"fanfare/api"
)

// No holder has more places than its limit, all together have at most the total, and all places are
// given back.
func TestPlaces(t *testing.T) {
	t.Parallel()
	k := newRequests(&Options{MaxInFlight: 10, UserMaxInFlight: 3})
	k.places.perKey = 4
	callers := []*requestInfo{
		{subject: "alice", byUser: true}, {subject: "bob", byUser: true}, {subject: "alice", key: &api.Key{ID: "a"}}, {key: &api.Key{ID: "b"}}, {},
	}
	var all sync.WaitGroup
	for i := range 50 {
		info := callers[i%len(callers)]
		all.Go(func() {
			for range 200 {
				if err := k.visit(t, info); err != nil && api.CodeOf(err) != api.CodeOverloaded && api.CodeOf(err) != api.CodeRateLimited {
					t.Errorf("%v", err)
				}
			}
		})
	}
	all.Wait()
	if n := k.places.taken.Load(); n != 0 || len(k.places.held) != 0 {
		t.Errorf("%d places stay behind: %v", n, k.places.held)
	}
}

// visit holds a place for a moment.
func (k *kind) visit(t *testing.T, info *requestInfo) error {
	if err := k.enter(info, 1); err != nil {
		return err
	}
	defer k.leave(info, 1)
	k.places.mu.Lock()
	defer k.places.mu.Unlock()
	claims, count := k.claims(info)
	for _, c := range claims[:count] {
		if n := k.places.held[c.holder]; n < 1 || n > c.most {
			t.Errorf("%v holds %d, at most %d", c.holder, n, c.most)
		}
	}
	return nil
}

// A call takes its places and gives them back without allocating.
func TestPlacesTakeNoMemory(t *testing.T) { //nolint:paralleltest // the allocations of other tests would be counted
	k := newRequests(&Options{MaxInFlight: 10, UserMaxInFlight: 3})
	k.places.perKey = 4
	info := &requestInfo{subject: "alice", byUser: true, key: &api.Key{ID: "a"}}
	if n := testing.AllocsPerRun(1000, func() { _ = k.visit(t, info) }); n != 0 {
		t.Errorf("%v allocations for a call", n)
	}
}

// U5: a user has an eighth of the bytes of long answers, user tokens together have four fifths, and all
// bytes are given back.
func TestU5_BytesOfAnswers(t *testing.T) {
	t.Parallel()
	k := newAnswers(800)
	alice, backend := &requestInfo{subject: "alice", byUser: true}, &requestInfo{key: &api.Key{ID: "a"}}
	want := func(info *requestInfo, n int64, code api.Code) {
		t.Helper()
		if err := k.enter(info, n); api.CodeOf(err) != code {
			t.Errorf("%d bytes: %v, want %q", n, err, code)
		}
	}
	want(alice, 60, "")
	want(alice, 41, api.CodeRateLimited)
	want(alice, 40, "")
	for _, user := range []string{"bob", "cid", "dan", "eve", "fay"} {
		want(&requestInfo{subject: user, byUser: true}, 100, "")
	}
	want(&requestInfo{subject: "gus", byUser: true}, 41, api.CodeOverloaded)
	want(&requestInfo{subject: "gus", byUser: true}, 40, "")
	want(backend, 160, "")
	want(backend, 1, api.CodeOverloaded)
	k.leave(alice, 40)
	want(backend, 40, "")
	for _, user := range []string{"bob", "cid", "dan", "eve", "fay"} {
		k.leave(&requestInfo{subject: user, byUser: true}, 100)
	}
	k.leave(alice, 60)
	k.leave(&requestInfo{subject: "gus", byUser: true}, 40)
	k.leave(backend, 200)
	if n := k.places.taken.Load(); n != 0 || len(k.places.held) != 0 {
		t.Errorf("%d bytes stay behind: %v", n, k.places.held)
	}
}
