package events

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"fanfare/api"
)

// W7: of what was sent with the event, in parts and in jobs of their own, each platform has its numbers, and
// together they are those of the event.
func TestW7_NumbersByPlatform(t *testing.T) {
	t.Parallel()
	var sent Sent
	for p, marks := range map[api.Platform][]string{
		api.PlatformAPNs:    {LabelDelivered, LabelDelivered, FailedBy("BadTopic")},
		api.PlatformFCM:     {LabelDelivered, FailedBy("UNREGISTERED"), LabelExpired},
		api.PlatformWebPush: {LabelExpired, LabelDelivered, LabelDelivered, LabelDelivered},
	} {
		sent.Make(p, int64(len(marks))+1) // and one that was stored
		for _, label := range marks {
			sent.Count(MarkOf(p, label))
		}
	}
	p, err := parseProgress((&Job{Type: "t"}).ReportTargeted(Counts{Recipients: 4}, sent))
	if err != nil || p.sent.Ends != sent.Ends || p.sent.Others != sent.Others || !maps.Equal(p.sent.Why, sent.Why) {
		t.Fatalf("%+v, %v", p, err)
	}
	p.addParts(PartCounts(Counts{}, sent)) // a part of which 3 more were stored
	stored := []map[string]int64{
		{CountCreated: 2, LabelDelivered: 1, CountRetrying: 1},
		{CountCreated: 2, LabelFailed: 1, FailedBy("UNREGISTERED"): 1, CountRetrying: 1},
		{CountCreated: 2, LabelExpired: 2},
	}
	r := (&whole{event: p, sent: stored}).report()
	want := map[api.Platform]api.PlatformCounts{
		api.PlatformAPNs:    {Notifications: 8, Delivered: 5, Failed: 2, Retrying: 1},
		api.PlatformFCM:     {Notifications: 8, Delivered: 2, Failed: 3, Expired: 2, Retrying: 1},
		api.PlatformWebPush: {Notifications: 10, Delivered: 6, Expired: 4},
	}
	if !maps.Equal(r.Platforms, want) {
		t.Errorf("%+v", r.Platforms)
	}
	if all := (api.PlatformCounts{Notifications: 26, Delivered: 13, Failed: 5, Expired: 6, Retrying: 2}); r.PlatformCounts != all {
		t.Errorf("together %+v", r.PlatformCounts)
	}
	if r.FailedBy["UNREGISTERED"] != 3 || r.FailedBy["BadTopic"] != 2 {
		t.Errorf("%v", r.FailedBy)
	}
	if r := (&whole{event: progress{typ: "t"}, sent: make([]map[string]int64, 3)}).report(); r.Platforms != nil {
		t.Errorf("an event without notifications: %+v", r.Platforms)
	}
}

// P9: what an earlier claim has made counts on its platform, also if it became a job.
func TestP9_WhatIsRecalledHasItsPlatform(t *testing.T) {
	t.Parallel()
	var sent Sent
	for _, label := range []string{LabelStored, LabelDelivered, FailedBy("BadTopic")} {
		sent.Recall(MarkOf(api.PlatformFCM, label), "bob")
	}
	sent.Recall(MarkOf(api.PlatformAPNs, LabelStored), "bob")
	of := sent.Others[slices.Index(OtherPlatforms[:], api.PlatformFCM)]
	if of.Made != 3 || of.Delivered != 1 || of.Failed != 1 || sent.Made != 4 || sent.Delivered != 1 || sent.Failed != 1 {
		t.Errorf("%+v", sent)
	}
}

// W7: what is stored of an event to APNs alone is what it was: its report, the counts of its parts, what
// its job keeps, its marks and its group.
func TestW7_APNsAloneStoresNothingMore(t *testing.T) {
	t.Parallel()
	var sent Sent
	for _, label := range []string{LabelDelivered, LabelDelivered, LabelExpired} {
		sent.Count(MarkOf(api.PlatformAPNs, label))
	}
	j := &Job{Type: "greeting"}
	if text := j.ReportTargeted(Counts{Recipients: 3}, sent); text != "Sgreeting 3      2  1" {
		t.Errorf("%q", text)
	}
	sent.Make(api.PlatformAPNs, 4)
	sent.Count(MarkOf(api.PlatformAPNs, FailedBy("BadTopic")))
	if text := j.ReportDone(Counts{Recipients: 3, Live: 1}, sent); text != "Dgreeting 3     1 2 1 1 4 BadTopic=1" {
		t.Errorf("%q", text)
	}
	if text, err := json.Marshal(sent); err != nil || string(text) != `{"Delivered":2,"Failed":1,"Expired":1,"Made":4,"Why":{"BadTopic":1}}` {
		t.Errorf("%s, %v", text, err)
	}
	if counts := PartCounts(Counts{}, sent); len(counts) != 4 {
		t.Errorf("%v", counts)
	}
	if GroupOf("event", api.PlatformAPNs) != "event" || MarkOf(api.PlatformAPNs, LabelFailed) != LabelFailed {
		t.Error("a group or a mark is longer")
	}
}
