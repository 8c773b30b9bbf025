package api

import (
	"crypto/ecdh"
	"encoding/base64"
	"strings"
)

// BrowserRequest is the body of POST /v1/users/{user}/devices. A browser has no token of its own: its
// endpoint gives one, see TokenOfEndpoint.
type BrowserRequest struct {
	Platform string `json:"platform" validate:"required,oneof=webpush" enums:"webpush" example:"webpush"`
	// Topic names the app of Web Push with whose public key the page subscribed.
	Topic string `json:"topic" validate:"required,identifier" example:"shop"`
	// Subscription has the endpoint and the keys of the browser, as toJSON() of the subscription gives them in a page.
	Subscription Subscription `json:"subscription"`
	// Locale chooses the texts of notifications, as for other devices. Absent: the default texts.
	Locale string `json:"locale,omitempty" validate:"omitempty,locale" example:"de-AT"`
	// Replaces is the token that the device had before, as for other devices.
	Replaces string `json:"replaces,omitempty" validate:"omitempty,token"`
	// RegisteredAt is when the page itself registered, as for other devices.
	RegisteredAt *Time `json:"registered_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
}

// Device is the token of the browser, and its registration as that of any other device.
func (r *BrowserRequest) Device() (token string, d *DeviceRequest) {
	return TokenOfEndpoint(r.Subscription.Endpoint), &DeviceRequest{
		Platform: r.Platform, Topic: r.Topic, Locale: r.Locale, Replaces: r.Replaces, RegisteredAt: r.RegisteredAt,
		Target: r.Subscription.Target(),
	}
}

// PushKey is the answer of GET /v1/webpush/{topic}/key.
type PushKey struct {
	// Key is the application server's public key, a point on P-256 in base64url (RFC 8292).
	Key string `json:"key" example:"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"`
}

// OriginOf is the scheme and the host of the endpoint in a Target; "" for any other text.
func OriginOf(target string) string {
	if host := hostOf(target); host != "" {
		return "https://" + host
	}
	return ""
}

// OfTarget returns what Of returns for the endpoint's host in a Target.
func (o PushOrigins) OfTarget(target string) string {
	origin, _ := o.Of(hostOf(target))
	return origin
}

func hostOf(target string) string {
	if target == "" {
		return ""
	}
	endpoint, _, _ := strings.Cut(target, " ")
	host, _, _ := ParseEndpoint(endpoint)
	return host
}

// Unlisted returns the error of a field whose endpoint is at a push service that the list does not have.
// It returns none for text that is no endpoint, which another rule reports.
func (o PushOrigins) Unlisted(field, endpoint string) []FieldError {
	host, _, ok := ParseEndpoint(endpoint)
	if _, listed := o.Of(host); listed || !ok {
		return nil
	}
	return []FieldError{{Field: field, Rule: "origin", Message: "is at a push service to which this server does not send"}}
}

// validPoint reports whether a text is an uncompressed point on P-256 in base64url.
func validPoint(s string) bool {
	b, ok := decodeKey(s)
	if !ok {
		return false
	}
	_, err := ecdh.P256().NewPublicKey(b)
	return err == nil
}

// validAuth reports whether a text is 16 bytes in base64url.
func validAuth(s string) bool {
	b, ok := decodeKey(s)
	return ok && len(b) == 16
}

// decodeKey reads base64url with or without padding, in its only spelling.
func decodeKey(s string) ([]byte, bool) {
	s = strings.TrimRight(s, "=")
	b, err := base64.RawURLEncoding.DecodeString(s)
	return b, err == nil && base64.RawURLEncoding.EncodeToString(b) == s // the decoder skips ends of lines
}
