package facts

import (
	"slices"
	"testing"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// The position of all lanes and the positions of each lane are one another.
func TestPositionsOfLanes(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	s := New(Options{DB: db, Events: queue.New(db, queue.Options{Name: "events", Shards: 3})})
	lanes := []string{"1767366245000-42", "0-0", "1767366245001-1"}
	text, err := s.PositionOf(lanes)
	storetest.Must(t, err)
	if got, err := s.LanesOf(t.Context(), text); err != nil || !slices.Equal(got, lanes) {
		t.Errorf("%v %v", got, err)
	}
	if got, err := s.LanesOf(t.Context(), ""); err != nil || !slices.Equal(got, []string{"", "", ""}) {
		t.Errorf("%v %v", got, err)
	}
	if begin, err := s.PositionOf([]string{"", "", ""}); err != nil || begin != positionsText(make([]position, 3)) {
		t.Errorf("%v %v", begin, err)
	}
	if got, err := s.LanesOf(t.Context(), api.FactsNow); err != nil || !slices.Equal(got, []string{"0-0", "0-0", "0-0"}) {
		t.Errorf("%v %v", got, err)
	}
	_, err = s.LanesOf(t.Context(), "x")
	storetest.WantCode(t, err, api.CodeValidation)
	if _, err := s.PositionOf([]string{"x"}); err == nil {
		t.Error("a position of nothing")
	}
}
