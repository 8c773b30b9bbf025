package events

import (
	"slices"
	"strings"

	"fanfare/api"
)

// OtherPlatforms are the platforms whose notifications are counted beside those of all platforms (W7). What
// is left belongs to APNs, so that an installation with APNs alone stores nothing for it.
var OtherPlatforms = [...]api.Platform{api.PlatformFCM, api.PlatformWebPush}

// platformMark stands between an event's id, or a platform, and what follows.
const platformMark = ":"

// groupEndings are the endings of the groups of the OtherPlatforms.
var groupEndings = [len(OtherPlatforms)]string{platformMark + string(api.PlatformFCM), platformMark + string(api.PlatformWebPush)}

// GroupOf names the group of an event's notifications on a platform: the event's id for APNs, and the id
// with the platform's name for others, so that the queue counts these by themselves.
func GroupOf(event string, p api.Platform) string {
	if i := slices.Index(OtherPlatforms[:], p); i >= 0 {
		return event + groupEndings[i]
	}
	return event
}

// EventOfGroup is the id of the event that a group's notifications belong to.
func EventOfGroup(group string) string {
	event, _, _ := strings.Cut(group, platformMark)
	return event
}

// MarkOf is the mark of a notification that ended on a platform under this label.
func MarkOf(p api.Platform, label string) string {
	if slices.Contains(OtherPlatforms[:], p) {
		return string(p) + platformMark + label
	}
	return label
}

// platformOf takes the platform and the label out of a notification's mark.
func platformOf(mark string) (api.Platform, string) {
	p, label, _ := strings.Cut(mark, platformMark)
	if slices.Contains(OtherPlatforms[:], api.Platform(p)) {
		return api.Platform(p), label
	}
	return api.PlatformAPNs, mark
}
