package delivery

import (
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
)

// W5: each device of an event gets the payload of its language, whether it waited in the queue or not.
func TestW5_EachDeviceGetsItsLanguage(t *testing.T) {
	t.Parallel()
	set, err := render.NewTemplateSet(&api.EventTypeRequest{Title: "Hello", Localized: map[string]api.LocalizedText{"de": {Title: "Hallo"}, "fr": {Title: "Salut"}}})
	if err != nil {
		t.Fatal(err)
	}
	push, err := set.Render("ev1", &api.EventRequest{Type: "t"})
	if err != nil {
		t.Fatal(err)
	}
	job := &events.Job{Push: *push}
	var to []Recipient
	for _, locale := range []string{"", "de-AT", "fr", "de", "en"} {
		to = append(to, Recipient{User: "bob", Device: &api.Device{Token: strings.Repeat("ab", 32), Environment: api.EnvProduction, Locale: locale}})
	}
	to = append(to, Recipient{User: "bob", Device: &api.Device{Token: strings.Repeat("fcm-", 10), Topic: "t", Locale: "de"}})
	d := new(Delivery)
	works := d.works(&Event{Claim: &queue.Claimed{Job: queue.Job{ID: "ev1"}}, Job: job}, to)
	for i, want := range []string{"Hello", "Hallo", "Salut", "Hallo", "Hello"} {
		waiting, err := decodeMessage("ev1", works[i].m.encode())
		if err != nil {
			t.Fatal(err)
		}
		for way, m := range map[string]*message{"waiting": waiting, "at once": works[i].m} {
			payload := `{"aps":{"alert":{"title":"` + want + `"}},"event_id":"ev1","type":"t"}`
			if string(m.Push.Payload) != payload || m.Push.Languages != nil {
				t.Errorf("%q, %s: %s, want %s", to[i].Device.Locale, way, m.Push.Payload, payload)
			}
		}
	}
	const onFCM = `{"android":{"notification":{"tag":"ev1","title":"Hallo"},"priority":"HIGH"},` +
		`"apns":{"headers":{"apns-collapse-id":"ev1","apns-priority":"10","apns-push-type":"alert"},"payload":{"aps":{"alert":{"title":"Hallo"}}}},"notification":{"title":"Hallo"},"data":{"event_id":"ev1","type":"t"}}`
	waiting, err := decodeMessage("ev1", works[5].m.encode())
	if err != nil {
		t.Fatal(err)
	}
	for way, m := range map[string]*message{"waiting": waiting, "at once": works[5].m} {
		if string(m.Push.Payload) != onFCM || m.platform() != api.PlatformFCM || d.app(m) != "t/fcm" || m.Push.CollapseID != "ev1" {
			t.Errorf("FCM, %s: %+v", way, m)
		}
	}
	if &works[1].m.Push.Payload[0] != &works[3].m.Push.Payload[0] {
		t.Error("a form is made more than once")
	}
}
