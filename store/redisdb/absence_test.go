package redisdb

import (
	"testing"
	"time"
)

// The absence of one master is none of another. One that no reading before had found may have taken the place of one that was
// away, but for the first reading. A reading without a map of the Cluster has missed all.
func TestAbsencesAreThoseOfEachMaster(t *testing.T) {
	t.Parallel()
	var a absences
	began := time.Now()
	for i, step := range []struct {
		answered map[string]bool
		missed   string // the names of those that are away
		back     map[string]int
	}{
		{map[string]bool{"a": true, "b": true}, "", map[string]int{}},
		{map[string]bool{"a": false, "b": true}, "a", map[string]int{}},
		{map[string]bool{"a": true, "b": true}, "", map[string]int{"a": 2}},
		{map[string]bool{"c": true, "b": true}, "", map[string]int{"c": 3}},
		{map[string]bool{}, "bc", map[string]int{"c": 3}},
		{map[string]bool{"c": true, "b": true}, "", map[string]int{"b": 5, "c": 5}},
	} {
		a.note(step.answered, began.Add(time.Duration(i)*time.Second))
		missed := ""
		for _, name := range []string{"a", "b", "c"} {
			m := a.of[name]
			if m.missed {
				missed += name
			}
			if want, is := step.back[name]; is != !m.back.IsZero() || is && !m.back.Equal(began.Add(time.Duration(want)*time.Second)) {
				t.Errorf("step %d: %s is back since %v", i, name, m.back)
			}
		}
		if missed != step.missed {
			t.Errorf("step %d: %q are away, want %q", i, missed, step.missed)
		}
	}
}
