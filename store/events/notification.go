package events

import (
	"encoding/base64"

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
