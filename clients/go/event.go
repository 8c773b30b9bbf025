package fanfare

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Event is something that happened and of which users are notified.
type Event struct {
	// Type is the name of an event type, which says how its notifications look.
	Type     string            `json:"type"`
	Actor    string            `json:"actor,omitempty"`  // who did it, and is not notified
	Object   string            `json:"object,omitempty"` // to what; users can mute it
	Audience Audience          `json:"audience"`
	Data     map[string]string `json:"data,omitempty"`  // at most 2 KiB; templates use it, and devices get it
	Alert    *Alert            `json:"alert,omitempty"` // instead of the type's texts
	APS      any               `json:"aps,omitempty"`   // merged into the payload's aps
	FCM      any               `json:"fcm,omitempty"`
	WebPush  any               `json:"webpush,omitempty"`
	Live     *Live             `json:"live,omitempty"` // what Live Activities show
	// Topic names the apps whose devices get the event; absent: those of the type.
	Topic      []string  `json:"topic,omitempty"`
	CollapseID string    `json:"collapse_id,omitempty"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	SendAt     time.Time `json:"send_at,omitzero"` // at most 7 days ahead
}

// Audience is who is notified. Exactly one field is set.
type Audience struct {
	Users      []string `json:"users,omitempty"`       // at most 10,000
	ContactsOf string   `json:"contacts_of,omitempty"` // everybody who has this user as a contact
	Chat       string   `json:"chat,omitempty"`
	Topic      string   `json:"topic,omitempty"`
	All        bool     `json:"all,omitempty"` // needs the scope push:all
	// ActivitiesOf and Broadcast are the object of a live event.
	ActivitiesOf string `json:"activities_of,omitempty"`
	Broadcast    string `json:"broadcast,omitempty"`
}

// Alert is a text that is not made of a template.
type Alert struct {
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
}

// EventType says how the notifications of its events look. Title and Body are templates.
type EventType struct {
	Title        string           `json:"title,omitempty"`
	Body         string           `json:"body,omitempty"`
	Sound        string           `json:"sound,omitempty"`
	Category     string           `json:"category,omitempty"`
	ThreadID     string           `json:"thread_id,omitempty"`
	PushType     string           `json:"push_type,omitempty"` // "alert" by default
	Topic        []string         `json:"topic,omitempty"`     // the apps; absent: all
	Priority     int              `json:"priority,omitempty"`
	TTLSeconds   *int64           `json:"ttl_seconds,omitempty"`
	Collapse     *bool            `json:"collapse,omitempty"`      // true by default
	RetryUnknown *bool            `json:"retry_unknown,omitempty"` // true by default
	APS          any              `json:"aps,omitempty"`
	FCM          any              `json:"fcm,omitempty"`
	WebPush      any              `json:"webpush,omitempty"`
	Badge        string           `json:"badge,omitempty"`     // the number on the app's icon: "count", "add", or for chat.message "unread"
	Opened       bool             `json:"opened,omitempty"`    // count who opens the notifications
	Localized    map[string]Alert `json:"localized,omitempty"` // by locale
}

// EventReport says what became of an event.
type EventReport struct {
	ID            string    `json:"id"`
	Type          string    `json:"type"`
	State         string    `json:"state"` // scheduled, queued, targeting, sending, done, expired, cancelled or superseded
	AcceptedAt    time.Time `json:"accepted_at"`
	SendAt        time.Time `json:"send_at"`
	Recipients    *int64    `json:"recipients"` // users, before any was left out; nil for an event to a broadcast
	Notifications int64     `json:"notifications"`
	Delivered     int64     `json:"delivered"`
	Failed        int64     `json:"failed"`
	Expired       int64     `json:"expired"`
	Cancelled     int64     `json:"cancelled"`
	Superseded    int64     `json:"superseded"` // of a live event: not sent before a newer one
	Retrying      int64     `json:"retrying"`
	// Opened and Dismissed count users; nil if the event's type does not count them.
	Opened    *int64 `json:"opened"`
	Dismissed *int64 `json:"dismissed"`
	// Suppressed counts the users who got nothing, by reason: is_actor, opted_out, muted, no_device, live.
	Suppressed map[string]int64 `json:"suppressed"`
	// FailedBy counts failed notifications by reason.
	FailedBy map[string]int64 `json:"failed_by"`
	// Broadcast is there for an event to a broadcast alone: Sent is 1 when APNs has taken it.
	Broadcast *struct {
		Sent int64 `json:"sent"`
	} `json:"broadcast"`
}

// Device is a phone of a user.
type Device struct {
	Platform    string `json:"platform"` // "apns" or "fcm"
	Topic       string `json:"topic"`    // the app
	Environment string `json:"environment,omitempty"`
	Locale      string `json:"locale,omitempty"`
	Replaces    string `json:"replaces,omitempty"` // a token of the user that is removed
	// RegisteredAt is when the device itself registered; absent: now. It is a conflict if it registered for another
	// user later.
	RegisteredAt time.Time `json:"registered_at,omitzero"`
}

// Browser is a browser of a user.
type Browser struct {
	Topic string `json:"topic"` // the app
	// Subscription is what PushSubscription.toJSON() gave the page.
	Subscription json.RawMessage `json:"subscription"`
	Locale       string          `json:"locale,omitempty"`
	Replaces     string          `json:"replaces,omitempty"`
}

// RegisteredDevice is a device that fanfare knows.
type RegisteredDevice struct {
	Token        string    `json:"token"`
	Platform     string    `json:"platform"`
	Topic        string    `json:"topic"`
	Environment  string    `json:"environment"`
	Origin       string    `json:"origin"` // of a browser's push service
	Locale       string    `json:"locale"`
	State        string    `json:"state"` // active, suspect or dropped
	Reason       string    `json:"reason"`
	RegisteredAt time.Time `json:"registered_at"`
	DroppedAt    time.Time `json:"dropped_at"`
}

// named is the answer to a call that makes something with an id.
type named struct {
	ID string `json:"id"`
}

// SendEvent hands an event in, and returns its id.
func (c *Client) SendEvent(ctx context.Context, e Event, s ...Setting) (string, error) {
	var made named
	err := c.Call(ctx, http.MethodPost, "/v1/events", e, &made, s...)
	return made.ID, err
}

// SendEvents hands in 1 to 1,000 events, all or none, and returns their ids in the same order.
func (c *Client) SendEvents(ctx context.Context, events []Event, s ...Setting) ([]string, error) {
	var made struct{ Items []named }
	err := c.Call(ctx, http.MethodPost, "/v1/events/batch", map[string]any{"events": events}, &made, s...)
	var ids []string
	for _, item := range made.Items {
		ids = append(ids, item.ID)
	}
	return ids, err
}

// GetEvent reads the report of an event.
func (c *Client) GetEvent(ctx context.Context, id string, s ...Setting) (report EventReport, err error) {
	err = c.Call(ctx, http.MethodGet, Path("v1", "events", id), nil, &report, s...)
	return report, err
}

// opening says on which device a user opened or dismissed a notification.
type opening struct {
	User  string `json:"user"`
	Token string `json:"token,omitempty"`
}

// MarkOpened says that a user opened a notification of an event, whose type has Opened. A user counts once. token is that of the
// device, which the fact then names; "" if it is not known.
func (c *Client) MarkOpened(ctx context.Context, event, user, token string, s ...Setting) error {
	return c.Call(ctx, http.MethodPost, Path("v1", "events", event, "opened"), opening{user, token}, nil, s...)
}

// MarkDismissed says that a user dismissed one.
func (c *Client) MarkDismissed(ctx context.Context, event, user, token string, s ...Setting) error {
	return c.Call(ctx, http.MethodPost, Path("v1", "events", event, "dismissed"), opening{user, token}, nil, s...)
}

// PutEventType makes or replaces an event type. IfMatch and IfAbsent are heeded.
func (c *Client) PutEventType(ctx context.Context, name string, t EventType, s ...Setting) error {
	return c.Call(ctx, http.MethodPut, Path("v1", "event-types", name), t, nil, s...)
}

// RegisterDevice registers a phone under the token that APNs or FCM gave the app.
func (c *Client) RegisterDevice(ctx context.Context, user, token string, d Device, s ...Setting) (made RegisteredDevice, err error) {
	err = c.Call(ctx, http.MethodPut, Path("v1", "users", user, "devices", token), d, &made, s...)
	return made, err
}

// RegisterBrowser registers a browser. The answer has the token under which it can be removed.
func (c *Client) RegisterBrowser(ctx context.Context, user string, b Browser, s ...Setting) (made RegisteredDevice, err error) {
	body := struct {
		Platform string `json:"platform"`
		Browser
	}{"webpush", b}
	err = c.Call(ctx, http.MethodPost, Path("v1", "users", user, "devices"), body, &made, s...)
	return made, err
}

// RemoveDevice removes a device; there need be none.
func (c *Client) RemoveDevice(ctx context.Context, user, token string, s ...Setting) error {
	return c.Call(ctx, http.MethodDelete, Path("v1", "users", user, "devices", token), nil, nil, s...)
}
