package render

import (
	"bytes"
	"strconv"

	"fanfare/api"
)

// badgePlace stands in a payload for the number of the user who gets it. It is as long as the highest badge, so that the size
// of the payload is checked with it, and no number that anybody would set.
const badgePlace = "-9999"

// badgePlaces are the members that have it: that of aps, whose name is the end of a page's app_badge, and that of FCM.
var badgePlaces = [2][]byte{[]byte(`badge":` + badgePlace), []byte(`notification_count":` + badgePlace)}

// badgeOf is an event type's badge, "" for none.
func badgeOf(t *api.EventTypeRequest, pushType api.PushType) (api.BadgeMode, error) {
	if t.Badge == "" || t.Badge == api.BadgeNone {
		return "", nil
	}
	if pushType != api.PushAlert {
		return "", api.Invalid("badge", "alert", "is for push type alert")
	}
	return t.Badge, nil
}

// WithBadge is the push with the number of a user, in the form in which one of the user's devices gets it.
func (p *Push) WithBadge(n int64) *Push {
	out := *p
	out.Badge = ""
	number := strconv.FormatInt(n, 10)
	for _, place := range badgePlaces {
		name := place[:len(place)-len(badgePlace)]
		out.Payload = bytes.ReplaceAll(out.Payload, place, append(name[:len(name):len(name)], number...))
	}
	return &out
}
