package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
//	endpoint    what ParseEndpoint takes
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
	"maxbytes": func(param string) func(string) bool {
		most, err := strconv.Atoi(param)
		return func(s string) bool { return err == nil && len(s) <= most }
	},
	"locale":    textRule(ValidLocale),
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
	reflect.TypeFor[DeviceBatchRequest]():  together(deviceBatchRules),
	reflect.TypeFor[ContactBatchRequest](): together(contactBatchRules),
	reflect.TypeFor[DeadLettersRequest]():  together(deadLettersRules),
	reflect.TypeFor[ValueRequest]():        together(valueRules),
	reflect.TypeFor[CounterRequest]():      together(counterRules),
	reflect.TypeFor[JobRequest]():          together(jobRules),
	reflect.TypeFor[ScheduleRequest]():     together(scheduleRules),
	reflect.TypeFor[JobResult]():           together(jobResultRules),
}

// together makes rules for structs of a type from rules for a pointer to one. Check gets its value by
// pointer, so that each struct in it has an address.
func together[T any](rules func(reporter, *T)) func(reporter, reflect.Value) {
	return func(r reporter, v reflect.Value) { rules(r, v.Addr().Interface().(*T)) }
}

// audienceRules requires exactly one kind of audience.
func audienceRules(to reporter, a *Audience) {
	kinds := 0
	for _, given := range [...]bool{a.Users != nil, a.ContactsOf != "", a.Chat != "", a.Topic != "", a.All} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		to.ReportError(a, "", "", "exactly_one", "users, contacts_of, chat, topic, all")
	}
}

// eventRules limits the aps object of an event and refuses an empty alert.
func eventRules(to reporter, e *EventRequest) {
	objectRules(to, e.APS, "aps", MaxAPS)
	objectRules(to, e.FCM, "fcm", MaxFCM)
	webPushRules(to, e.WebPush)
	topicsRules(to, e.Topic)
	if e.Alert != nil && *e.Alert == (Alert{}) {
		to.ReportError(e.Alert, "alert", "Alert", "required", "title or body")
	}
}

// dataFits reports whether a map of strings has at most so many bytes as JSON. It is encoded only if it
// could have more when every byte is escaped.
func dataFits(v reflect.Value, most int) bool {
	data, ok := v.Interface().(map[string]string)
	size := len(`{}`)
	for name, value := range data {
		size += 6*(len(name)+len(value)) + len(`"":"",`)
	}
	return ok && (size <= most || jsonSize(data) <= most)
}

// eventTypeRules checks the rules between fields of an event type that do not depend on its
// templates.
func eventTypeRules(to reporter, t *EventTypeRequest) {
	if t.PushType == PushBackground && t.Priority == 10 {
		to.ReportError(t.Priority, "priority", "Priority", "background", "")
	}
	objectRules(to, t.APS, "aps", MaxAPS)
	objectRules(to, t.FCM, "fcm", MaxFCM)
	webPushRules(to, t.WebPush)
	topicsRules(to, t.Topic)
	localizedRules(to, t.Localized)
}

// webPushRules limits a webpush object.
func webPushRules(to reporter, o *WebPushOptions) {
	if o != nil && jsonSize(o) > MaxWebPush {
		to.ReportError(json.RawMessage{}, "webpush", "WebPush", "max", fmt.Sprint(MaxWebPush))
	}
}

// localizedRules requires a text in each language, and names each language once.
func localizedRules(to reporter, texts map[string]LocalizedText) {
	names, seen := slices.Sorted(maps.Keys(texts)), map[string]string{}
	for _, name := range names {
		field, same := "localized["+name+"]", strings.ToLower(name)
		if texts[name] == (LocalizedText{}) {
			to.ReportError(texts[name], field, "", "required", "title or body")
		}
		if other := seen[same]; other != "" {
			to.ReportError(texts[name], field, "", "unique", other)
		}
		seen[same] = name
	}
	if jsonSize(texts) > MaxLocalized {
		to.ReportError(json.RawMessage{}, "localized", "Localized", "max", fmt.Sprint(MaxLocalized))
	}
}

// saleRules refuses a sale that ends before it starts, whose longest hold is shorter than its hold, that
// lists a sku twice, or lists one without its stock or with two numbers for it.
func saleRules(to reporter, r *SaleRequest) {
	if r.StartsAt != nil && r.EndsAt != nil && !r.StartsAt.Before(r.EndsAt.Time) {
		to.ReportError(r.EndsAt, "ends_at", "EndsAt", "after", "starts_at")
	}
	hold := DefaultHold.Milliseconds()
	if r.HoldMS != nil {
		hold = *r.HoldMS
	}
	if r.MaxHoldMS != nil && *r.MaxHoldMS < hold {
		to.ReportError(*r.MaxHoldMS, "max_hold_ms", "MaxHoldMS", "min", fmt.Sprint(hold, ", as hold_ms is"))
	}
	skus := make([]string, len(r.Items))
	for i := range r.Items {
		item := &r.Items[i]
		skus[i] = item.SKU
		switch {
		case item.Stock == nil && item.Total == nil:
			to.ReportError(item.Stock, fmt.Sprintf("items[%d].stock", i), "", "required", "")
		case item.Stock != nil && item.Total != nil && *item.Stock != *item.Total:
			to.ReportError(item.Total, fmt.Sprintf("items[%d].total", i), "", "equal", "stock")
		}
	}
	uniqueSKUs(to, "items", skus)
}

func reservationRules(to reporter, r *ReservationRequest) {
	if len(r.Lines) < 2 {
		return
	}
	skus := make([]string, len(r.Lines))
	for i := range r.Lines {
		skus[i] = r.Lines[i].SKU
	}
	uniqueSKUs(to, "lines", skus)
}

// uniqueSKUs reports each sku that a list repeats.
func uniqueSKUs(to reporter, list string, skus []string) {
	unique(to, map[string]string{}, skus, func(i int) string { return fmt.Sprintf("%s[%d].sku", list, i) })
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

// topicUsersRules requires a user, and refuses one who is named twice.
func topicUsersRules(to reporter, r *TopicUsersRequest) {
	if len(r.Add)+len(r.Remove) == 0 {
		to.ReportError(r.Add, "add", "Add", "required", "a user, or one in remove")
	}
	seen := map[string]string{}
	unique(to, seen, r.Add, func(i int) string { return fmt.Sprintf("add[%d]", i) })
	unique(to, seen, r.Remove, func(i int) string { return fmt.Sprintf("remove[%d]", i) })
}

// deadLettersRules requires a caller who means all dead letters to say so, and refuses a queue beside a kind that has
// none.
func deadLettersRules(to reporter, r *DeadLettersRequest) {
	if !r.All && r.Kind == "" && r.Reason == "" && r.Type == "" && r.App == "" && r.Queue == "" {
		to.ReportError(r.All, "all", "All", "required", "to be true, or one of kind, reason, type, app and queue")
	}
	if CheckDeadQueue(r.Kind, r.Queue) != nil {
		to.ReportError(r.Queue, "queue", "Queue", "job", "")
	}
}

// deadQueueRule is broken by a queue beside a kind of dead letters that has none.
const deadQueueRule = "is for the kind job alone"

// CheckDeadQueue refuses a queue beside a kind of dead letters that has none.
func CheckDeadQueue(kind, queue string) error {
	if queue != "" && kind != "" && kind != DeadJob {
		return Invalid("queue", "job", deadQueueRule)
	}
	return nil
}

// objectRules requires a field to be a JSON object of at most so many bytes.
func objectRules(to reporter, object json.RawMessage, field string, most int) {
	if len(object) == 0 || string(object) == "null" {
		return
	}
	if object[0] != '{' {
		to.ReportError(object, field, field, "object", "")
		return
	}
	if len(object) <= most {
		return
	}
	if short, err := ShortestJSON(object); err == nil && len(short) > most {
		to.ReportError(object, field, field, "max", fmt.Sprint(most))
	}
}

// ShortestJSON is a JSON value without blanks and without escapes that it does not need, so that its size does not
// depend on how the caller's library writes characters. Numbers stay as they are.
func ShortestJSON(raw json.RawMessage) (json.RawMessage, error) {
	short := jsontext.Value(bytes.Clone(raw))
	err := short.Format(jsontext.PreserveRawStrings(false))
	return json.RawMessage(short), err
}

// jsonSize is the size of v in bytes as JSON without escaping for HTML.
func jsonSize(v any) int {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return 0
	}
	return b.Len() - 1 // without the newline that Encode adds
}
