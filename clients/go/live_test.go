package fanfare_test

import (
	"strings"
	"testing"
	"time"

	fanfare "fanfare/clients/go"
)

// mustLive makes each call of Live Activities and broadcasts.
func mustLive(t *testing.T, c *fanfare.Client) {
	t.Helper()
	ctx, token := within(t, time.Minute), strings.Repeat("a7", 32)
	made, err := c.RegisterActivity(ctx, "bob", token, fanfare.Activity{Platform: "apns", Topic: "com.example.app", Environment: "sandbox", Kind: "update", Object: "match:7"})
	must(t, err)
	all, err := c.ListActivities(ctx, "bob")
	if err != nil || len(all) != 1 || all[0] != made || made.Token != token || made.Object != "match:7" || time.Until(made.EndsAt) < 11*time.Hour {
		t.Errorf("activities %+v, %+v: %v", made, all, err)
	}
	id, err := c.SendEvent(ctx, fanfare.Event{Type: "match", Audience: fanfare.Audience{ActivitiesOf: "match:7"},
		Live: &fanfare.Live{Action: "update", ContentState: map[string]int{"home": 1}, Android: map[string]string{"title": "1 : 0"}}})
	must(t, err)
	until(t, "the update is done", func() bool {
		report, err := c.GetEvent(ctx, id)
		must(t, err)
		return report.State == "done" && report.Delivered == 1
	})
	ends := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	channel, err := c.PutBroadcast(ctx, "match:7", fanfare.Broadcast{Topic: "com.example.app", Environment: "sandbox", Keep: "none", EndsAt: ends})
	if err != nil || channel.State != "open" || channel.Channel == "" || !channel.EndsAt.Equal(ends) {
		t.Errorf("a broadcast %+v: %v", channel, err)
	}
	found, err := c.GetBroadcast(ctx, "match:7")
	if err != nil || found.Channel != channel.Channel || found.Object != "match:7" {
		t.Errorf("the broadcast %+v: %v", found, err)
	}
	page, next, err := c.ListBroadcasts(ctx, "")
	if err != nil || len(page) != 1 || page[0].Channel != channel.Channel || next != "" {
		t.Errorf("broadcasts %+v %q: %v", page, next, err)
	}
	end, err := c.SendEvent(ctx, fanfare.Event{Type: "match", Audience: fanfare.Audience{Broadcast: "match:7"}, Live: &fanfare.Live{Action: "end"}})
	must(t, err)
	until(t, "the broadcast is done", func() bool {
		report, err := c.GetEvent(ctx, end)
		must(t, err)
		return report.State == "done" && report.Recipients == nil && report.Broadcast != nil && report.Broadcast.Sent == 1
	})
	object, err := c.GetLiveObject(ctx, "match:7")
	if err != nil || object.Activities["apns"] != 1 || object.Last == nil || object.Last.Event != end || object.Last.Action != "end" || object.Broadcast == nil {
		t.Errorf("the object %+v: %v", object, err)
	}
	must(t, c.RemoveActivity(ctx, "bob", token, "match:8"))
	if all, err := c.ListActivities(ctx, "bob"); err != nil || len(all) != 1 {
		t.Errorf("another object's activity is removed: %+v %v", all, err)
	}
	must(t, c.RemoveActivity(ctx, "bob", token, ""))
	must(t, c.DeleteBroadcast(ctx, "match:7"))
	if _, err := c.GetBroadcast(ctx, "match:7"); fanfare.CodeOf(err) != "not_found" {
		t.Errorf("a deleted broadcast: %v", err)
	}
	if all, err := c.ListActivities(ctx, "bob"); err != nil || len(all) != 0 {
		t.Errorf("removed activities: %+v %v", all, err)
	}
}
