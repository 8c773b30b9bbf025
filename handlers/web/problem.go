package web

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"fanfare/api"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// retrySoon is the Retry-After of a 503 that does not know better.
const retrySoon = time.Second

// problemType begins the URI of every problem type; the code ends it.
const problemType = "urn:fanfare:problem:"

// problem is an api.Problem with the facts that some codes add.
type problem struct {
	api.Problem
	Facts map[string]any `json:",embed"`
}

// fail answers with err as a problem and leaves err for the access log, which
// is where it is logged, once.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	info := infoOf(r.Context())
	info.err = err
	e := asError(r, err)
	m := api.MeaningOf(e.Code)
	p := problem{Facts: ownFacts(e.Facts), Problem: api.Problem{
		Type: problemType + string(e.Code), Title: m.Title, Status: m.Status, Detail: detail(e, m),
		Code: e.Code, RequestID: info.id, Errors: e.Fields,
	}}
	if wait := retryAfter(e, m); wait > 0 {
		p.RetryAfterMS = wait.Milliseconds()
		w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	}
	if version, ok := e.Facts["version"].(int64); ok && e.Code == api.CodeVersionMismatch {
		w.Header().Set("ETag", etag(version)) // with it the caller can try again at once
	}
	writeJSON(w, m.Status, "application/problem+json", p)
}

// asError finds the api.Error in err. A deadline that passed means that the
// dependency behind it is out of reach: nothing happened if the call only
// reads, nobody knows if it writes. Everything else is internal.
func asError(r *http.Request, err error) *api.Error {
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return api.Errorf(api.CodeUnavailable, "the answer did not come in time").Because(err)
		}
		return api.Errorf(api.CodeUnknownOutcome, "the answer did not come in time").Because(err)
	default:
		return api.Errorf(api.CodeInternal, "").Because(err)
	}
}

// detail is what a caller may read. A 500 has nothing of ours in it.
func detail(e *api.Error, m api.Meaning) string {
	if m.Status == http.StatusInternalServerError {
		return "something went wrong on our side; the request id finds it in the log"
	}
	return e.Detail
}

func retryAfter(e *api.Error, m api.Meaning) time.Duration {
	if e.RetryAfter <= 0 && m.Status == http.StatusServiceUnavailable {
		return retrySoon
	}
	return e.RetryAfter
}

// ownFacts leaves out facts that would repeat a member of the document itself,
// which would make it invalid.
func ownFacts(facts map[string]any) map[string]any {
	if len(facts) == 0 {
		return nil
	}
	out := make(map[string]any, len(facts))
	for name, value := range facts {
		switch name {
		case "type", "title", "status", "detail", "code", "request_id", "errors", "retry_after_ms":
		default:
			out[name] = value
		}
	}
	return out
}

// encodeOptions make tags mean what they mean to encoding/json, but an empty
// list is [], never null, and < > & stay readable.
var encodeOptions = json.JoinOptions(
	jsonv1.OmitEmptyWithLegacySemantics(true), json.Deterministic(true), jsontext.AllowInvalidUTF8(true),
)

// encodingFailed is the answer when not even an answer can be written as JSON.
const encodingFailed = `{"type":"about:blank","title":"Internal error","status":500,"code":"internal"}`

// encode writes v as every answer does.
func encode(v any) ([]byte, error) { return json.Marshal(v, encodeOptions) }

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	body, err := encode(v)
	if err != nil {
		status, contentType, body = http.StatusInternalServerError, "application/problem+json", []byte(encodingFailed)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	// The caller may be gone; there is nobody left to tell.
	_, _ = w.Write(append(body, '\n'))
}
