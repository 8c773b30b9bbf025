package targeting_test

import (
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/pack"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

func (p *pipeline) mustTest(user, token string) string {
	p.Helper()
	a, _, err := p.first.events.AcceptTest(p.Context(), user, token, api.Idempotency{})
	storetest.Must(p, err)
	return a.ID
}

// N13: the test notification goes to one device of the user, with its event or as a job, whatever the user wants.
func TestN13_OnlyThisDevice(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"AtOnce": false, "Waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{waits: waits})
			for n := range 4 {
				p.mustDevice("bob", n)
			}
			p.mustDevice("eve", 4)
			storetest.Must(t, p.first.devices.PutOptOut(t.Context(), "bob", api.TestEventType))
			p.mustType(api.TestEventType, api.EventTypeRequest{Title: "another text"})
			var ids []string
			for range 3 {
				ids = append(ids, p.mustTest("bob", token(2)))
			}
			for _, id := range ids {
				r := p.mustEnd(id, api.EventDone)
				p.mustCounts(r, counts{1, 1, 1, 0, 0})
				if r.Type != api.TestEventType {
					t.Errorf("type %s", r.Type)
				}
			}
			for _, r := range p.apns.Requests() {
				if r.Token != token(2) || !strings.Contains(string(r.Payload), `"body":"Notifications reach this device."`) {
					t.Errorf("%s got %s", r.Token, r.Payload)
				}
			}
			if n := p.apns.Total(); n != len(ids) {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// N13: a device that is dropped, or gone when the event is targeted, gets nothing, and nor do the user's others.
func TestN13_ADeviceThatIsGone(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	for n := range 3 {
		p.mustDevice("bob", n)
	}
	d := p.first.devices
	storetest.Must(t, d.Drop(t.Context(), token(0), "Unregistered", api.Time{}, p.device("bob", 0).RegisteredAt))
	ids := []string{p.mustTest("bob", token(0)), p.mustTest("bob", token(1))}
	storetest.Must(t, d.DeleteDevice(t.Context(), "bob", token(1)))
	p.first.start()
	for _, id := range ids {
		if r := p.mustEnd(id, api.EventDone); r.Notifications != 0 || r.Suppressed.NoDevice != 1 {
			t.Errorf("%+v", r)
		}
	}
	if n := p.apns.Total(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// N13: builds that do not know an audience find no user in it. They give the event back, and in the end it is
// a dead letter, which a build that knows it can retry. They send nothing.
func TestN13_BuildsThatDoNotKnowTheAudience(t *testing.T) {
	t.Parallel()
	text := (&events.Job{Type: api.TestEventType, Audience: events.Audience{Device: &events.OneDevice{User: "bob", Token: token(1)}}}).Encode()
	known := []string{"users", "pages", "contacts_of", "chat", "topic", "all"} // by builds before
	var stored struct {
		Audience map[string]any `json:"audience"`
	}
	storetest.Must(t, pack.Decode(text, &stored))
	for name := range stored.Audience {
		if slices.Contains(known, name) {
			t.Errorf("%q names %s, which builds before know", text, name)
		}
	}

	p := setup(t, options{queue: func(o *queue.Options) { o.MaxAttempts, o.RetryMax = 3, 1 }})
	p.mustDevice("bob", 1)
	q := p.first.queueOfEvents
	later := strings.Replace(string(text), "device", "future", 1) // as this build sees what it does not know
	_, err := q.Enqueue(t.Context(), queue.Job{Payload: []byte(later)})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "the event is a dead letter", func() bool {
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, q)
		return err == nil && len(list.Items) == 1 && list.Items[0].Reason == "max_attempts"
	})
	if n := p.apns.Total(); n != 0 {
		t.Errorf("%d requests", n)
	}
}
