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
	case "required":
		return requiredMessage(f)
	case "identifier":
		return fmt.Sprintf("must be 1 to %d bytes of A-Z a-z 0-9 . _ : @ -", MaxIdentifier)
	case "token":
		if f.Param() != "" {
			return "is not a token of " + f.Param()
		}
		return TokenRule
	case "apns":
		return "is for the platform apns alone"
	case "webpush":
		return "is for the platform webpush alone"
	case "derived":
		return "must be left out: the endpoint of the subscription gives it"
	case "endpoint":
		return fmt.Sprintf("must be a URL with https, port 443 and the name of a host, at most %d bytes", MaxEndpoint)
	case "p256dh":
		return "must be an uncompressed point on P-256 in base64url"
	case "auth":
		return "must be 16 bytes in base64url"
	case "locale":
		return fmt.Sprintf("must be a language, perhaps with a region, such as de or de-AT, at most %d bytes", MaxLocale)
	case "text":
		return fmt.Sprintf("must be 1 to %d characters", MaxMessageText)
	case "oneof":
		return "must be one of " + strings.Join(strings.Fields(f.Param()), ", ")
	case "exactly_one":
		return "must hold exactly one of " + f.Param()
	case "printable":
		return "may not hold control characters"
	case "object":
		return "must be a JSON object"
	case "background":
		return "must not be 10 for a background push"
	case "equal":
		return "must equal " + f.Param() + ", or be left out"
	case "after":
		return "must be after " + f.Param()
	case "unique":
		if f.Param() != "" {
			return "repeats " + f.Param()
		}
		return "must name each value once"
	case "min", "max", "maxbytes", "maxjson":
		return boundMessage(f)
	}
	return "breaks the rule " + f.Tag()
}

// TokenRule says what a token must be.
var TokenRule = fmt.Sprintf("must be a token of APNs (hex of even length, %d to %d digits), FCM (%d to %d characters of A-Z a-z 0-9 _ : . -) or a browser (wp. and %d of base64url)",
	MinTokenHex, MaxTokenHex, MinDeviceToken, MaxDeviceToken, tokenHash)

func requiredMessage(f validator.FieldError) string {
	if f.Param() != "" {
		return "needs " + f.Param()
	}
	return "is required"
}

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

// counted tells whether a field's items are counted rather than its bytes: lists, and maps of
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
