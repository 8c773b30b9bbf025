package fanfare

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is the longest answer that is read, far more than the server sends.
const maxAnswer = 64 << 20

// call is one call with its settings.
type call struct {
	method, path string
	body         []byte // nil: none
	key          string
	query        url.Values
	header       http.Header
	timeout      time.Duration
	attempts     int
	onAnswer     func(int, http.Header)
	answer       any
}

// Call makes a call of the contract. It sends body as JSON; with a nil body it sends none. It decodes the answer into the
// pointer answer; with a nil answer it drops it. Calls that are safe to repeat are repeated (see the package's comment) until
// ctx ends. The error is a *CallError, unless the body cannot be written as JSON.
func (c *Client) Call(ctx context.Context, method, path string, body, answer any, settings ...Setting) error {
	k := &call{method: method, path: path, answer: answer, header: http.Header{}, timeout: c.o.Timeout, attempts: c.o.Attempts}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("fanfare: write the body of %s %s: %w", method, path, err)
		}
		k.body = text
	}
	for _, set := range settings {
		set(k)
	}
	if k.key == "" && method == http.MethodPost && !secret(path) {
		k.key = rand.Text()
	}
	return c.repeat(ctx, k)
}

// secret tells whether a POST to this path answers with a secret, so that it takes no Idempotency-Key.
func secret(path string) bool {
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	return path == "/v1/keys" || len(parts) == 5 && (parts[2] == "users" && (last == "tokens" || last == "tickets") || parts[2] == "webhooks" && last == "secrets")
}

// repeatable tells whether a second attempt is harmless if the first one had its effect.
func (k *call) repeatable() bool {
	conditional := k.header.Get("If-Match") != "" || k.header.Get("If-None-Match") != ""
	switch k.method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		return k.key != ""
	}
	return !conditional
}

// repeat tries until an attempt succeeds or is refused for good.
func (c *Client) repeat(ctx context.Context, k *call) error {
	failed := &CallError{Method: k.method, Path: k.path, IdempotencyKey: k.key}
	renewed := false
	for {
		failed.Attempts++
		token, err := c.token.get(ctx)
		if err == nil {
			err = c.attempt(ctx, k, token)
		} else {
			err = &notSent{err}
		}
		if err == nil {
			return nil
		}
		verdict := judge(err)
		failed.Err = err
		failed.Unknown = k.method != http.MethodGet && (verdict.unknown || failed.Unknown && !verdict.refused)
		if verdict.unauthorized && !renewed && c.token.reject(ctx, token) {
			renewed = true
			continue
		}
		if !verdict.transient || failed.Attempts >= k.attempts || verdict.unknown && !k.repeatable() || ctx.Err() != nil {
			return failed
		}
		wait := max(jitter(c.o.MinBackoff, c.o.MaxBackoff, failed.Attempts-1), verdict.wait)
		if verdict.wait > c.o.MaxRetryAfter || !pause(ctx, wait) {
			return failed
		}
	}
}

// notSent is the error of an attempt that sent nothing, because there was no token.
type notSent struct{ error }

func (n *notSent) Unwrap() error { return n.error }

// badAnswer is the error of a complete answer that is not of the expected form.
type badAnswer struct{ error }

func (b *badAnswer) Unwrap() error { return b.error }

// verdict is what the error of an attempt means for the next one.
type verdict struct {
	transient    bool          // the same again may succeed
	unknown      bool          // this attempt may have had its effect
	refused      bool          // neither this attempt nor an earlier one had its effect
	unauthorized bool          // a new token may help
	wait         time.Duration // at least
}

// judge finds the verdict.
func judge(err error) verdict {
	var problem *Problem
	var unsent *notSent
	var dial *net.OpError
	var bad *badAnswer
	switch {
	case errors.As(err, &unsent), errors.As(err, &dial) && dial.Op == "dial":
		return verdict{transient: true}
	case errors.As(err, &bad):
		return verdict{unknown: true}
	case !errors.As(err, &problem):
		return verdict{transient: true, unknown: true}
	case problem.Status == http.StatusUnauthorized:
		return verdict{unauthorized: true}
	}
	v := verdict{wait: problem.RetryAfter}
	switch problem.Code {
	case "": // a proxy's
		v.transient = problem.Status == http.StatusTooManyRequests || problem.Status >= 502 && problem.Status <= 504
		v.unknown = problem.Status >= 500
	case "unknown_outcome", "internal":
		v.transient, v.unknown = problem.Retryable, true
	default:
		v.transient = problem.Retryable && problem.Status != http.StatusConflict
		v.refused = !v.transient && problem.Status != http.StatusForbidden // a key is checked before a repeat is found
	}
	return v
}

// attempt sends the call once. An error that is no *Problem leaves open what happened.
func (c *Client) attempt(ctx context.Context, k *call, token string) error {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	r, err := c.request(ctx, k, token)
	if err != nil {
		return &notSent{err}
	}
	resp, err := c.o.HTTP.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return problemOf(resp, text)
	}
	if k.answer != nil && len(text) > 0 {
		if err := json.Unmarshal(text, k.answer); err != nil {
			return &badAnswer{fmt.Errorf("read the answer: %w", err)}
		}
	}
	if k.onAnswer != nil {
		k.onAnswer(resp.StatusCode, resp.Header)
	}
	return nil
}

// request makes the request of an attempt.
func (c *Client) request(ctx context.Context, k *call, token string) (*http.Request, error) {
	address := c.base + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	r, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return nil, err
	}
	r.Header = k.header.Clone()
	if k.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if k.key != "" {
		r.Header.Set("Idempotency-Key", k.key)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, nil
}
