package targeting_test

import (
	"strconv"
	"testing"
	"time"

	"fanfare/api"
)

// N12: audience, settings and devices are read when the event is due, and its time to live counts from then. Its
// report keeps the time.
func TestN12_SettingsAreReadWhenItIsDue(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	ttl := int64(600)
	p.mustType("hello", api.EventTypeRequest{Title: "t", TTLSeconds: &ttl})
	p.mustDevice("bob", 1)
	p.mustDevice("eve", 2)
	at := api.At(time.Now().Add(4 * time.Second))
	r := hello("bob", "eve", "ann")
	r.SendAt = &at
	id := p.mustPost(r)
	if err := p.first.devices.PutOptOut(t.Context(), "eve", "hello"); err != nil {
		t.Fatal(err)
	}
	if err := p.first.devices.DeleteDevice(t.Context(), "bob", token(1)); err != nil {
		t.Fatal(err)
	}
	p.mustDevice("bob", 3)
	p.mustDevice("ann", 4)
	p.first.start()
	report := p.mustEnd(id, api.EventDone)
	p.mustCounts(report, counts{3, 2, 2, 0, 0})
	if report.Suppressed.OptedOut != 1 || report.SendAt == nil || report.SendAt.UnixMilli() != at.UnixMilli() {
		t.Errorf("%+v", report)
	}
	for _, r := range p.apns.Requests() {
		if r.At.Before(at.Time) {
			t.Errorf("sent at %v, %v too early", r.At, at.Sub(r.At))
		}
		if want := strconv.FormatInt(at.Add(time.Duration(ttl)*time.Second).Unix(), 10); r.Expiration != want {
			t.Errorf("expires at %s, want %s", r.Expiration, want)
		}
		t.Logf("%v late", r.At.Sub(at.Time))
	}
}
