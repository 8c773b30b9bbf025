package events

import (
	"testing"
	"time"

	"fanfare/api"
)

// TestG8_LastLive: of the updates and ends of an object the one that began last is told, whichever phones it reaches.
func TestG8_LastLive(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		s := w.stores[0]
		if last, err := s.LastLive(t.Context(), w.object); err != nil || last != nil {
			t.Errorf("before any: %+v %v", last, err)
		}
		begin := func(action api.LiveAction, to *Audience) {
			t.Helper()
			id, j := w.mustJobFor(action, to, nil, 0)
			w.mustBegin(s, id, j)
			last, err := s.LastLive(t.Context(), w.object)
			if err != nil || last == nil || last.Event != id || last.Action != action || last.Timestamp != j.Live.Stamp || time.Since(last.At.Time).Abs() > time.Minute {
				t.Errorf("after the %s %s: %+v %v", action, id, last, err)
			}
		}
		begin(api.LiveUpdate, &Audience{ActivitiesOf: w.object})
		begin(api.LiveEnd, &Audience{Broadcast: w.object})
		begin(api.LiveUpdate, &Audience{ActivitiesOf: w.object})
		id, j := w.mustJobFor(api.LiveStart, &Audience{Users: []string{"a"}}, nil, 0)
		w.mustBegin(s, id, j)
		if last, err := s.LastLive(t.Context(), w.object); err != nil || last == nil || last.Event == id {
			t.Errorf("after a start: %+v %v", last, err)
		}
	})
}
