package web

import (
	"fmt"
	"testing"
)

func TestPageOf(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	name := func(s *string) string { return *s }
	t.Run("a cursor stays right when its item goes", func(t *testing.T) {
		t.Parallel()
		_, next, err := PageOf(Page{Limit: 2}, names, name)
		if err != nil {
			t.Fatal(err)
		}
		items, next, err := PageOf(Page{Limit: 2, Cursor: next}, []string{"a", "c", "d"}, name)
		if fmt.Sprint(items) != "[c d]" || next != "" || err != nil {
			t.Errorf("%v %q %v", items, next, err)
		}
	})
	t.Run("a full last page has no next", func(t *testing.T) {
		t.Parallel()
		items, next, err := PageOf(Page{Limit: 4}, names, name)
		if len(items) != 4 || next != "" || err != nil {
			t.Errorf("%v %q %v", items, next, err)
		}
	})
	t.Run("past the end is empty", func(t *testing.T) {
		t.Parallel()
		items, next, err := PageOf(Page{Limit: 4, Cursor: SealCursor("z")}, names, name)
		if len(items) != 0 || items == nil || next != "" || err != nil {
			t.Errorf("%v %q %v", items, next, err)
		}
	})
}
