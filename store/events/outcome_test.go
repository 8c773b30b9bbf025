package events

import (
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

// N10: what is kept of an ended event to one device, and what is left out so that a bucket of reports stays compact.
func TestN10_WhatAReportKeeps(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	done := func(j *Job, marks ...string) string {
		var sent Sent
		for i, mark := range marks {
			sent.Make(api.PlatformAPNs, 1)
			sent.Count(mark)
			sent.Keep(NotificationID("e", string(rune('a'+i))), mark, now)
		}
		return j.ReportDone(Counts{Recipients: int64(len(marks))}, sent)
	}
	plain := len("Dphoto.shared 1      1   1")
	for _, c := range []struct {
		job   Job
		mark  string
		most  int
		state api.NotificationState
	}{
		{Job{}, LabelDelivered, 20, api.NotificationDelivered},
		{Job{Actor: "alice", Object: "album:42"}, LabelDelivered, 24, api.NotificationDelivered},
		{Job{}, LabelExpired, 20, api.NotificationExpired},
		{Job{}, "fcm:" + LabelExpired, 40, api.NotificationExpired},
		{Job{}, FailedBy("BadDeviceToken"), 20 + len(" BadDeviceToken=1 "), api.NotificationFailed},
	} {
		c.job.Type = "photo.shared"
		text := done(&c.job, c.mark)
		if len(text)-plain > c.most || len(text) > compact {
			t.Errorf("%q is %d bytes more, want %d at most", text, len(text)-plain, c.most)
		}
		p, err := parseProgress(text)
		if err != nil {
			t.Fatal(err)
		}
		o := p.outcomes(now.Add(time.Hour))[NotificationJob("e", "a")[:digestLength]]
		if o.state != c.state || !o.at.Equal(now) {
			t.Errorf("%q: %+v", text, o)
		}
		if actor, other := p.is(0, "alice"), p.is(0, "bob"); actor == nil || *actor != (c.job.Actor != "") || other == nil || *other {
			t.Errorf("%q: %v, %v", text, actor, other)
		}
		// Earlier versions read a reason with the count 0, which no report shows.
		if field := text[strings.LastIndexByte(text, ' ')+1:]; strings.IndexByte(field, '=') != len(field)-1 {
			t.Errorf("%q ends with %q", text, field)
		}
	}

	j := &Job{Type: strings.Repeat("t", 30), Actor: "alice", Object: "album:42"}
	p, err := parseProgress(done(j, LabelDelivered, LabelDelivered, LabelDelivered))
	if text := p.text(); err != nil || len(text) > compact || len(p.outcomes(now)) > 0 || p.is(1, "album:42") == nil || !*p.is(1, "album:42") {
		t.Errorf("%q, %v: want the subjects alone", text, err)
	}
	j.Type = strings.Repeat("t", 50)
	p, err = parseProgress(done(j, LabelDelivered))
	if text := p.text(); err != nil || strings.Contains(text, "=") || p.is(0, "alice") != nil {
		t.Errorf("%q, %v: want no more than the numbers", text, err)
	}
}

// N10: outcomes in notes take 8 bytes each; what two notifications or two reasons have in common tells nothing.
func TestN10_Notes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	var sent Sent
	marks := []string{LabelDelivered, LabelExpired, FailedBy("BadDeviceToken"), "fcm:" + LabelCancelled, LabelFailed}
	var ids []string
	for i, mark := range marks {
		ids = append(ids, NotificationID("e", string(rune('a'+i))))
		sent.Keep(ids[i], mark, now.Add(time.Duration(i)*time.Hour))
	}
	notes := sent.note()
	if len(notes) != 8*len(marks) {
		t.Errorf("%d bytes of %d outcomes", len(notes), len(marks))
	}
	got := readNotes(notes, now.Add(40*24*time.Hour), append(ids, NotificationID("e", "z"))...)
	why := map[string]int64{"BadDeviceToken": 1, "Unregistered": 1}
	for i, want := range []api.NotificationState{api.NotificationDelivered, api.NotificationExpired, api.NotificationFailed, api.NotificationCancelled, api.NotificationFailed} {
		var n api.UserNotification
		o := got[ids[i]]
		o.tell(&n, why)
		reason := ""
		if i == 2 {
			reason = "BadDeviceToken"
		}
		if n.State != want || n.Reason != reason || !n.At.Equal(now.Add(time.Duration(i)*time.Hour)) {
			t.Errorf("%d: %+v, want %s %q", i, n, want, reason)
		}
	}
	if len(got) != len(marks) {
		t.Errorf("%d outcomes are found of %d", len(got), len(marks))
	}
	if twice := readNotes(notes+notes[:noteLength], now, ids...); len(twice) != len(marks)-1 || twice[ids[0]].state != "" {
		t.Errorf("of two with one key: %+v", twice[ids[0]])
	}
	alike := map[string]int64{"BadDeviceToken": 1}
	for i := 0; len(alike) < 2; i++ { // another reason with the same bits
		if other := strings.Repeat("x", i%50) + string(rune('a'+i/50%26)) + string(rune('a'+i/1300)); got[ids[2]].because(other) {
			alike[other] = 1
		}
	}
	var n api.UserNotification
	got[ids[2]].tell(&n, alike)
	if n.Reason != "" {
		t.Errorf("of %v it tells %q", alike, n.Reason)
	}
}
