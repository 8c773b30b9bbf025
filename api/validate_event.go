package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// audienceRules requires exactly one kind of audience.
func audienceRules(to reporter, a *Audience) {
	kinds := 0
	for _, given := range [...]bool{a.Users != nil, a.ContactsOf != "", a.Chat != "", a.Topic != "", a.All, a.ActivitiesOf != "", a.Broadcast != ""} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		to.ReportError(a, "", "", "exactly_one", "users, contacts_of, chat, topic, all, activities_of, broadcast")
	}
}

// eventRules limits the aps object of an event and refuses an empty alert.
func eventRules(to reporter, e *EventRequest) {
	objectRules(to, e.APS, "aps", MaxAPS)
	objectRules(to, e.FCM, "fcm", MaxFCM)
	webPushRules(to, e.WebPush)
	topicsRules(to, e.Topic)
	if e.Audience.Broadcast != "" && e.Topic != nil {
		to.ReportError(e.Topic, "topic", "Topic", "broadcast", "")
	}
	liveRules(to, e)
	if e.Alert != nil && *e.Alert == (Alert{}) {
		to.ReportError(e.Alert, "alert", "Alert", "required", "title or body")
	}
}

// eventTypeRules checks the rules between fields of an event type that do not depend on its
// templates.
func eventTypeRules(to reporter, t *EventTypeRequest) {
	if t.PushType == PushBackground && t.Priority == 10 {
		to.ReportError(t.Priority, "priority", "Priority", "background", "")
	}
	objectRules(to, t.APS, "aps", MaxAPS)
	objectRules(to, t.FCM, "fcm", MaxFCM)
	webPushRules(to, t.WebPush)
	topicsRules(to, t.Topic)
	localizedRules(to, t.Localized)
}

// webPushRules limits a webpush object.
func webPushRules(to reporter, o *WebPushOptions) {
	if o != nil && jsonSize(o) > MaxWebPush {
		to.ReportError(json.RawMessage{}, "webpush", "WebPush", "max", fmt.Sprint(MaxWebPush))
	}
}

// localizedRules requires a text in each language, and names each language once.
func localizedRules(to reporter, texts map[string]LocalizedText) {
	names, seen := slices.Sorted(maps.Keys(texts)), map[string]string{}
	for _, name := range names {
		field, same := "localized["+name+"]", strings.ToLower(name)
		if texts[name] == (LocalizedText{}) {
			to.ReportError(texts[name], field, "", "required", "title or body")
		}
		if other := seen[same]; other != "" {
			to.ReportError(texts[name], field, "", "unique", other)
		}
		seen[same] = name
	}
	if jsonSize(texts) > MaxLocalized {
		to.ReportError(json.RawMessage{}, "localized", "Localized", "max", fmt.Sprint(MaxLocalized))
	}
}
