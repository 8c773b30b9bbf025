package fanfare

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Live is what an event shows in the Live Activities of iPhones and in the Live Updates of Android phones.
type Live struct {
	Action       string `json:"action"`                  // start, update or end
	ContentState any    `json:"content_state,omitempty"` // what the app shows, an object; an end may leave it out
	// AttributesType and Attributes are those of a start.
	AttributesType string    `json:"attributes_type,omitempty"`
	Attributes     any       `json:"attributes,omitempty"`
	StaleAt        time.Time `json:"stale_at,omitzero"`
	DismissAt      time.Time `json:"dismiss_at,omitzero"` // of an end
	Relevance      *float64  `json:"relevance,omitempty"`
	Android        any       `json:"android,omitempty"` // title, text, short_text, when and progress
}

// Activity says what the token of a Live Activity is for.
type Activity struct {
	Platform    string `json:"platform"` // "apns" or "fcm"
	Topic       string `json:"topic"`    // the app
	Environment string `json:"environment,omitempty"`
	Kind        string `json:"kind"` // "update": it shows an object; "start": it starts activities of a type
	// Object is what an activity shows, AttributesType what a start token starts.
	Object         string    `json:"object,omitempty"`
	AttributesType string    `json:"attributes_type,omitempty"`
	EndsAt         time.Time `json:"ends_at,omitzero"`       // at most 12 hours ahead
	Registration   string    `json:"registration,omitempty"` // the token of FCM through which an iPhone is reached
	Locale         string    `json:"locale,omitempty"`
}

// RegisteredActivity is an activity that fanfare knows.
type RegisteredActivity struct {
	Token string `json:"token"`
	Activity
	RegisteredAt time.Time `json:"registered_at"`
}

// RegisterActivity registers the token of a Live Activity of a user, or of an Android phone.
func (c *Client) RegisterActivity(ctx context.Context, user, token string, a Activity, s ...Setting) (made RegisteredActivity, err error) {
	err = c.Call(ctx, http.MethodPut, Path("v1", "users", user, "activities", token), a, &made, s...)
	return made, err
}

// ListActivities reads the activities of a user that have not ended, at most 20.
func (c *Client) ListActivities(ctx context.Context, user string, s ...Setting) ([]RegisteredActivity, error) {
	var page struct{ Items []RegisteredActivity }
	err := c.Call(ctx, http.MethodGet, Path("v1", "users", user, "activities"), nil, &page, s...)
	return page.Items, err
}

// RemoveActivity removes the activities with a token; there need be none. With an object it removes only the one that shows it.
func (c *Client) RemoveActivity(ctx context.Context, user, token, object string, s ...Setting) error {
	if object != "" {
		s = append([]Setting{Query(url.Values{"object": {object}})}, s...)
	}
	return c.Call(ctx, http.MethodDelete, Path("v1", "users", user, "activities", token), nil, nil, s...)
}

// Broadcast is an object with a channel of APNs.
type Broadcast struct {
	Topic       string    `json:"topic"` // the bundle id of the app
	Environment string    `json:"environment"`
	Keep        string    `json:"keep"` // what APNs keeps for phones that are offline: "none", or the "latest" update
	EndsAt      time.Time `json:"ends_at"`
}

// Channel is what fanfare knows of a broadcast.
type Channel struct {
	Object string `json:"object"`
	Broadcast
	Channel string    `json:"channel"` // what the app subscribes to
	State   string    `json:"state"`   // making, open, lost or closing
	SentAt  time.Time `json:"sent_at"` // when APNs took the last update
}

// PutBroadcast gives an object a channel, or changes when it ends.
func (c *Client) PutBroadcast(ctx context.Context, object string, b Broadcast, s ...Setting) (made Channel, err error) {
	err = c.Call(ctx, http.MethodPut, Path("v1", "broadcasts", object), b, &made, s...)
	return made, err
}

// GetBroadcast reads the broadcast of an object.
func (c *Client) GetBroadcast(ctx context.Context, object string, s ...Setting) (found Channel, err error) {
	err = c.Call(ctx, http.MethodGet, Path("v1", "broadcasts", object), nil, &found, s...)
	return found, err
}

// ListBroadcasts reads a page of the broadcasts, by object, and the cursor of the next one: "" for the first page, and behind the
// last one.
func (c *Client) ListBroadcasts(ctx context.Context, cursor string, s ...Setting) (all []Channel, next string, err error) {
	var page struct {
		Items []Channel
		Next  string
	}
	if cursor != "" {
		s = append([]Setting{Query(url.Values{"cursor": {cursor}})}, s...)
	}
	err = c.Call(ctx, http.MethodGet, "/v1/broadcasts", nil, &page, s...)
	return page.Items, page.Next, err
}

// DeleteBroadcast deletes the channel of an object; there need be none.
func (c *Client) DeleteBroadcast(ctx context.Context, object string, s ...Setting) error {
	return c.Call(ctx, http.MethodDelete, Path("v1", "broadcasts", object), nil, nil, s...)
}

// LiveObject is what shows an object.
type LiveObject struct {
	Object     string           `json:"object"`
	Activities map[string]int64 `json:"activities"` // how many show it, by platform
	More       bool             `json:"more"`       // not all were counted
	// Last is the update or end that began last; nil: none is known.
	Last *struct {
		Event     string    `json:"event"`
		Action    string    `json:"action"`
		At        time.Time `json:"at"`
		Timestamp int64     `json:"timestamp"` // Unix seconds
	} `json:"last"`
	Broadcast *Channel `json:"broadcast"`
}

// GetLiveObject reads what shows an object.
func (c *Client) GetLiveObject(ctx context.Context, object string, s ...Setting) (found LiveObject, err error) {
	err = c.Call(ctx, http.MethodGet, Path("v1", "live", object), nil, &found, s...)
	return found, err
}
