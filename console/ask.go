package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"fanfare/api"
)

// problem is a refusal, of a route or of the console itself.
type problem struct{ api.Problem }

// Error is the refusal in a sentence.
func (p *problem) Error() string { return fmt.Sprintf("%s: %s", p.Code, p.Detail) }

// refuse makes a refusal of the console itself.
func refuse(code api.Code, detail string) *problem {
	m := api.MeaningOf(code)
	return &problem{api.Problem{Title: m.Title, Status: m.Status, Detail: detail, Code: code, Retryable: m.Retryable}}
}

// asProblem is the refusal in an error. Other errors show nothing of what happened inside.
func asProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	code, detail := api.CodeOf(err), ""
	if e, ok := errors.AsType[*api.Error](err); ok && api.MeaningOf(code).Status != http.StatusInternalServerError {
		detail = e.Detail
	}
	return refuse(code, detail)
}

// reply is the writer of a route's answer.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header are the headers of the answer.
func (r *reply) Header() http.Header { return r.header }

// WriteHeader keeps the status; only the first counts.
func (r *reply) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write keeps a part of the body.
func (r *reply) Write(text []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(text)
}

// ask calls a JSON route with the key of the session and decodes the answer into out, if out is not
// nil. in is the body, nil for none, and headers are further lines, such as "If-Match: 3". A refusal is
// a *problem.
func (v *visit) ask(method, path string, in, out any, headers ...string) error {
	a, err := v.call(method, path, in, headers...)
	if err != nil {
		return err
	}
	return a.decode(out)
}

// ifMatch is the header with which a route changes a thing only in the version that the visitor saw, which is in the form.
func (v *visit) ifMatch() (header string, err error) {
	version := v.r.PostForm.Get("version")
	if version == "" {
		return "", refuse(api.CodeValidation, "the form has no version")
	}
	return `If-Match: "` + version + `"`, nil
}

// decode reads the answer into out, if out is not nil. A refusal is a *problem.
func (r *reply) decode(out any) error {
	if r.status >= http.StatusBadRequest {
		p := &problem{}
		if err := json.Unmarshal(r.body.Bytes(), &p.Problem); err != nil || p.Status == 0 {
			return fmt.Errorf("a route answered %d without a problem", r.status)
		}
		return p
	}
	if out == nil || r.body.Len() == 0 {
		return nil
	}
	return json.Unmarshal(r.body.Bytes(), out)
}

// call calls a JSON route.
func (v *visit) call(method, path string, in any, headers ...string) (*reply, error) {
	body := io.Reader(http.NoBody)
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	ctx := v.r.Context()
	if v.key != nil {
		ctx = v.c.o.As(ctx, v.key.ID)
	}
	r, err := http.NewRequestWithContext(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	r.Host, r.RemoteAddr, r.TLS, r.RequestURI = v.r.Host, v.r.RemoteAddr, v.r.TLS, path
	if hops := v.r.Header["X-Forwarded-For"]; hops != nil {
		r.Header["X-Forwarded-For"] = hops // wrong keys count by the address of the visitor
	}
	r.Header.Set("X-Request-Id", v.w.Header().Get("X-Request-Id"))
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if once := v.r.PostForm.Get("once"); once != "" {
		r.Header.Set("Idempotency-Key", once)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	a := &reply{header: http.Header{}}
	v.c.o.Routes.ServeHTTP(a, r)
	return a, nil
}
