package api

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-playground/validator/v10"
)

// ruleName is the name that callers see for a rule. Callers need not know how lengths are counted.
func ruleName(tag string) string {
	if tag == "maxbytes" || tag == "maxjson" {
		return "max"
	}
	return tag
}

// message says in words what a field must be. It is shown after the field's name.
func message(f validator.FieldError) string {
	switch f.Tag() {
	case "oneof":
		return "must be one of " + strings.Join(strings.Fields(f.Param()), ", ")
	case "min", "max", "maxbytes", "maxjson":
		return boundMessage(f)
	case "cron":
		return cronMessage(fmt.Sprint(f.Value()))
	}
	words, ok := messages[f.Tag()]
	switch {
	case !ok:
		return "breaks the rule " + f.Tag()
	case f.Param() == "" || words.with == "":
		return words.plain
	}
	return fmt.Sprintf(words.with, f.Param())
}

// messages say what a field must be, by the tag of a rule: plain, and with the rule's parameter in it.
var messages = map[string]struct{ plain, with string }{
	"required":    {"is required", "needs %s"},
	"identifier":  {plain: fmt.Sprintf("must be 1 to %d bytes of A-Z a-z 0-9 . _ : @ -", MaxIdentifier)},
	"job_id":      {plain: fmt.Sprintf("must be 1 to %d bytes of A-Z a-z 0-9 . _ : @ -", MaxJobID)},
	"time_zone":   {plain: "must be a time zone of the IANA database, such as Europe/Berlin"},
	"outcome":     {with: "goes only with the outcome %s"},
	"action":      {with: "goes only with the action %s"},
	"audience":    {with: "must be one of %s for this action of live"},
	"kind":        {with: "goes only with the kind %s"},
	"color":       {plain: "must be a colour such as #1b5e20"},
	"token":       {TokenRule, "is not a token of %s"},
	"apns":        {plain: "is for the platform apns alone"},
	"webpush":     {plain: "is for the platform webpush alone"},
	"fcm":         {plain: "must be a registration token of FCM, for the platform fcm alone"},
	"job":         {plain: deadQueueRule},
	"derived":     {plain: "must be left out: the endpoint of the subscription gives it"},
	"webhook_url": {plain: fmt.Sprintf("must be a URL with https and a host, without user info and fragment, at most %d bytes", MaxWebhookURL)},
	"endpoint":    {plain: fmt.Sprintf("must be a URL with https, port 443 and the name of a host, at most %d bytes", MaxEndpoint)},
	"p256dh":      {plain: "must be an uncompressed point on P-256 in base64url"},
	"auth":        {plain: "must be 16 bytes in base64url"},
	"locale":      {plain: fmt.Sprintf("must be a language, perhaps with a region, such as de or de-AT, at most %d bytes", MaxLocale)},
	"text":        {plain: fmt.Sprintf("must be 1 to %d characters", MaxMessageText)},
	"exactly_one": {with: "must hold exactly one of %s"},
	"printable":   {plain: "may not hold control characters"},
	"header":      {plain: "may not hold control characters, nor begin or end with a blank"},
	"object":      {plain: "must be a JSON object"},
	"broadcast":   {plain: "must be left out: a broadcast has one app"},
	"bundle_id":   {plain: "must be the bundle id of an app, with or without .push-type.liveactivity at its end"},
	"background":  {plain: "must not be 10 for a background push"},
	"equal":       {with: "must equal %s, or be left out"},
	"after":       {with: "must be after %s"},
	"unique":      {"must name each value once", "repeats %s"},
}

// TokenRule says what a token must be.
var TokenRule = fmt.Sprintf("must be a token of APNs (hex of even length, %d to %d digits), FCM (%d to %d characters of A-Z a-z 0-9 _ : . -) or a browser (wp. and %d of base64url)",
	MinTokenHex, MaxTokenHex, MinDeviceToken, MaxDeviceToken, tokenHash)

// boundMessage names the unit that the rule counts: items, bytes, characters or the number
// itself.
func boundMessage(f validator.FieldError) string {
	side := "at most"
	if f.Tag() == "min" {
		side = "at least"
	}
	return fmt.Sprintf("must %s %s %s%s", verb(f), side, f.Param(), unit(f))
}

func verb(f validator.FieldError) string {
	if counted(f) {
		return "have"
	}
	return "be"
}

// counted reports whether a field's items are counted rather than its bytes: lists, and maps of
// numbers or of structs.
func counted(f validator.FieldError) bool {
	switch f.Kind() {
	case reflect.Slice:
		return f.Type().Elem().Kind() != reflect.Uint8
	case reflect.Map:
		return f.Type().Elem().Kind() != reflect.String
	default:
		return false
	}
}

func unit(f validator.FieldError) string {
	switch {
	case counted(f) && f.Param() == "1":
		return " item"
	case counted(f):
		return " items"
	}
	switch f.Kind() {
	case reflect.Slice, reflect.Map:
		return " bytes as JSON"
	case reflect.String:
		return " bytes"
	default:
		return ""
	}
}
