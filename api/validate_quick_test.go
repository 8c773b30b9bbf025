package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// requests are the bodies that callers send.
func requests() []any {
	return []any{
		&EventRequest{}, &EventBatchRequest{}, &EventTypeRequest{}, &DeviceRequest{}, &ReservationRequest{}, &StockRequest{}, &SaleRequest{},
		&ChatRequest{}, &ChatMessageRequest{}, &AckRequest{}, &ContactRequest{}, &UploadRequest{}, &JoinRequest{}, &VisibilityRequest{}, &MuteRequest{},
		&DeviceBatchRequest{}, &ContactBatchRequest{}, &ValueRequest{}, &CounterRequest{}, &CounterAdd{}, &LockAcquire{}, &LockHolder{},
		&JobRequest{}, &JobBatchRequest{}, &JobClaim{}, &JobResults{},
	}
}

// TestQuickIsRight fills requests with values at the edge of the rules: the validator takes
// each request that the quick check takes.
func TestQuickIsRight(t *testing.T) {
	t.Parallel()
	rules := NewValidator()
	for _, request := range requests() {
		of := reflect.TypeOf(request).Elem()
		t.Run(of.Name(), func(t *testing.T) {
			t.Parallel()
			for range 10 { // a run of rapid has 100 tries
				rapid.Check(t, func(rt *rapid.T) {
					value := reflect.New(of)
					fillAny(rt, value.Elem())
					if bad := rules.failures(value.Interface()); rules.sound(value.Elem()) && bad != nil {
						rt.Fatalf("%+v is taken, and breaks %+v", value.Elem(), bad)
					}
				})
			}
		})
	}
}

// either draws the ordinary value mostly, so that seldom more than one rule is
// broken at once, else one of the others.
func either[T any](t *rapid.T, ordinary T, others ...T) T {
	if i := rapid.IntRange(0, 12*len(others)).Draw(t, "choice"); i%12 == 11 {
		return others[i/12]
	}
	return ordinary
}

// fillAny sets a value to one that keeps the rules, or just breaks one.
func fillAny(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(either(t, "bob", "", "", "a b", strings.Repeat("ab", 32), strings.Repeat("AB", 32), strings.Repeat("a", 65), strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("ü", 33),
			strings.Repeat("\x01", 400), "sandbox", "apns", "friend", "public", "now", strings.Repeat("<", 2049)))
	case reflect.Int, reflect.Int64:
		v.SetInt(either[int64](t, 1, 0, -1, 5, 10, 1000, 1001, 1<<53))
	case reflect.Bool:
		v.SetBool(either(t, false, true))
	case reflect.Pointer:
		if either(t, true, false) {
			v.Set(reflect.New(v.Type().Elem()))
			fillAny(t, v.Elem())
		}
	case reflect.Slice:
		fillSlice(t, v)
	case reflect.Map:
		fillMap(t, v)
	case reflect.Struct:
		fillStruct(t, v)
	}
}

func fillStruct(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[Audience]() && either(t, true, false) {
		v.Set(reflect.ValueOf(Audience{Users: []string{"bob"}}))
		fillAny(t, v.Field(either(t, 0, 1, 2)))
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[Time]() {
			fillAny(t, v.Field(i))
		}
	}
}

func fillSlice(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(either(t, `{"badge":1}`, "", "null", `[1]`, `{"x":"`+strings.Repeat("x", MaxAPS)+`"}`, `{`+strings.Repeat(" ", MaxAPS)+`}`)))
		return
	}
	if n := either(t, 1, -1, 0, 2, 3); n >= 0 {
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fillAny(t, v.Index(i))
		}
	}
}

func fillMap(t *rapid.T, v reflect.Value) {
	n := either(t, 1, -1, 0, 2)
	if n < 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		name, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillAny(t, name)
		fillAny(t, value)
		v.SetMapIndex(name, value)
	}
}

// TestQuickTakesWhatIsOrdinary: the check would be useless if it left every request to the
// validator.
func TestQuickTakesWhatIsOrdinary(t *testing.T) {
	t.Parallel()
	rules := NewValidator()
	for _, request := range []any{
		&ReservationRequest{User: "alice", Lines: []Line{{SKU: "sneaker:42", Quantity: 1}}},
		&ChatMessageRequest{Sender: "alice", Text: "hello"},
		&DeviceBatchRequest{Devices: []DeviceEntry{{"bob", strings.Repeat("ab", 32), "apns", "x", "sandbox", nil, "de", nil}, {"bob", strings.Repeat("cd", 32), "apns", "x", "sandbox", nil, "de", nil}}},
		&ContactBatchRequest{Contacts: []Contact{{"bob", "friend"}, {"amy", "family"}}},
		&EventRequest{Type: "photo.shared", Actor: "alice", Object: "album:42", Audience: Audience{Users: []string{"bob"}}, Data: map[string]string{"album": "Summer"}},
		&EventRequest{Type: "photo.shared", Audience: Audience{Topic: "summer"}, Alert: &Alert{Body: "new"}, CollapseID: "a", APS: json.RawMessage(`{"badge":1}`)},
		&TopicUsersRequest{Add: []string{"bob", "amy"}},
		&ChatMessageRequest{Sender: "alice", Text: "hello", Data: map[string]string{"picture": "p1"}},
	} {
		if !rules.sound(reflect.ValueOf(request).Elem()) {
			t.Errorf("%+v is left to the validator", request)
		}
	}
}
