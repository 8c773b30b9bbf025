package web

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"fanfare/api"

	"github.com/go-json-experiment/json/jsontext"
)

// retrySoon is the default Retry-After of a 503.
const retrySoon = time.Second

// problemType is the URI of a problem type without the code at its end.
const problemType = "urn:fanfare:problem:"

// fail answers with err as a problem and leaves err for the access log, the only place that logs
// it.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	info, e := infoOf(r.Context()), asError(r, err)
	info.fail(err, e.Code)
	m := api.MeaningOf(e.Code)
	if info.byUser && e.Code == api.CodeUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	wait := retryAfter(e, m)
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	}
	if version, ok := e.Facts["version"].(int64); ok && version != 0 && e.Code == api.CodeVersionMismatch {
		w.Header().Set("ETag", etag(version)) // lets the caller try again at once
	}
	body, err := appendProblem(make([]byte, 0, 512), &api.Problem{
		Type: problemType + string(e.Code), Title: m.Title, Status: m.Status, Detail: detail(e, m),
		Code: e.Code, Retryable: m.Retryable, RequestID: info.id, Errors: e.Fields, RetryAfterMS: wait.Milliseconds(),
	}, e.Facts)
	writeBody(w, m.Status, problemMedia, body, err)
}

// appendProblem writes a problem with the facts that some codes add, in the form of encode. It is
// written by hand for speed: an overloaded server sends thousands of refusals.
func appendProblem(b []byte, p *api.Problem, facts map[string]any) (_ []byte, err error) {
	b = appendString(append(b, `{"type":`...), p.Type)
	b = appendString(append(b, `,"title":`...), p.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.Status), 10)
	if p.Detail != "" {
		b = appendString(append(b, `,"detail":`...), p.Detail)
	}
	b = appendString(append(b, `,"code":`...), string(p.Code))
	b = strconv.AppendBool(append(b, `,"retryable":`...), p.Retryable)
	b = appendString(append(b, `,"request_id":`...), p.RequestID)
	if len(p.Errors) > 0 {
		errors, err := encode(p.Errors)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"errors":`...), errors...)
	}
	if p.RetryAfterMS > 0 {
		b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), p.RetryAfterMS, 10)
	}
	if b, err = appendFacts(b, facts); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// appendString writes s as JSON. Bytes that are not UTF-8 are replaced.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// asError finds the api.Error in err. A deadline that passed means that a dependency is out of
// reach. If the call only reads, nothing happened; if it writes, the outcome is unknown. Every
// other error is internal.
func asError(r *http.Request, err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return api.Errorf(api.CodeUnavailable, "the answer did not come in time").Because(err)
		}
		return api.Errorf(api.CodeUnknownOutcome, "the answer did not come in time").Because(err)
	default:
		return api.Errorf(api.CodeInternal, "").Because(err)
	}
}

// detail is the text that a caller may read. For a 500 it contains nothing internal.
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

// appendFacts writes facts in the order of their names. It leaves out facts that would repeat a
// member of the document and so make it invalid.
func appendFacts(b []byte, facts map[string]any) ([]byte, error) {
	names := slices.AppendSeq(make([]string, 0, 4), maps.Keys(facts))
	slices.Sort(names)
	for _, name := range names {
		switch name {
		case "type", "title", "status", "detail", "code", "retryable", "request_id", "errors", "retry_after_ms":
			continue
		}
		value, err := encode(facts[name])
		if err != nil {
			return nil, err
		}
		b = append(append(appendString(append(b, ','), name), ':'), value...)
	}
	return b, nil
}
