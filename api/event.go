package api

import (
	"encoding/json"
	"time"
)

// EventRequest is one event: something that happened, and the users who may want to know. It has
// identifiers only; nothing is looked up while it is accepted. The rules of fields that the validator
// skips ("-") are in eventRules.
type EventRequest struct {
	Type     string   `json:"type" validate:"required,identifier" example:"photo.shared"`
	Actor    string   `json:"actor,omitempty" validate:"omitempty,identifier" example:"alice"`
	Object   string   `json:"object,omitempty" validate:"omitempty,identifier=object" example:"album:42"`
	Audience Audience `json:"audience"`
	// Data is sent in the payload and fills the type's templates: flat string values, at most
	// 2 KiB as JSON.
	Data map[string]string `json:"data,omitempty" validate:"omitempty,maxjson=2048"`
	// Alert replaces the type's templates; with it the type need not exist.
	Alert *Alert `json:"alert,omitempty"`
	// APS is merged into the payload's aps object; at most 2 KiB.
	APS json.RawMessage `json:"aps,omitempty" validate:"-" swaggertype:"object"`
	// FCM is laid over the event type's fcm, member by member, objects merged; at most 2 KiB.
	FCM json.RawMessage `json:"fcm,omitempty" validate:"-" swaggertype:"object"`
	// WebPush is laid over the event type's webpush, member by member; at most 2 KiB.
	WebPush *WebPushOptions `json:"webpush,omitempty"`
	// Live is what Live Activities show; the event's type has push type liveactivity, or does not exist.
	Live *Live `json:"live,omitempty"`
	// Topic is the topic, or a list of topics, of the apps whose devices get the event; it replaces that of the
	// type. Absent: all apps of each user.
	Topic      Topics `json:"topic,omitempty" validate:"-" swaggertype:"array,string" example:"com.example.app"`
	CollapseID string `json:"collapse_id,omitempty" validate:"maxbytes=64,header"`
	ExpiresAt  *Time  `json:"expires_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
	// SendAt is when the event is targeted, by Redis' clock: at most 7 days ahead and before `expires_at`.
	// Absent or in the past: at once.
	SendAt *Time `json:"send_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
}

// MaxSendAhead is how far in the future an event's SendAt may be.
const MaxSendAhead = 7 * 24 * time.Hour

// Audience has exactly one of its fields.
type Audience struct {
	Users      []string `json:"users,omitempty" validate:"omitempty,min=1,max=10000,dive,identifier" example:"bob"`
	ContactsOf string   `json:"contacts_of,omitempty" validate:"omitempty,identifier"`
	Chat       string   `json:"chat,omitempty" validate:"omitempty,identifier"`
	Topic      string   `json:"topic,omitempty" validate:"omitempty,identifier"`
	All        bool     `json:"all,omitempty"`
	// ActivitiesOf is the object whose activities are updated or ended.
	ActivitiesOf string `json:"activities_of,omitempty" validate:"omitempty,identifier=object"`
	// Broadcast is the object whose broadcast channel is sent to.
	Broadcast string `json:"broadcast,omitempty" validate:"omitempty,identifier=object"`
}

// Alert is the visible text of a notification. It is not a template.
type Alert struct {
	Title string `json:"title,omitempty" validate:"maxbytes=256"`
	Body  string `json:"body,omitempty" validate:"maxbytes=2048"`
}

// NamedEvent is an event that the server itself makes. Its name makes it unique: if the server makes
// it again, nothing happens.
type NamedEvent struct {
	// Name identifies the event, and At is its time. The events of one Route are targeted in one
	// shard, in order.
	Name, Route string
	At          time.Time
	Event       EventRequest
}

// TestEventType is the type of the events that POST /v1/users/{user}/devices/{token}/test makes. An event
// type of that name on record does not change them.
const TestEventType = "fanfare.test"

// EventBatchRequest is the body of POST /v1/events/batch.
type EventBatchRequest struct {
	Events []EventRequest `json:"events" validate:"required,min=1,max=1000,dive"`
}

// EventAccepted has the id of an accepted event. From then on the event is not lost.
type EventAccepted struct {
	ID string `json:"id"`
}

// EventPreview is what an event would send, which was checked and not accepted.
type EventPreview struct {
	PushType PushType `json:"push_type"`
	Priority int      `json:"priority" example:"10"`
	// CollapseID is by what a device replaces an earlier notification; left out if it keeps both.
	CollapseID string `json:"collapse_id,omitempty"`
	// Topics are those of the apps that the event is for; left out if it is for all.
	Topics []string `json:"topics,omitempty"`
	// Payloads are what devices get, for each platform that the event is meant for and each language.
	Payloads []PayloadPreview `json:"payloads"`
}

// PayloadPreview is what devices of one platform with one language would get.
type PayloadPreview struct {
	Platform Platform `json:"platform"`
	// Locale is the language of localized, in lower case; left out for the type's own texts.
	Locale  string          `json:"locale,omitempty" example:"de"`
	Payload json.RawMessage `json:"payload" swaggertype:"object"`
	// Bytes is the size that is compared with Limit: on FCM that of the keys and values that Android gets,
	// otherwise that of the payload.
	Bytes int `json:"bytes" example:"84"`
	Limit int `json:"limit" example:"4096"`
}

// OpenedRequest is the body of POST /v1/events/{id}/opened and of /dismissed.
type OpenedRequest struct {
	// User may be left out with a user token: it is then the token's user.
	User string `json:"user" validate:"required,identifier" subject:"self" example:"bob"`
	// Token is that of the device on which it was. The fact has its first characters; it has no other effect.
	Token string `json:"token,omitempty" validate:"omitempty,token"`
}

// EventBatchAccepted lists the accepted events in the order of the request.
type EventBatchAccepted struct {
	Items []EventAccepted `json:"items"`
}

// EventState is how far an event has come.
type EventState string

// The states of an event.
const (
	EventScheduled EventState = "scheduled"
	EventQueued    EventState = "queued"
	EventTargeting EventState = "targeting"
	EventSending   EventState = "sending"
	EventDone      EventState = "done"
	EventExpired   EventState = "expired"
	EventCancelled EventState = "cancelled"
	// EventSuperseded is a live event that a newer one of its object went before, so that its audience, or the rest of it,
	// was left out.
	EventSuperseded EventState = "superseded"
)

// EventReport is the answer of GET /v1/events/{id}. The counts are right even if work was done again
// after a crash. Recipients are distinct users before suppression.
type EventReport struct {
	ID    string     `json:"id"`
	Type  string     `json:"type"`
	State EventState `json:"state"`
	// AcceptedAt is as in ListedEvent; absent for an event whose id does not tell it.
	AcceptedAt *Time `json:"accepted_at,omitempty" swaggertype:"string" format:"date-time"`
	// SendAt is when the event is, or was, due; absent: at once.
	SendAt *Time `json:"send_at,omitempty" swaggertype:"string" format:"date-time"`
	// Recipients is null for an event to a broadcast: nobody but Apple knows the subscribers of a channel.
	Recipients *int64 `json:"recipients"`
	// Broadcast is there for an event to a broadcast alone.
	Broadcast *BroadcastCounts `json:"broadcast,omitempty"`
	PlatformCounts
	// Platforms has the same numbers for each platform that has notifications; they add up to those of
	// the event.
	Platforms map[Platform]PlatformCounts `json:"platforms,omitempty"`
	// Opened is how many users have opened a notification of the event; absent if its type does not count that, or
	// if it is not known who got one, or no longer.
	Opened *int64 `json:"opened,omitempty"`
	// Dismissed is how many users have dismissed one, as Opened.
	Dismissed *int64 `json:"dismissed,omitempty"`
	// FailedBy counts the failed notifications by reason, at most the 10 most frequent reasons.
	FailedBy   map[string]int64 `json:"failed_by,omitempty"`
	Suppressed SuppressedCounts `json:"suppressed"`
}

// ListedEvent is an event in a list, with the numbers of its report.
type ListedEvent struct {
	ID    string     `json:"id"`
	Type  string     `json:"type"`
	State EventState `json:"state"`
	// AcceptedAt is to a 32nd of a second, by the clock of the process that accepted the event. An event
	// of a batch may have a time up to half a second later.
	AcceptedAt Time `json:"accepted_at" swaggertype:"string" format:"date-time"`
	// SendAt is when the event is, or was, due; absent: at once.
	SendAt        *Time  `json:"send_at,omitempty" swaggertype:"string" format:"date-time"`
	Recipients    *int64 `json:"recipients"` // null for an event to a broadcast
	Notifications int64  `json:"notifications"`
	Delivered     int64  `json:"delivered"`
	Failed        int64  `json:"failed"`
	Expired       int64  `json:"expired"`
	Cancelled     int64  `json:"cancelled"`
	Superseded    int64  `json:"superseded,omitempty"`
}

// EventList is the answer of GET /v1/events, newest first.
type EventList struct {
	Items []ListedEvent `json:"items"`
	Next  string        `json:"next,omitempty"`
}

// PlatformCounts are numbers of notifications, of an event or of one platform of it.
type PlatformCounts struct {
	Notifications int64 `json:"notifications"`
	Delivered     int64 `json:"delivered"`
	Failed        int64 `json:"failed"`
	Expired       int64 `json:"expired"`
	// Cancelled are those that were made, and not sent before their event was cancelled.
	Cancelled int64 `json:"cancelled"`
	// Superseded are those of a live event that were made, and not sent before a newer one of its object; left out if there
	// are none.
	Superseded int64 `json:"superseded,omitempty"`
	Retrying   int64 `json:"retrying"`
}

// SuppressedCounts counts the users who got no notification. Each counts once, under the first reason
// that applies, in the order of the fields.
type SuppressedCounts struct {
	IsActor  int64 `json:"is_actor"`
	OptedOut int64 `json:"opted_out"`
	Muted    int64 `json:"muted"`
	NoDevice int64 `json:"no_device"`
	Live     int64 `json:"live"`
}

// UserEvent is the answer of GET /v1/events/{id}/users/{user}: what became of an event for one user. What
// fanfare does not know, or no longer knows, is absent.
type UserEvent struct {
	ID    string     `json:"id"`
	User  string     `json:"user"`
	Type  string     `json:"type"`
	State EventState `json:"state"`
	Now   UserNow    `json:"now"`
	// Notifications are those to the devices that the user has now, dropped ones too.
	Notifications []UserNotification `json:"notifications"`
	// OutcomesKept is false if it is not, or no longer, known how some of the event's notifications have ended. Then
	// a device without a notification here may have got one.
	OutcomesKept bool `json:"outcomes_kept"`
}

// UserNow is what holds for a user now, and may have been different when the event was targeted.
type UserNow struct {
	// IsActor tells that the user is the event's actor; absent if it is not known who is.
	IsActor *bool `json:"is_actor,omitempty"`
	// OptedOut tells that the user has opted out of the event's type.
	OptedOut bool `json:"opted_out"`
	// Muted tells that the user has muted the event's object; absent if it is not known which object that is,
	// and the user has muted one.
	Muted *bool `json:"muted,omitempty"`
	// Live tells that the user has a stream of chats open, so that events to chats are not sent to the user.
	Live    bool     `json:"live"`
	Devices []Device `json:"devices"`
}

// UserNotification is an event's notification to one of a user's devices.
type UserNotification struct {
	Token    string            `json:"token"`
	Platform Platform          `json:"platform"`
	State    NotificationState `json:"state"`
	// Reason says why it waits, is tried again or failed.
	Reason string `json:"reason,omitempty"`
	// At is when it ended.
	At *Time `json:"at,omitempty" swaggertype:"string" format:"date-time"`
	// Until is when it is tried again at the earliest.
	Until *Time `json:"until,omitempty" swaggertype:"string" format:"date-time"`
}

// EventNotificationList is the answer of GET /v1/events/{id}/notifications.
type EventNotificationList struct {
	Items []EventNotification `json:"items"`
	// Complete is false if it is known that not all of the event's failed notifications are kept.
	Complete bool   `json:"complete"`
	Next     string `json:"next,omitempty"`
}

// EventNotification is a notification of an event that failed. What fanfare does not know is absent.
type EventNotification struct {
	User string `json:"user"`
	// Token is the ShortToken of the device.
	Token       string            `json:"token,omitempty"`
	Platform    Platform          `json:"platform"`
	Topic       string            `json:"topic,omitempty"`
	Environment Environment       `json:"environment,omitempty"`
	State       NotificationState `json:"state"`
	// Reason is why it failed, as the push service or fanfare names it; at most 100 bytes.
	Reason string `json:"reason,omitempty"`
	// At is when it failed.
	At *Time `json:"at,omitempty" swaggertype:"string" format:"date-time"`
	// Attempts is how often it was sent.
	Attempts int `json:"attempts,omitempty"`
	// DeadLetter is the id of its dead letter, with which it can be tried again.
	DeadLetter string `json:"dead_letter,omitempty"`
}

// NotificationState is how far a notification has come.
type NotificationState string

// The states of a notification.
const (
	NotificationWaiting   NotificationState = "waiting"
	NotificationRetrying  NotificationState = "retrying"
	NotificationDelivered NotificationState = "delivered"
	NotificationFailed    NotificationState = "failed"
	NotificationExpired   NotificationState = "expired"
	NotificationCancelled NotificationState = "cancelled"
	// NotificationSuperseded is one of a live event that a newer one of its object went before.
	NotificationSuperseded NotificationState = "superseded"
)
