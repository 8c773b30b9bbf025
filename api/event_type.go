package api

import (
	"cmp"
	"encoding/json"
)

// PushType is the apns-push-type of a notification.
type PushType string

// The push types that APNs knows.
const (
	PushAlert        PushType = "alert"
	PushBackground   PushType = "background"
	PushLocation     PushType = "location"
	PushVoIP         PushType = "voip"
	PushComplication PushType = "complication"
	PushLiveActivity PushType = "liveactivity"
	PushPushToTalk   PushType = "pushtotalk"
	PushWidgets      PushType = "widgets"
	PushControls     PushType = "controls"
)

// EventTypeRequest is the body of PUT /v1/event-types/{type}: how events of this type look on a phone.
type EventTypeRequest struct {
	// Title is a template of text, {{.actor}}, {{.object}}, {{.data.name}} and
	// {{if}}{{else}}{{end}}; at most 256 bytes.
	Title string `json:"title,omitempty" validate:"maxbytes=256" example:"New photo"`
	// Body is a template like the title; at most 2,048 bytes.
	Body     string `json:"body,omitempty" validate:"maxbytes=2048" example:"{{.actor}} shared {{.data.album}}"`
	Sound    string `json:"sound,omitempty" validate:"maxbytes=128" example:"default"`
	Category string `json:"category,omitempty" validate:"maxbytes=128"`
	ThreadID string `json:"thread_id,omitempty" validate:"maxbytes=128"`
	// PushType goes only to devices of APNs whose topic takes it: voip to topics that end with .voip,
	// complication .complication, location .location-query, pushtotalk .voip-ptt, widgets .push-type.widgets and controls
	// .push-type.controls; the others to topics that end with none of these.
	PushType PushType `json:"push_type,omitempty" validate:"omitempty,oneof=alert background location voip complication liveactivity pushtotalk widgets controls" default:"alert"`
	// Topic is the topic, or a list of topics, of the apps whose devices get events of this type. A topic of APNs
	// need not have the end that the push type asks for. Absent: all apps of each user.
	Topic Topics `json:"topic,omitempty" validate:"-" swaggertype:"array,string" example:"com.example.app"`
	// Priority is 1, 5 or 10; by default 5 for background and 10 otherwise.
	Priority int `json:"priority,omitempty" validate:"omitempty,oneof=1 5 10"`
	// TTLSeconds is how long a notification is useful, counted from the acceptance of its event.
	// Absent: no apns-expiration is sent. 0: the push service tries once and stores nothing, and fanfare
	// tries to hand it over for a minute.
	TTLSeconds *int64 `json:"ttl_seconds,omitempty" validate:"omitempty,min=0,max=2592000"`
	// Collapse derives a collapse id from the event, so that a resend after an unknown outcome
	// replaces the notification on the phone instead of showing it twice.
	Collapse *bool `json:"collapse,omitempty" default:"true"`
	// RetryUnknown sends a notification again if the connection was lost before APNs answered. If
	// false, such a notification ends as failed(unknown_outcome).
	RetryUnknown *bool           `json:"retry_unknown,omitempty" default:"true"`
	APS          json.RawMessage `json:"aps,omitempty" swaggertype:"object"`
	// FCM is merged into the android member of messages to FCM, over what fanfare sets; at most 2 KiB. It
	// cannot have collapse_key, data, priority and ttl, which other fields set.
	FCM json.RawMessage `json:"fcm,omitempty" swaggertype:"object"`
	// WebPush has members of what pages get beside the text; at most 2 KiB.
	WebPush *WebPushOptions `json:"webpush,omitempty"`
	// Badge is the number on the icon of the app: none leaves it, count shows the user's badge, and add raises the badge of
	// each recipient by one, once for all devices. unread is for the type chat.message: the number of chats with unread
	// messages. A badge in aps takes precedence. Alerts alone have one, and a type with one needs no text.
	Badge BadgeMode `json:"badge,omitempty" validate:"omitempty,oneof=none count add unread" default:"none"`
	// Opened counts the users who open and who dismiss notifications of its events, as apps tell with POST
	// /v1/events/{id}/opened and /dismissed. For alerts alone. Of other types nothing is noted and nothing counted.
	Opened bool `json:"opened,omitempty" default:"false"`
	// Localized has the texts in other languages, by locale, such as de or de-AT. A device gets each text in
	// its locale, else in the language of its locale, else as the type's own title and body. Locales are
	// compared without regard to case. At most 20, and 8 KiB as JSON.
	Localized map[string]LocalizedText `json:"localized,omitempty" validate:"omitempty,max=20,dive,keys,locale,endkeys"`
}

// WebPushOptions are what a page's service worker shows and does beside the text. Addresses may be relative
// to the page's.
type WebPushOptions struct {
	// Icon is the address of a picture beside the text.
	Icon string `json:"icon,omitempty" example:"/icon.png"`
	// Badge is the address of a picture in one colour, for places without room for a text.
	Badge string `json:"badge,omitempty" example:"/badge.png"`
	// Image is the address of a large picture.
	Image string `json:"image,omitempty" example:"/photos/42.jpg"`
	// URL is the address that a click opens.
	URL string `json:"url,omitempty" example:"/albums/42"`
	// Actions are buttons.
	Actions []WebPushAction `json:"actions,omitempty" validate:"omitempty,dive"`
	// RequireInteraction keeps the notification until somebody closes it.
	RequireInteraction *bool `json:"require_interaction,omitempty"`
}

// WebPushAction is a button of a notification.
type WebPushAction struct {
	// Action names the button in the event that a click makes.
	Action string `json:"action" validate:"required" example:"like"`
	// Title is the button's text.
	Title string `json:"title" validate:"required" example:"Like"`
	// Icon is the address of the button's picture.
	Icon string `json:"icon,omitempty" example:"/like.png"`
}

// LocalizedText is the text of an event type in one language: a title, a body, or both.
type LocalizedText struct {
	// Title is a template as the type's title is; at most 256 bytes.
	Title string `json:"title,omitempty" validate:"maxbytes=256" example:"Neues Foto"`
	// Body is a template as the type's body is; at most 2,048 bytes.
	Body string `json:"body,omitempty" validate:"maxbytes=2048" example:"{{.actor}} hat {{.data.album}} geteilt"`
}

// EventType is an event type on record. Revision rises with every change. An event keeps the revision
// with which it was accepted.
type EventType struct {
	Type string `json:"type" example:"photo.shared"`
	EventTypeRequest
	Revision  int64 `json:"revision"`
	CreatedAt Time  `json:"created_at"`
	UpdatedAt Time  `json:"updated_at"`
}

// InForce returns the type with the defaults that apply written out.
func (t EventType) InForce() *EventType {
	t.PushType = cmp.Or(t.PushType, PushAlert)
	for _, on := range []**bool{&t.Collapse, &t.RetryUnknown} {
		if *on == nil {
			*on = new(true)
		}
	}
	return &t
}

// EventTypeList is the answer of GET /v1/event-types.
type EventTypeList struct {
	Items []EventType `json:"items"`
	Next  string      `json:"next,omitempty"`
}
