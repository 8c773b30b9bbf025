package api

import (
	"net/url"
	"strings"
)

const (
	// MaxWebhooks is how many webhooks there may be.
	MaxWebhooks = 100
	// MaxWebhookURL is the size of a webhook's URL in bytes.
	MaxWebhookURL = 2048
	// MaxWebhookSecrets is how many secrets of a webhook sign at a time.
	MaxWebhookSecrets = 3
	// DefaultWebhookMax is how many facts a request to a webhook has at most, unless the webhook says otherwise.
	DefaultWebhookMax = 100
)

// WebhookState says whether facts are sent to a webhook.
type WebhookState string

// The states of a webhook.
const (
	WebhookOn  WebhookState = "on"
	WebhookOff WebhookState = "off"
)

// WebhookRequest is the body of PUT /v1/webhooks/{id}.
type WebhookRequest struct {
	// URL is where facts are sent: https, at most 2,048 bytes, without user info and fragment. http is taken only if the
	// server has FANFARE_WEBHOOK_NETS, and then leads only to addresses in those networks.
	URL string `json:"url" validate:"required,webhook_url" maxLength:"2048" example:"https://shop.example.com/hooks/fanfare"`
	// Types are the types of the facts that are sent.
	Types []string `json:"types" validate:"required,min=1,max=100,unique,dive,identifier" example:"event.done"`
	// Max is how many facts a request has at most.
	Max *int64 `json:"max,omitempty" validate:"omitnil,min=1,max=100" minimum:"1" maximum:"100" default:"100" example:"100"`
	// State is on or off. While a webhook is off nothing is sent, and what happens meanwhile is sent once it is on again, as
	// far as facts are kept.
	State WebhookState `json:"state,omitempty" validate:"omitempty,oneof=on off" enums:"on,off" default:"on" example:"on"`
}

// Webhook is a webhook on record. It does not show the secrets.
type Webhook struct {
	ID string `json:"id" example:"shop"`
	// Version is another, larger number after each change of url, types, max or state, and after the webhook was deleted and made
	// again. A new secret and a replay leave it as it is.
	Version int64        `json:"version" example:"7"`
	URL     string       `json:"url" example:"https://shop.example.com/hooks/fanfare"`
	Types   []string     `json:"types" example:"event.done"`
	Max     int64        `json:"max" example:"100"`
	State   WebhookState `json:"state" enums:"on,off" example:"on"`
	// Gone says that the receiver has turned the webhook off, by the answer 410.
	Gone bool `json:"gone,omitempty"`
	// SecretAt is when the newest secret was made, and OldSecretUntil how long the one before it signs as well. Absent: only
	// one secret signs. A still older one ends earlier.
	SecretAt       Time  `json:"secret_at" swaggertype:"string" format:"date-time"`
	OldSecretUntil *Time `json:"old_secret_until,omitempty" swaggertype:"string" format:"date-time"`
	CreatedAt      Time  `json:"created_at" swaggertype:"string" format:"date-time"`
	UpdatedAt      Time  `json:"updated_at" swaggertype:"string" format:"date-time"`
}

// PutWebhook is the answer of PUT /v1/webhooks/{id}.
type PutWebhook struct {
	Webhook
	// Secret signs the requests: whsec_ and 32 random bytes in base64. It is shown only here, when the webhook is made.
	Secret string `json:"secret,omitempty" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="`
	// Since is from when on no fact of the types is missing.
	Since Time `json:"since" swaggertype:"string" format:"date-time"`
}

// NewSecret is another secret of a webhook. It is shown only here.
type NewSecret struct {
	Secret string `json:"secret" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="`
	// OldSecretUntil is how long the secret before it signs as well.
	OldSecretUntil *Time `json:"old_secret_until,omitempty" swaggertype:"string" format:"date-time"`
}

// WebhookAnswer is what a receiver said to a request.
type WebhookAnswer struct {
	// Status is the status of HTTP. Absent: there was no answer, and Error says why.
	Status int    `json:"status,omitempty" example:"204"`
	Error  string `json:"error,omitempty"`
	TookMS int64  `json:"took_ms" example:"12"`
	// At is when the answer came, by Redis' clock; absent in a test.
	At *Time `json:"at,omitempty" swaggertype:"string" format:"date-time"`
}

// WebhookStatus is a webhook and how far it has come.
type WebhookStatus struct {
	Webhook
	// Position is the position up to which facts were taken, as the list of facts has it.
	Position string `json:"position"`
	// LagMS is how long the oldest fact that was not taken is there; 0: all were taken.
	LagMS int64 `json:"lag_ms" example:"0"`
	// LagAtMost says that LagMS is only an upper bound: so many facts of other types follow the position in a lane that not all
	// were looked at.
	LagAtMost bool `json:"lag_at_most,omitempty"`
	// Gap is how many facts, of all types, were dropped before they were sent.
	Gap int64 `json:"gap" example:"0"`
	// LastAnswer is the last answer in any lane; absent: nothing was sent yet.
	LastAnswer *WebhookAnswer `json:"last_answer,omitempty"`
	// FailingSince is since when a lane's facts were not taken; absent: the last ones were taken in each lane.
	FailingSince *Time `json:"failing_since,omitempty" swaggertype:"string" format:"date-time"`
}

// WebhookReplayRequest is the body of POST /v1/webhooks/{id}/replay.
type WebhookReplayRequest struct {
	// After is a position; absent: before the oldest fact that is kept; now: after the newest one.
	After string `json:"after,omitempty" validate:"max=8000" maxLength:"8000"`
}

// WebhookList is the answer of GET /v1/webhooks.
type WebhookList struct {
	// Items are webhooks by id.
	Items []Webhook `json:"items"`
	// Next is the cursor of the next page. Absent: this page is the last.
	Next string `json:"next,omitempty"`
}

// ParseWebhookURL checks the form of a webhook's URL: http or https with a host, without user info and fragment. Which
// addresses are connected to is decided when fanfare connects (H8).
func ParseWebhookURL(s string) (u *url.URL, ok bool) {
	if len(s) > MaxWebhookURL || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.Contains(s, "#") {
		return nil, false
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Opaque != "" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return nil, false
	}
	return u, true
}
