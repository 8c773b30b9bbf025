package api

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// The limits of POST /v1/devices/batch.
const (
	MaxDeviceBatch     = 1000    // devices in one call
	MaxDeviceBatchBody = 4 << 20 // bytes
)

// Platform is the push service that issued a device's token.
type Platform string

// The platforms, see ParseToken.
const (
	PlatformAPNs    Platform = "apns"
	PlatformFCM     Platform = "fcm"
	PlatformWebPush Platform = "webpush"
)

// ShortToken is the begin of a device's token, by which people tell the devices of a user apart and with which
// nothing can be sent. A BroadcastToken is short.
func ShortToken(token string) string {
	if ObjectOfBroadcast(token) != "" {
		return token
	}
	n := 8
	if strings.HasPrefix(token, "wp.") {
		n += len("wp.")
	}
	return token[:min(n, len(token))]
}

// TokenDigest names a device's token without giving it away, in 16 characters: the first 96 bits of its SHA-256, as base64url. They
// are enough that no two tokens share it.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// PlatformOf is the platform of a registered device's token. Only APNs has environments.
func PlatformOf(token string, e Environment) Platform {
	if e != "" {
		return PlatformAPNs
	}
	_, p := ParseToken(token)
	return p
}

// PlatformOf is the push service that issued the device's token.
func (d *Device) PlatformOf() Platform { return PlatformOf(d.Token, d.Environment) }

// Environment is the APNs environment that a token belongs to.
type Environment string

// The APNs environments.
const (
	EnvProduction Environment = "production"
	EnvSandbox    Environment = "sandbox"
)

// DeviceState says whether a device gets notifications.
type DeviceState string

// The states of a device. A suspect device still gets notifications. A dropped device gets none until
// it registers again.
const (
	DeviceActive  DeviceState = "active"
	DeviceSuspect DeviceState = "suspect"
	DeviceDropped DeviceState = "dropped"
)

// DeviceRequest is the body of PUT /v1/users/{user}/devices/{token}.
type DeviceRequest struct {
	Platform string `json:"platform" validate:"required,oneof=apns fcm" enums:"apns,fcm" example:"apns"`
	Topic    string `json:"topic" validate:"required,identifier" example:"com.example.app"`
	// Environment is where an APNs token was issued. The platform apns needs one, and no other has any.
	Environment Environment `json:"environment,omitempty" validate:"omitempty,oneof=production sandbox" example:"production"`
	// Locale chooses the texts of notifications: a language, perhaps with a region, such as de or de-AT; at
	// most 35 bytes. Absent: the default texts.
	Locale string `json:"locale,omitempty" validate:"omitempty,locale" example:"de-AT"`
	// Replaces is the token that the device had before: that device of the same user is removed in the same
	// step. One that is not there, or is another user's, is left alone.
	Replaces string `json:"replaces,omitempty" validate:"omitempty,token"`
	// RegisteredAt is when the device itself registered, for backends that register it later: what a push service
	// said about the token since then goes on to count, and a device that registered for another user since stays that
	// user's. Absent: now.
	RegisteredAt *Time `json:"registered_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
	// Target is where a browser's notifications go, see Subscription.Target; "" on other platforms. It comes
	// from a BrowserRequest.
	Target string `json:"-"`
}

// TokenField is the field of the request that gives the token.
func (r *DeviceRequest) TokenField() string { return tokenField(r.Target != "") }

func tokenField(browser bool) string {
	if browser {
		return "subscription.endpoint"
	}
	return "token"
}

// environmentRule is the rule that an environment breaks, "" for none: APNs needs one, and no other
// platform has any (W1).
func environmentRule(platform string, e Environment) string {
	switch {
	case platform == string(PlatformAPNs) && e == "":
		return "required"
	case (platform == string(PlatformFCM) || platform == string(PlatformWebPush)) && (e == EnvProduction || e == EnvSandbox): // oneof reports any other
		return "apns"
	}
	return ""
}

// ofPlatform reports whether a token has the form of a platform (W1). It accepts tokens without any known
// form and unknown platforms, because other rules report these.
func ofPlatform(token, platform string) bool {
	_, of := ParseToken(token)
	return of == Platform(platform) || of == "" || !slices.Contains([]Platform{PlatformAPNs, PlatformFCM, PlatformWebPush}, Platform(platform))
}

// CheckToken returns a CodeValidation error if the token has not the form of the device's platform.
func (r *DeviceRequest) CheckToken(token string) error {
	if ofPlatform(token, r.Platform) {
		return nil
	}
	return Invalid("token", "token", "is not a token of %s", r.Platform)
}

// DeviceBatchRequest is the body of POST /v1/devices/batch: devices of any number of users. No token
// is named twice, in upper or lower case.
type DeviceBatchRequest struct {
	Devices []DeviceEntry `json:"devices" validate:"required,min=1,max=1000,dive"`
}

// DeviceEntry is one device of a DeviceBatchRequest.
type DeviceEntry struct {
	User string `json:"user" validate:"required,identifier" example:"bob"`
	// Token is the device's token. A browser has a subscription instead.
	Token       string      `json:"token,omitempty" validate:"omitempty,token"`
	Platform    string      `json:"platform" validate:"required,oneof=apns fcm webpush" enums:"apns,fcm,webpush" example:"apns"`
	Topic       string      `json:"topic" validate:"required,identifier" example:"com.example.app"`
	Environment Environment `json:"environment,omitempty" validate:"omitempty,oneof=production sandbox" example:"production"`
	// Subscription has the endpoint and the keys of a browser, which has no token.
	Subscription *Subscription `json:"subscription,omitempty"`
	Locale       string        `json:"locale,omitempty" validate:"omitempty,locale" example:"de-AT"`
	// RegisteredAt is when the device itself registered, as for single devices.
	RegisteredAt *Time `json:"registered_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
}

// StoredToken is the device's token in its stored form; "" if it has none.
func (e *DeviceEntry) StoredToken() string {
	if e.Subscription != nil {
		return TokenOfEndpoint(e.Subscription.Endpoint)
	}
	token, _ := NormalToken(e.Token)
	return token
}

// TokenField is the field that gives the token.
func (e *DeviceEntry) TokenField() string { return tokenField(e.Subscription != nil) }

// Target is where a browser's notifications go, see Subscription.Target; "" on other platforms.
func (e *DeviceEntry) Target() string {
	if e.Subscription == nil {
		return ""
	}
	return e.Subscription.Target()
}

// broken is the field of the entry that breaks a rule of its platform, with the rule; "" for none. A browser
// has a subscription and no token, and every other device a token and no subscription.
func (e *DeviceEntry) broken() (field, rule string) {
	browser := e.Platform == string(PlatformWebPush)
	switch {
	case browser && e.Token != "":
		return "token", "derived"
	case browser && e.Subscription == nil:
		return "subscription", "required"
	case browser:
	case e.Subscription != nil:
		return "subscription", "webpush"
	case e.Token == "":
		return "token", "required"
	case !ofPlatform(e.Token, e.Platform):
		return "token", "token"
	}
	return "", ""
}

// Device is a registered device.
type Device struct {
	Token       string      `json:"token"`
	Platform    string      `json:"platform"`
	Topic       string      `json:"topic"`
	Environment Environment `json:"environment,omitempty"`
	// Origin is the scheme and the host of a browser's endpoint.
	Origin       string      `json:"origin,omitempty" example:"https://fcm.googleapis.com"`
	Locale       string      `json:"locale,omitempty" example:"de-AT"`
	State        DeviceState `json:"state"`
	Reason       string      `json:"reason,omitempty"`
	RegisteredAt Time        `json:"registered_at"`
	DroppedAt    *Time       `json:"dropped_at,omitempty"`
	// Live is set if this is an activity, which no answer shows among devices.
	Live *DeviceLive `json:"-"`
	// Target is where a browser's notifications go, see Subscription.Target, or those of an activity on FCM, see
	// ActivityRequest.Stored; "" for all others.
	Target string `json:"-"`
}

// DeviceLive is what makes an activity of a device.
type DeviceLive struct {
	// Object is what an activity shows, LiveStarts for a start token.
	Object         string
	AttributesType string
	EndsAt         int64 // Unix ms; 0: it does not end
	// Token is set of an Android phone that stands for its activity: the token under which the activity is kept.
	Token string
}

// LiveStarts stands for the object of start tokens. It is no identifier.
const LiveStarts = "*"

// DeviceList is the answer of GET /v1/users/{user}/devices.
type DeviceList struct {
	Items []Device `json:"items"`
	Next  string   `json:"next,omitempty"`
}

// MuteRequest is the optional body of PUT /v1/users/{user}/mutes/{object}.
type MuteRequest struct {
	// Until is when the mute ends; absent: it lasts until it is deleted.
	Until *Time `json:"until,omitempty" swaggertype:"string" format:"date-time"`
}

// Mute is one muted object.
type Mute struct {
	Object string `json:"object"`
	Until  *Time  `json:"until,omitempty"`
}

// NotificationSettings is the answer of
// GET /v1/users/{user}/notification-settings.
type NotificationSettings struct {
	OptOuts []string `json:"opt_outs"`
	Mutes   []Mute   `json:"mutes"`
	Devices []Device `json:"devices"`
}
