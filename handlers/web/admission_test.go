package web

import (
	"sync"
	"testing"

	"fanfare/api"
)

func TestAdmission(t *testing.T) {
	t.Parallel()
	r := newAdmission(4 * api.MaxBody)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 200 {
				if err := r.visit(2 * api.MaxBody); err != nil && api.CodeOf(err) != api.CodeOverloaded {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	if r.ordinary.Load() != 0 || r.large.Load() != 0 {
		t.Errorf("%d and %d bytes stay behind", r.ordinary.Load(), r.large.Load())
	}
	t.Run("large bodies leave room for ordinary ones", func(t *testing.T) {
		r := newAdmission(8 * api.MaxBody)
		r.mustGrow(t, 0, 3*api.MaxBody)
		if err := r.grow(3*api.MaxBody, 3*api.MaxBody+1); api.CodeOf(err) != api.CodeOverloaded {
			t.Errorf("a third large part: %v", err)
		}
		for range 5 {
			r.mustGrow(t, 0, api.MaxBody)
		}
		if err := r.grow(0, 1); api.CodeOf(err) != api.CodeOverloaded {
			t.Errorf("a seventh ordinary body: %v", err)
		}
		r.shrink(3 * api.MaxBody)
		r.mustGrow(t, 0, 2*api.MaxBody-1)
	})
}

func (a *admission) mustGrow(t *testing.T, from, to int64) {
	t.Helper()
	if err := a.grow(from, to); err != nil {
		t.Fatalf("from %d to %d: %v", from, to, err)
	}
}

// visit holds a body of size bytes for a moment.
func (a *admission) visit(size int64) error {
	if err := a.grow(0, 1); err != nil {
		return err
	}
	if err := a.grow(1, size); err != nil {
		a.shrink(1)
		return err
	}
	a.shrink(size)
	return nil
}
