package fcmtest

import (
	"encoding/json"
	"net/http"
	"time"

	"fanfare/delivery/exchange/exchangetest"
)

// Answer is the answer to one request that passed the checks. The zero Answer is a 200.
type Answer struct {
	// Status is the HTTP status; 0 means 200.
	Status int
	// Body is the whole body; nil is the name of the message for a 200, else Google's JSON for Status,
	// Code and the rest.
	Body []byte
	// Code is the errorCode of an FcmError, "" for none; RPC is the status of the error.
	Code, RPC string
	// Message is the error's message.
	Message string
	// Field is the field of a BadRequest, "" for none.
	Field string
	// Quota are the subjects of a QuotaFailure.
	Quota []string
	// RetryAfter is sent as the Retry-After header when it is not "".
	RetryAfter string
	// Delay is how long the answer takes.
	Delay time.Duration
	// Fault happens instead of the answer, or with it.
	Fault exchangetest.Fault
}

// Refuse is a refusal with an FcmError.
func Refuse(status int, code string) Answer { return Answer{Status: status, Code: code, RPC: "FAILED"} }

func (a *Answer) status() int {
	if a.Status == 0 {
		return http.StatusOK
	}
	return a.Status
}

// write writes the answer; name is that of an accepted message.
func (a *Answer) write(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	w.WriteHeader(a.status())
	_, _ = w.Write(a.body(name))
}

// body is the response body.
func (a *Answer) body(name string) []byte {
	switch {
	case a.Body != nil:
		return a.Body
	case a.status() == http.StatusOK:
		return mustJSON(map[string]string{"name": name})
	}
	var details []any
	if a.Code != "" {
		details = append(details, map[string]string{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": a.Code})
	}
	if a.Field != "" {
		details = append(details, map[string]any{"@type": "type.googleapis.com/google.rpc.BadRequest",
			"fieldViolations": []any{map[string]string{"field": a.Field, "description": "Invalid value"}}})
	}
	if len(a.Quota) > 0 {
		var violations []any
		for _, subject := range a.Quota {
			violations = append(violations, map[string]string{"subject": subject, "description": "exceeded"})
		}
		details = append(details, map[string]any{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations})
	}
	return mustJSON(map[string]any{"error": map[string]any{"code": a.status(), "message": a.Message, "status": a.RPC, "details": details}})
}

// mustJSON encodes values that always can be encoded.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
