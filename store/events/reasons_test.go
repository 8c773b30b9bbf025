package events

import (
	"fmt"
	"maps"
	"testing"
)

// Why notifications failed is told of what was sent with its event, of parts and of
// notifications of their own, and of too many reasons the most frequent.
func TestP9_ReasonsOfFailures(t *testing.T) {
	t.Parallel()
	var sent Sent
	for _, mark := range []string{LabelDelivered, FailedBy("BadTopic"), FailedBy("BadTopic"), FailedBy("no_app"), LabelFailed} {
		sent.Count(mark)
	}
	if sent.Delivered != 1 || sent.Failed != 4 || !maps.Equal(sent.Why, map[string]int64{"BadTopic": 2, "no_app": 1}) {
		t.Fatalf("%+v", sent)
	}
	p, err := parseProgress((&Job{Type: "t"}).ReportTargeted(Counts{Recipients: 4}, sent))
	if err != nil || p.sent.Failed != 4 || !maps.Equal(p.sent.Why, sent.Why) {
		t.Fatalf("%+v, %v", p, err)
	}
	p.addParts(PartCounts(Counts{}, sent))
	notes := map[string]int64{CountCreated: 6, FailedBy("no_app"): 2, FailedBy("tried_again"): 0, FailedBy("from_before"): -1, LabelFailed: 2}
	r := (&whole{event: p, sent: []map[string]int64{notes, nil, nil}}).report()
	if want := map[string]int64{"BadTopic": 4, "no_app": 4}; r.Failed != 10 || !maps.Equal(r.FailedBy, want) {
		t.Errorf("%d failed by %v, want 10 by %v", r.Failed, r.FailedBy, want)
	}
	for i := range 12 {
		p.sent.because(fmt.Sprintf("r%02d", i), int64(100-i/2))
	}
	got := (&whole{event: p, sent: []map[string]int64{notes, nil, nil}}).report().FailedBy
	if len(got) != maxReasons || got["r00"] != 100 || got["r09"] != 96 || got["r10"] != 0 {
		t.Errorf("of many reasons %v", got)
	}
	if r := (&whole{event: progress{typ: "t"}, sent: make([]map[string]int64, 3)}).report(); r.FailedBy != nil {
		t.Errorf("without failures %v", r.FailedBy)
	}
}
