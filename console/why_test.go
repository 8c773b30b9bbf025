package console

import (
	"testing"

	"fanfare/api"
)

// The page says first whether the user got the event, and if not, why.
func TestVerdict(t *testing.T) {
	t.Parallel()
	is := true
	phone := []api.Device{{Platform: string(api.PlatformAPNs)}}
	ended := func(states ...api.NotificationState) (all []api.UserNotification) {
		for _, state := range states {
			all = append(all, api.UserNotification{State: state, Reason: map[bool]string{true: "Unregistered"}[state == api.NotificationFailed]})
		}
		return all
	}
	for want, e := range map[string]api.UserEvent{
		"Yes: it was delivered to one device.":           {State: api.EventDone, Notifications: ended(api.NotificationDelivered, api.NotificationFailed)},
		"Yes: it was delivered to 2 devices.":            {State: api.EventSending, Notifications: ended(api.NotificationDelivered, api.NotificationDelivered)},
		"Not yet: the event is queued.":                  {State: api.EventQueued},
		"Not yet: the event is sending.":                 {State: api.EventSending, Notifications: ended(api.NotificationRetrying)},
		"No: its notification is failed (Unregistered).": {State: api.EventDone, OutcomesKept: true, Notifications: ended(api.NotificationFailed)},
		"No: its notification is expired.":               {State: api.EventDone, OutcomesKept: true, Notifications: ended(api.NotificationExpired)},
		"Not known any more: a notification is failed (Unregistered), and another device may have got one.": {State: api.EventDone, Notifications: ended(api.NotificationFailed)},
		"Not known any more.":                     {State: api.EventDone, Now: api.UserNow{OptedOut: true}},
		"No: the event is cancelled.":             {State: api.EventCancelled, OutcomesKept: true},
		"No: dave is the actor.":                  {State: api.EventDone, OutcomesKept: true, Now: api.UserNow{IsActor: &is, OptedOut: true}},
		"No: dave has opted out of photo.shared.": {State: api.EventDone, OutcomesKept: true, Now: api.UserNow{OptedOut: true, Devices: phone}},
		"No: dave has muted the event's object.":  {State: api.EventDone, OutcomesKept: true, Now: api.UserNow{Muted: &is, Devices: phone}},
		"No: dave has no device.":                 {State: api.EventDone, OutcomesKept: true},
		"No: there is no notification to dave, who was not in the audience, or was left out for a reason that no longer holds.": {State: api.EventDone, OutcomesKept: true, Now: api.UserNow{Devices: phone}},
	} {
		e.User, e.Type = "dave", "photo.shared"
		if got := verdict(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
