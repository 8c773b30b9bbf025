package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
)

// Subscription is what PushSubscription.toJSON() gives in a browser.
type Subscription struct {
	// Endpoint is a URL of the browser's push service: https, at most 2,048 bytes.
	Endpoint string `json:"endpoint" validate:"required,endpoint" example:"https://fcm.googleapis.com/fcm/send/cAb3-xyz"`
	// ExpirationTime is accepted as the browser gives it, and has no effect.
	ExpirationTime *float64         `json:"expirationTime,omitempty"`
	Keys           SubscriptionKeys `json:"keys"`
}

// SubscriptionKeys are the keys with which notifications to a browser are encrypted (RFC 8291): base64url,
// with or without padding.
type SubscriptionKeys struct {
	// P256dh is a point on P-256, uncompressed.
	P256dh string `json:"p256dh" validate:"required,p256dh" example:"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"`
	// Auth is 16 bytes.
	Auth string `json:"auth" validate:"required,auth" example:"BTBZMqHH6r4Tts7J_aSIgg"`
}

// TokenOfEndpoint is the token of the device that a browser is (W2): "wp." and the SHA-256 of its
// endpoint in base64url. Any client can compute it.
func TokenOfEndpoint(endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint))
	return "wp." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Target is all that sending to a browser needs, in one text: the endpoint and the keys p256dh and auth in
// base64url without padding, with a blank before each. None of them contains a blank, a bar or a byte
// below one. It is secret: no answer, dead letter or log shows it.
func (s *Subscription) Target() string {
	return s.Endpoint + " " + strings.TrimRight(s.Keys.P256dh, "=") + " " + strings.TrimRight(s.Keys.Auth, "=")
}

// ParseTarget reads the form of Target.
func ParseTarget(text string) (s Subscription, ok bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 {
		return Subscription{}, false
	}
	return Subscription{Endpoint: parts[0], Keys: SubscriptionKeys{P256dh: parts[1], Auth: parts[2]}}, true
}

// ParseEndpoint checks the form of a browser's endpoint and returns its host, in lower case, and its path
// with the query. The scheme is https, the port 443, and there are no user info and no fragment. The host
// is a name with a dot, and no IP address in any spelling that some resolver reads as one, such as
// 127.1, 2130706433 or 0x7f.1 (W15).
func ParseEndpoint(s string) (host, path string, ok bool) {
	if len(s) > MaxEndpoint || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '|' }) {
		return "", "", false
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" || strings.Contains(s, "#") || u.Port() != "" && u.Port() != "443" ||
		strings.HasSuffix(u.Host, ":") {
		return "", "", false
	}
	host = strings.ToLower(u.Hostname())
	if len(host) > 253 || strings.Contains(u.Host, "[") || !isHostName(host) {
		return "", "", false
	}
	return host, u.RequestURI(), true
}

// isHostName reports whether a host in lower case is a name with a dot, and no address.
func isHostName(host string) bool {
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || !consistsOf(label, "abcdefghijklmnopqrstuvwxyz-") {
			return false
		}
	}
	last := labels[len(labels)-1]
	_, err := strconv.ParseUint(last, 0, 64) // a host whose last part is a number is an address (WHATWG URL, 3.5)
	return len(labels) > 1 && err != nil && !consistsOf(last, "") && !strings.HasPrefix(last, "0x")
}

// PushOrigins lists the hosts of push services to whose endpoints fanfare sends (W15): names, "*." and a
// domain for every name below it, and "*" for all hosts.
type PushOrigins []string

// KnownPushOrigins are the push services of today's browsers.
var KnownPushOrigins = PushOrigins{"fcm.googleapis.com", "*.push.services.mozilla.com", "*.push.apple.com", "*.notify.windows.com"}

// OtherOrigin stands for every host that only "*" lists, in names of apps.
const OtherOrigin = "other"

// Of returns the entry of the list that a host belongs to, OtherOrigin if that is only "*" or none.
// listed reports whether fanfare sends to it. APNs itself, whose names are below that of Apple's push service for
// browsers, is on no list.
func (o PushOrigins) Of(host string) (origin string, listed bool) {
	if strings.HasPrefix(host, "api.") && strings.HasSuffix(host, ".push.apple.com") {
		return OtherOrigin, false
	}
	for _, entry := range o {
		domain, below := strings.CutPrefix(entry, "*.")
		switch {
		case entry == "*":
			listed = true
		case entry == host, below && strings.HasSuffix(host, "."+domain):
			return entry, true
		}
	}
	return OtherOrigin, listed
}
