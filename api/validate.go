package api

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-playground/validator/v10"
)

// maxFieldErrors bounds how many failing fields one response lists, so that a batch of a million
// bad values does not become a response many times its size. It is enough for every field of
// MaxDeviceBatch devices, so that each wrong device is named.
const maxFieldErrors = 9 * MaxDeviceBatch

// Validator checks values against the rules in their validate tags, and the rules between fields
// that tags cannot express. It is safe for concurrent use.
type Validator struct {
	engine *validator.Validate
	quick  sync.Map // from reflect.Type to quick
}

// NewValidator makes a Validator that knows this package's own rules:
//
//	identifier  what ValidIdentifier takes; identifier=object what ValidObject takes
//	job_id      what ValidJobID takes
//	cron        the fields of a cron that ParseCron takes
//	time_zone   a time zone that ParseCron takes
//	token       what NormalToken takes
//	locale      what ValidLocale takes
//	color       a colour such as #1b5e20
//	endpoint    what ParseEndpoint takes
//	webhook_url what ParseWebhookURL takes
//	p256dh      an uncompressed point on P-256 in base64url
//	auth        16 bytes in base64url
//	maxbytes=N  a string of at most N bytes (max counts characters)
//	maxjson=N   string values of at most N bytes as JSON
//	printable   a string without control characters
//	header      the same, without blanks at its ends: the value of a header (RFC 9110, 5.5)
//	text        a message's text: 1 to MaxMessageText characters
func NewValidator() *Validator {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(fieldName)
	// Registering fails only for an empty tag or a nil rule.
	for tag, rule := range textRules {
		_ = v.RegisterValidation(tag, func(f validator.FieldLevel) bool { return rule(f.Param())(f.Field().String()) })
	}
	_ = v.RegisterValidation("maxjson", func(f validator.FieldLevel) bool {
		most, err := strconv.Atoi(f.Param())
		return err == nil && dataFits(f.Field(), most)
	})
	for of, rules := range fieldsTogether {
		v.RegisterStructValidation(func(sl validator.StructLevel) { rules(sl, sl.Current()) }, reflect.Zero(of).Interface())
	}
	return &Validator{engine: v}
}

// Check returns every field that breaks a rule, by its JSON path; nil for none. The value is a
// pointer to a struct.
func (v *Validator) Check(value any) []FieldError {
	if v.sound(reflect.ValueOf(value).Elem()) {
		return nil
	}
	return v.failures(value)
}

// sound reports whether a value certainly keeps all rules.
func (v *Validator) sound(value reflect.Value) bool {
	check, ok := v.quick.Load(value.Type())
	if !ok {
		check, _ = v.quick.LoadOrStore(value.Type(), quickStruct(value.Type()))
	}
	return check.(quick)(value)
}

// failures runs the validator.
func (v *Validator) failures(value any) []FieldError {
	var failed validator.ValidationErrors
	if err := v.engine.Struct(value); !errors.As(err, &failed) {
		return nil
	}
	out := make([]FieldError, 0, min(len(failed), maxFieldErrors))
	for _, f := range failed[:cap(out)] {
		out = append(out, FieldError{Field: fieldPath(f.Namespace()), Rule: ruleName(f.Tag()), Message: message(f)})
	}
	return out
}

// InvalidFields makes the CodeValidation error that lists fields; nil for none.
func InvalidFields(fields []FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	e := &Error{Code: CodeValidation, Fields: fields}
	e.Detail = fields[0].Field + " " + fields[0].Message
	if n := len(fields) - 1; n > 0 {
		e.Detail += fmt.Sprintf(" (and %d more)", n)
	}
	return e
}

// fieldName is a field's name in the request: in the body, the path, the query or a header.
func fieldName(f reflect.StructField) string {
	for _, tag := range []string{"json", "path", "query", "header"} {
		if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" && name != "-" {
			return name
		}
	}
	return f.Name
}

// fieldPath turns a validator namespace such as "in.Body.audience.users[3]" into the
// caller's path: it cuts off the Go type and the field Body or Page of a request.
func fieldPath(namespace string) string {
	_, path, _ := strings.Cut(namespace, ".")
	path = strings.TrimPrefix(strings.TrimPrefix(path, "Body."), "Page.")
	return strings.TrimSuffix(path, ".")
}

// textRules are the rules for strings, by their tag. Each makes its check from the parameter after the =
// of a tag. They hold for the quick check and for the validator.
var textRules = map[string]func(param string) func(string) bool{
	"identifier": func(param string) func(string) bool {
		if param == "object" {
			return ValidObject
		}
		return ValidIdentifier
	},
	"job_id":    textRule(ValidJobID),
	"cron":      textRule(validCron),
	"time_zone": textRule(validTimeZone),
	"token": textRule(func(s string) bool {
		_, ok := NormalToken(s)
		return ok
	}),
	"endpoint": textRule(func(s string) bool {
		_, _, ok := ParseEndpoint(s)
		return ok
	}),
	"webhook_url": textRule(func(s string) bool {
		_, ok := ParseWebhookURL(s)
		return ok
	}),
	"maxbytes": func(param string) func(string) bool {
		most, err := strconv.Atoi(param)
		return func(s string) bool { return err == nil && len(s) <= most }
	},
	"locale":    textRule(ValidLocale),
	"color":     textRule(validColor),
	"p256dh":    textRule(validPoint),
	"auth":      textRule(validAuth),
	"text":      textRule(validText),
	"printable": textRule(printable),
	"header":    textRule(func(s string) bool { return printable(s) && strings.Trim(s, " ") == s }),
}

// textRule is a rule without a parameter.
func textRule(valid func(string) bool) func(string) func(string) bool {
	return func(string) func(string) bool { return valid }
}

// printable reports whether s has no control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// validText reports whether s may be a message's text.
func validText(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= MaxMessageText
}

// reporter is told which rules a struct breaks; validator.StructLevel is one.
type reporter interface {
	ReportError(value any, field, structField, rule, param string)
}

// fieldsTogether are the rules between the fields of a struct, by its type. They hold for the quick check
// and for the validator.
var fieldsTogether = map[reflect.Type]func(reporter, reflect.Value){
	reflect.TypeFor[Audience]():            together(audienceRules),
	reflect.TypeFor[EventRequest]():        together(eventRules),
	reflect.TypeFor[EventTypeRequest]():    together(eventTypeRules),
	reflect.TypeFor[SaleRequest]():         together(saleRules),
	reflect.TypeFor[ReservationRequest]():  together(reservationRules),
	reflect.TypeFor[TopicUsersRequest]():   together(topicUsersRules),
	reflect.TypeFor[DeviceRequest]():       together(deviceRules),
	reflect.TypeFor[DeviceEntry]():         together(deviceEntryRules),
	reflect.TypeFor[ActivityRequest]():     together(activityRules),
	reflect.TypeFor[DeviceBatchRequest]():  together(deviceBatchRules),
	reflect.TypeFor[ContactBatchRequest](): together(contactBatchRules),
	reflect.TypeFor[DeadLettersRequest]():  together(deadLettersRules),
	reflect.TypeFor[ValueRequest]():        together(valueRules),
	reflect.TypeFor[CounterRequest]():      together(counterRules),
	reflect.TypeFor[JobRequest]():          together(jobRules),
	reflect.TypeFor[ScheduleRequest]():     together(scheduleRules),
	reflect.TypeFor[JobResult]():           together(jobResultRules),
	reflect.TypeFor[BroadcastRequest]():    together(broadcastRules),
}

// together makes rules for structs of a type from rules for a pointer to one. Check gets its value by
// pointer, so that each struct in it has an address.
func together[T any](rules func(reporter, *T)) func(reporter, reflect.Value) {
	return func(r reporter, v reflect.Value) { rules(r, v.Addr().Interface().(*T)) }
}

// unique reports each name that was seen before, and notes the fields of the others. If a name is
// not an identifier, only the rule identifier reports it.
func unique(to reporter, seen map[string]string, names []string, field func(int) string) {
	for i, name := range names {
		before, again := seen[name]
		switch {
		case !again:
			seen[name] = field(i)
		case ValidIdentifier(name):
			what := name + " of " + strings.TrimSuffix(before, ".sku")
			to.ReportError(name, field(i), "", "unique", what)
		}
	}
}
