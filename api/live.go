package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// LiveAction says what a live event does with Live Activities.
type LiveAction string

// The actions of a live event.
const (
	LiveStart  LiveAction = "start"
	LiveUpdate LiveAction = "update"
	LiveEnd    LiveAction = "end"
)

// Live is what an event shows in the Live Activities of iPhones and in the Live Updates of Android phones.
type Live struct {
	// Action is start, update or end. A start goes to the start tokens of its audience's users. The others go to the
	// activities of an object.
	Action LiveAction `json:"action" validate:"required,oneof=start update end" enums:"start,update,end" example:"update"`
	// ContentState is what the app shows, in the app's own form. An end may leave it out.
	ContentState json.RawMessage `json:"content_state,omitempty" validate:"-" swaggertype:"object"`
	// AttributesType is the name that the app gives the type of activities, of a start alone, which needs it.
	AttributesType string `json:"attributes_type,omitempty" validate:"omitempty,identifier" example:"MatchAttributes"`
	// Attributes are what stays the same while the activity lasts, of a start alone, which needs them. The app does not
	// get the event's object otherwise, so they should name it.
	Attributes json.RawMessage `json:"attributes,omitempty" validate:"-" swaggertype:"object"`
	// StaleAt is when the phone shows that the state is out of date.
	StaleAt *Time `json:"stale_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
	// DismissAt is when the phone removes an activity that has ended, of an end alone. Absent: at most 4 hours after it.
	DismissAt *Time `json:"dismiss_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
	// Relevance orders several activities of an app: the highest is in the Dynamic Island.
	Relevance *float64 `json:"relevance,omitempty" validate:"-" example:"100"`
	// Android is what a Live Update shows beside the state.
	Android *LiveAndroid `json:"android,omitempty"`
}

// LiveAndroid has what an Android app needs for a Live Update. The app gets it with the state, and builds the notification.
type LiveAndroid struct {
	Title string `json:"title,omitempty" validate:"maxbytes=256" example:"Ajax - Feyenoord"`
	Text  string `json:"text,omitempty" validate:"maxbytes=2048" example:"2 : 1"`
	// ShortText is the text of the chip in the status bar, which shows some 7 characters.
	ShortText string `json:"short_text,omitempty" validate:"maxbytes=64" example:"2:1"`
	// When is the time that the notification counts down to, or shows.
	When     *Time         `json:"when,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
	Progress *LiveProgress `json:"progress,omitempty"`
}

// LiveProgress is the bar of a Live Update.
type LiveProgress struct {
	// Value is how far it has come: 0 to the sum of the segments' lengths, or to 100 without segments.
	Value    int64         `json:"value" validate:"min=0,max=1000000" example:"63"`
	Segments []LiveSegment `json:"segments,omitempty" validate:"omitempty,max=20,dive"`
	Points   []LivePoint   `json:"points,omitempty" validate:"omitempty,max=20,dive"`
}

// LiveSegment is a section of the bar.
type LiveSegment struct {
	Length int64 `json:"length" validate:"min=1,max=1000000" example:"45"`
	// Color is #RRGGBB.
	Color string `json:"color,omitempty" validate:"omitempty,color" example:"#1b5e20"`
}

// LivePoint is a mark on the bar.
type LivePoint struct {
	Position int64 `json:"position" validate:"min=0,max=1000000" example:"12"`
	// Color is #RRGGBB.
	Color string `json:"color,omitempty" validate:"omitempty,color" example:"#b71c1c"`
}

// Of is the object whose activities the audience names, "" for any other audience.
func (a *Audience) Of() string { return a.ActivitiesOf + a.Broadcast }

// liveRules checks what depends on the action of a live event, and on its audience.
func liveRules(to reporter, e *EventRequest) {
	of := e.Audience.Of()
	if e.Live == nil {
		if of != "" {
			to.ReportError(e.Live, "live", "Live", "required", "")
		}
		return
	}
	switch starts := e.Live.Action == LiveStart; {
	case starts && of != "":
		to.ReportError(e.Audience, "audience", "Audience", "audience", "users, contacts_of, chat, topic, all")
	case starts && e.Object == "":
		to.ReportError(e.Object, "object", "Object", "required", "")
	case !starts && of == "":
		to.ReportError(e.Audience, "audience", "Audience", "audience", "activities_of, broadcast")
	case !starts && e.Object != "" && e.Object != of:
		to.ReportError(e.Object, "object", "Object", "equal", "the object of the audience")
	}
	if e.Alert != nil && e.Live.Action == LiveEnd {
		to.ReportError(e.Alert, "alert", "Alert", "action", "start or update")
	}
	e.Live.rules(to)
}

func (l *Live) rules(to reporter) {
	only := func(given bool, field string, action LiveAction) {
		if given && l.Action != action {
			to.ReportError(l, "live."+field, field, "action", string(action))
		}
	}
	only(l.AttributesType != "", "attributes_type", LiveStart)
	only(l.Attributes != nil, "attributes", LiveStart)
	only(l.DismissAt != nil, "dismiss_at", LiveEnd)
	if l.Action == LiveStart && l.AttributesType == "" {
		to.ReportError(l, "live.attributes_type", "AttributesType", "required", "")
	}
	for field, object := range map[string]struct {
		value  json.RawMessage
		needed bool
	}{
		"content_state": {l.ContentState, l.Action != LiveEnd}, "attributes": {l.Attributes, l.Action == LiveStart},
	} {
		switch given := len(object.value) > 0 && string(object.value) != "null"; {
		case given:
			objectRules(to, object.value, "live."+field, MaxBroadcast)
		case object.needed:
			to.ReportError(l, "live."+field, field, "required", "")
		}
	}
}

// validColor reports whether s is a colour such as #1b5e20.
func validColor(s string) bool {
	return len(s) == len("#rrggbb") && s[0] == '#' && consistsOf(s[1:], "abcdefABCDEF")
}

// The limits of activities.
const (
	MaxActivities   = 20             // of a user that have not ended
	MaxActivityLife = 12 * time.Hour // until an activity that shows an object ends
)

// ActivityKind is what an activity's token is for.
type ActivityKind string

// The kinds of activities.
const (
	// ActivityUpdate is an activity that shows an object.
	ActivityUpdate ActivityKind = "update"
	// ActivityStart is a token that starts activities of a type.
	ActivityStart ActivityKind = "start"
)

// ActivityRequest is the body of PUT /v1/users/{user}/activities/{token}.
type ActivityRequest struct {
	Platform string `json:"platform" validate:"required,oneof=apns fcm" enums:"apns,fcm" example:"apns"`
	// Topic is that of the app: on APNs its bundle id, with or without .push-type.liveactivity.
	Topic string `json:"topic" validate:"required,identifier" example:"com.example.app"`
	// Environment is where an APNs token was issued. The platform apns needs one, and no other has any.
	Environment Environment `json:"environment,omitempty" validate:"omitempty,oneof=production sandbox" example:"production"`
	// Object is what the activity shows, of kind update alone.
	Object string       `json:"object,omitempty" validate:"omitempty,identifier=object" example:"match:7"`
	Kind   ActivityKind `json:"kind" validate:"required,oneof=update start" enums:"update,start" example:"update"`
	// AttributesType is the name that the app gives a type of activities; kind start needs it.
	AttributesType string `json:"attributes_type,omitempty" validate:"omitempty,identifier" example:"MatchAttributes"`
	// EndsAt is when the activity ends, of kind update alone: at most 12 hours ahead. Absent: in 12 hours.
	EndsAt *Time `json:"ends_at,omitempty" validate:"-" swaggertype:"string" format:"date-time"`
	// Registration is the registration token of FCM through which an iPhone is reached. The token in the path is then that of
	// the activity. An Android phone has none: its registration token is in the path.
	Registration string `json:"registration,omitempty" validate:"omitempty,token"`
	// Locale chooses the texts of alerts, as that of a device does.
	Locale string `json:"locale,omitempty" validate:"omitempty,locale" example:"de-AT"`
}

// Activity is a registered activity.
type Activity struct {
	Token          string       `json:"token"`
	Platform       string       `json:"platform"`
	Topic          string       `json:"topic"`
	Environment    Environment  `json:"environment,omitempty"`
	Object         string       `json:"object,omitempty" example:"match:7"`
	Kind           ActivityKind `json:"kind" example:"update"`
	AttributesType string       `json:"attributes_type,omitempty" example:"MatchAttributes"`
	Locale         string       `json:"locale,omitempty" example:"de-AT"`
	RegisteredAt   Time         `json:"registered_at"`
	EndsAt         *Time        `json:"ends_at,omitempty"`
}

// ActivityList is the answer of GET /v1/users/{user}/activities.
type ActivityList struct {
	Items []Activity `json:"items"`
	Next  string     `json:"next,omitempty"`
}

// activityRules checks what depends on the platform and the kind of an activity.
func activityRules(to reporter, r *ActivityRequest) {
	reportEnvironment(to, r.Platform, r.Environment)
	if r.Registration != "" && (r.Platform != string(PlatformFCM) || !ofPlatform(r.Registration, string(PlatformFCM))) {
		to.ReportError(r.Registration, "registration", "Registration", "fcm", "")
	}
	if _, full := r.Topics(); len(r.Topic) <= MaxIdentifier && len(full) > MaxIdentifier {
		to.ReportError(r.Topic, "topic", "Topic", "maxbytes", fmt.Sprint(MaxIdentifier-len(PushLiveActivity.TopicSuffix())))
	}
	switch r.Kind {
	case ActivityStart:
		if r.AttributesType == "" {
			to.ReportError(r.AttributesType, "attributes_type", "AttributesType", "required", "")
		}
		if r.Object != "" {
			to.ReportError(r.Object, "object", "Object", "kind", string(ActivityUpdate))
		}
		if r.EndsAt != nil {
			to.ReportError(r.EndsAt, "ends_at", "EndsAt", "kind", string(ActivityUpdate))
		}
	case ActivityUpdate:
		if r.Object == "" {
			to.ReportError(r.Object, "object", "Object", "required", "")
		}
	}
}

// CheckToken returns a CodeValidation error if the token has not the form that the activity asks for.
func (r *ActivityRequest) CheckToken(token string) error {
	platform := r.Platform
	if r.Registration != "" { // an iPhone's activity is one of APNs
		platform = string(PlatformAPNs)
	}
	if ofPlatform(token, platform) {
		return nil
	}
	return Invalid("token", "token", "is not a token of %s", platform)
}

// Stored is the token under which the activity is kept, and its Target. On APNs that is its own token, without a target. On
// FCM it is "la." and a digest, and the target is the registration token, for an iPhone with the activity's own token and a
// blank before it. An Android phone has one registration token for all its activities.
func (r *ActivityRequest) Stored(token string) (stored, target string) {
	own, _ := NormalToken(token)
	switch {
	case r.Platform == string(PlatformAPNs):
		return own, ""
	case r.Registration != "":
		return activityToken(own), r.Registration + " " + own
	}
	typ := r.AttributesType
	if r.Kind == ActivityUpdate { // one phone shows an object once, whatever the type is called
		typ = ""
	}
	return activityToken(own, string(r.Kind), r.Object, typ), own
}

// activityToken is the token of an activity on FCM. It has the form of FCM's tokens.
func activityToken(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, " ")))
	return "la." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// ActivityTokens are the tokens under which an activity of an iPhone may be kept, on APNs and on FCM.
func ActivityTokens(own string) []string { return []string{own, activityToken(own)} }

// LiveTarget takes the registration token and, of an iPhone, the token of the activity out of a Target. ok tells that it is
// an activity's.
func LiveTarget(target string) (registration, activity string, ok bool) {
	registration, activity, both := strings.Cut(target, " ")
	_, is := ParseToken(registration)
	if both {
		_, of := ParseToken(activity)
		return registration, activity, is == PlatformFCM && of == PlatformAPNs
	}
	return registration, "", is == PlatformFCM
}

// Activity is the activity that a device is which has Live.
func (d *Device) Activity() Activity {
	a := Activity{
		Token: d.Token, Platform: d.Platform, Topic: d.Topic, Environment: d.Environment, Object: d.Live.Object, Kind: ActivityUpdate,
		AttributesType: d.Live.AttributesType, Locale: d.Locale, RegisteredAt: d.RegisteredAt,
	}
	if registration, own, ok := LiveTarget(d.Target); ok {
		a.Token = cmp.Or(own, registration)
	}
	if d.Live.Object == LiveStarts {
		a.Object, a.Kind = "", ActivityStart
	}
	if d.Live.EndsAt > 0 {
		a.EndsAt = new(AtMillis(d.Live.EndsAt))
	}
	return a
}

// Ended reports whether an activity has ended.
func (l *DeviceLive) Ended(now time.Time) bool { return l.EndsAt > 0 && l.EndsAt <= now.UnixMilli() }

// Topics are the bundle id of the app, and the topic to which APNs takes its activities; on FCM both are the topic.
func (r *ActivityRequest) Topics() (bundle, full string) {
	if r.Platform != string(PlatformAPNs) {
		return r.Topic, r.Topic
	}
	bundle = LiveBundle(r.Topic)
	return bundle, bundle + PushLiveActivity.TopicSuffix()
}
