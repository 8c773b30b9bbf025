package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-playground/validator/v10"
)

// maxFieldErrors bounds how many failing fields one answer lists, so that a
// batch of a million bad values does not become an answer many times its size.
const maxFieldErrors = 1000

// Validator checks values against the rules in their validate tags and the
// rules between fields that tags cannot say. It is safe for concurrent use.
type Validator struct {
	engine *validator.Validate
	quick  sync.Map // reflect.Type -> quick
}

// NewValidator makes a Validator that knows this package's own rules:
//
//	identifier  what ValidIdentifier takes; identifier=object what ValidObject takes
//	token       what NormalToken takes
//	maxbytes=N  a string of at most N bytes (max counts characters)
//	text        a message's text: 1 to MaxMessageText characters
func NewValidator() *Validator {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(fieldName)
	for tag, rule := range fieldRules() {
		// Registering fails only for an empty tag or a nil rule.
		_ = v.RegisterValidation(tag, rule)
	}
	v.RegisterStructValidation(audienceRules, Audience{})
	v.RegisterStructValidation(eventRules, EventRequest{})
	v.RegisterStructValidation(eventTypeRules, EventTypeRequest{})
	v.RegisterStructValidation(saleRules, SaleRequest{})
	v.RegisterStructValidation(reservationRules, ReservationRequest{})
	return &Validator{engine: v}
}

// Check returns nil, or what breaks a rule, every field by its JSON path. The value
// is a pointer to a struct.
func (v *Validator) Check(value any) []FieldError {
	if v.sound(reflect.ValueOf(value).Elem()) {
		return nil
	}
	return v.failures(value)
}

// sound tells of a value that it surely breaks no rule.
func (v *Validator) sound(value reflect.Value) bool {
	check, ok := v.quick.Load(value.Type())
	if !ok {
		check, _ = v.quick.LoadOrStore(value.Type(), quickStruct(value.Type()))
	}
	return check.(quick)(value)
}

// failures are what breaks a rule.
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

// fieldName is the name that a caller knows a field by: in the body, the path,
// the query or a header.
func fieldName(f reflect.StructField) string {
	for _, tag := range []string{"json", "path", "query", "header"} {
		if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" && name != "-" {
			return name
		}
	}
	return f.Name
}

// fieldPath cuts what is ours off a validator namespace such as
// "in.Body.audience.users[3]": the Go type, and the Body or Page that a request
// keeps the field in.
func fieldPath(namespace string) string {
	_, path, _ := strings.Cut(namespace, ".")
	path = strings.TrimPrefix(strings.TrimPrefix(path, "Body."), "Page.")
	return strings.TrimSuffix(path, ".")
}

// identifierRule is the rule identifier with what follows its =.
func identifierRule(param string) func(string) bool {
	if param == "object" {
		return ValidObject
	}
	return ValidIdentifier
}

func fieldRules() map[string]validator.Func {
	return map[string]validator.Func{
		"identifier": func(f validator.FieldLevel) bool { return identifierRule(f.Param())(f.Field().String()) },
		"token": func(f validator.FieldLevel) bool {
			_, ok := NormalToken(f.Field().String())
			return ok
		},
		"text": func(f validator.FieldLevel) bool { return validText(f.Field().String()) },
		"maxbytes": func(f validator.FieldLevel) bool {
			var most int
			_, err := fmt.Sscan(f.Param(), &most)
			return err == nil && len(f.Field().String()) <= most
		},
	}
}

// validText tells whether s may be a message's text.
func validText(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= MaxMessageText
}

// kinds counts the kinds that are given.
func (a *Audience) kinds() (n int) {
	for _, given := range [...]bool{a.Users != nil, a.ContactsOf != "", a.Chat != ""} {
		if given {
			n++
		}
	}
	return n
}

// audienceRules holds an audience to exactly one of its kinds.
func audienceRules(sl validator.StructLevel) {
	a := sl.Current().Interface().(Audience)
	if a.kinds() != 1 {
		sl.ReportError(a, "", "", "exactly_one", "users, contacts_of, chat")
	}
}

// eventRules bounds the parts of an event that are free-form JSON.
func eventRules(sl validator.StructLevel) {
	e := sl.Current().Interface().(EventRequest)
	if len(e.Data) > 0 && jsonSize(e.Data) > MaxData {
		sl.ReportError(e.Data, "data", "Data", "max", fmt.Sprint(MaxData))
	}
	apsRules(sl, e.APS)
	if e.Alert != nil && *e.Alert == (Alert{}) {
		sl.ReportError(e.Alert, "alert", "Alert", "required", "title or body")
	}
}

// eventTypeRules are the rules between an event type's fields that need no
// look at its templates.
func eventTypeRules(sl validator.StructLevel) {
	t := sl.Current().Interface().(EventTypeRequest)
	if t.PushType == PushBackground && t.Priority == 10 {
		sl.ReportError(t.Priority, "priority", "Priority", "background", "")
	}
	apsRules(sl, t.APS)
}

// saleRules holds a sale's window to its direction, and its items to one of each sku.
func saleRules(sl validator.StructLevel) {
	r := sl.Current().Interface().(SaleRequest)
	if r.StartsAt != nil && r.EndsAt != nil && !r.StartsAt.Before(r.EndsAt.Time) {
		sl.ReportError(r.EndsAt, "ends_at", "EndsAt", "after", "starts_at")
	}
	skus := make([]string, len(r.Items))
	for i := range r.Items {
		skus[i] = r.Items[i].SKU
	}
	uniqueSKUs(sl, "items", skus)
}

func reservationRules(sl validator.StructLevel) {
	r := sl.Current().Interface().(ReservationRequest)
	skus := make([]string, len(r.Lines))
	for i := range r.Lines {
		skus[i] = r.Lines[i].SKU
	}
	uniqueSKUs(sl, "lines", skus)
}

// uniqueSKUs names each sku of a list that was there before. One that is no identifier is
// told as that.
func uniqueSKUs(sl validator.StructLevel, list string, skus []string) {
	first := make(map[string]int, len(skus))
	for i, sku := range skus {
		before, again := first[sku]
		switch {
		case !again:
			first[sku] = i
		case ValidIdentifier(sku):
			what := fmt.Sprintf("%s of %s[%d]", sku, list, before)
			sl.ReportError(sku, fmt.Sprintf("%s[%d].sku", list, i), "SKU", "unique", what)
		}
	}
}

// apsRules holds aps to a JSON object of at most MaxAPS bytes.
func apsRules(sl validator.StructLevel, aps json.RawMessage) {
	if len(aps) == 0 || string(aps) == "null" {
		return
	}
	if aps[0] != '{' {
		sl.ReportError(aps, "aps", "APS", "object", "")
		return
	}
	var compact bytes.Buffer
	if json.Compact(&compact, aps) == nil && compact.Len() > MaxAPS {
		sl.ReportError(aps, "aps", "APS", "max", fmt.Sprint(MaxAPS))
	}
}

// jsonSize is how many bytes v takes as JSON without escaping for HTML.
func jsonSize(v any) int {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return 0
	}
	return b.Len() - 1 // without the newline that Encode adds
}
