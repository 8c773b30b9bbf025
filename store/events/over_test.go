package events

import "testing"

// H1: an event is over when nothing of it is left, whatever its own report says.
func TestH1_OverWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state     byte
		partsLeft bool
		made      int64
		want      bool
	}{
		"Done":                      {stateDone, false, 0, true},
		"Targeted":                  {stateTargeted, false, 0, true},
		"TargetedNotificationsLeft": {stateTargeted, false, 1, false},
		"Superseded":                {stateSuperseded, false, 0, true},
		"SupersededPartsLeft":       {stateSuperseded, true, 0, false},
		"SupersededSomeLeft":        {stateSuperseded, false, 1, false},
		"Expired":                   {stateExpired, false, 0, true},
		"ExpiredPartsLeft":          {stateExpired, true, 0, false},
		"ExpiredSomeLeft":           {stateExpired, false, 1, false},
		"Queued":                    {stateQueued, false, 0, false},
	} {
		w := whole{event: progress{state: c.state}, partsLeft: c.partsLeft, sent: []map[string]int64{{CountCreated: c.made}}}
		w.sent = append(w.sent, make([]map[string]int64, len(groupEndings))...)
		if got := w.over(w.report()); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
