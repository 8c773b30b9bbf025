package api_test

import (
	"testing"

	"fanfare/api"
)

func TestVisibility(t *testing.T) {
	t.Parallel()
	viewers := []api.Relationship{"", "contact", "friend", "family"}
	shows := map[api.Visibility][4]bool{
		"public": {true, true, true, true}, "contacts": {false, true, true, true},
		"friends": {false, false, true, false}, "family": {false, false, false, true}, "private": {}, "": {},
	}
	for v, want := range shows {
		for i, r := range viewers {
			if got := v.Shows(r); got != want[i] {
				t.Errorf("%q shows %q: %t", v, r, got)
			}
		}
	}
	for v := range shows {
		for old := range shows {
			want := false
			for i := range viewers {
				want = want || shows[v][i] && !shows[old][i]
			}
			if got := v.Widens(old); got != want {
				t.Errorf("%q widens %q: %t", v, old, got)
			}
		}
	}
}
