package events

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/google/uuid"

	"fanfare/api"
	"fanfare/store/queue"
)

// notificationSpace is the name space of notification ids. It must never change, because the same
// event and device must always give the same id.
var notificationSpace = uuid.MustParse("7d1e6c0a-2f4b-5d8e-9a3c-0b6f1e2d4c5a")

// NotificationID is the id of an event's notification to a device, here and at
// the push service: a lowercase UUIDv5, a pure function of both.
func NotificationID(event, token string) string { return notificationUUID(event, token).String() }

// NotificationJob is the same id as the key of the notification's job: short, because the queue keeps
// it twice.
func NotificationJob(event, token string) string {
	id := notificationUUID(event, token)
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// JobFor names the job of an event's notification to a device in the queue q: its ID, Shard and Group.
func JobFor(q *queue.Queue, event, token string, p api.Platform) queue.Job {
	return queue.Job{ID: NotificationJob(event, token), Shard: q.Route(token), Group: GroupOf(event, p)}
}

func notificationUUID(event, token string) uuid.UUID {
	return uuid.NewSHA1(notificationSpace, []byte(event+"\x00"+token))
}

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

// MarkOf is the mark of a notification that ended on a platform under this label, or became a job of its own (LabelStored).
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

// LabelStored is the label in the mark of a notification that became a job of its own.
const LabelStored = "stored"

// MarkName is the name of a notification's mark: the beginning of the notification's id.
func MarkName(id string) string { return id[:18] }

// MarkText is the text of a mark in the queue. It has the user's name, so that a later run does not
// count a user as suppressed who already got the notification.
func MarkText(mark, user string) string { return mark + " " + user }

// ParseMark reads the form of MarkText.
func ParseMark(text string) (mark, user string) {
	mark, user, _ = strings.Cut(text, " ")
	return mark, user
}

// The counters of an event's notifications, one record in each shard.
const (
	CountCreated   = "created"
	CountRetrying  = "retrying"
	CountUnknown   = "unknown_outcome"
	LabelDelivered = "delivered"
	LabelExpired   = "expired"
	LabelFailed    = "failed"
	LabelCancelled = "cancelled"
	// LabelSuperseded is that of an update that was not sent before a newer one of its object.
	LabelSuperseded = "superseded"
)

// FailedBy is the label of a notification that failed for a reason, and the name under which
// such notifications are counted.
func FailedBy(reason string) string { return LabelFailed + reasonMark + reason }

const reasonMark = "!"

// LabelPart counts the parts of an event that have ended, or were given up for their age.
const LabelPart = "ended"
