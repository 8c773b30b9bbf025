package hooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"fanfare/api"
	"fanfare/delivery/address"
	"fanfare/delivery/exchange"
	"fanfare/store/record"
)

const (
	// postTimeout bounds a request, from connecting to the head of the answer, and bodyTimeout the rest of the answer,
	// whose only use is that the connection can take another request.
	postTimeout = 15 * time.Second
	bodyTimeout = time.Second
	// maxAnswer is how much of an answer's body is read, and maxHead how large its head may be.
	maxAnswer = 4 << 10
	maxHead   = 16 << 10
	// idleTimeout is how long a connection without a request stays open.
	idleTimeout = time.Minute
	// maxIdle and maxIdleOfHost are how many such connections there are.
	maxIdle, maxIdleOfHost = 256, 16
)

// PosterOptions say which receivers are connected to. The zero value allows public addresses with TLS.
type PosterOptions struct {
	// AllowNets are networks that are connected to although their addresses are not public, also without TLS.
	AllowNets []netip.Prefix
	// Own returns the addresses at which this process listens; default: none.
	Own func() []netip.AddrPort
	// Now is the clock by which requests are signed; default time.Now.
	Now func() time.Time

	// For tests: who signs the certificates of receivers, another resolver, and how long a request may take.
	roots    *x509.CertPool
	resolver *net.Resolver
	timeout  time.Duration
}

// Poster sends requests to receivers. It may be used from any goroutine.
type Poster struct {
	secure, plain *http.Transport
	timeout       time.Duration
	now           func() time.Time
}

// NewPoster makes a Poster. It connects with the first request.
func NewPoster(o PosterOptions) *Poster {
	rules := address.Rules{Allow: o.AllowNets, Own: o.Own}
	plain := rules
	plain.OnlyAllow = true
	p := &Poster{secure: o.transport(&rules), plain: o.transport(&plain), timeout: cmp.Or(o.timeout, postTimeout), now: o.Now}
	if p.now == nil {
		p.now = time.Now
	}
	return p
}

// testShare is the share of the time of a call that is left when a test gives up.
const testShare = 10

// errNoAnswer is why a test gave up.
var errNoAnswer = errors.New("no answer came in the time of the call")

// transport makes a transport that knows no proxy, and speaks HTTP/1.1: a lane has one request under way. Without a client
// around it nothing follows or reads a redirect.
func (o *PosterOptions) transport(rules *address.Rules) *http.Transport {
	dialer := &net.Dialer{Timeout: postTimeout, Control: rules.Control, Resolver: o.resolver}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: postTimeout,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.roots},
		MaxResponseHeaderBytes: maxHead, DisableCompression: true,
		MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdleOfHost, IdleConnTimeout: idleTimeout,
	}
}

// Close closes connections without a request.
func (p *Poster) Close() {
	p.secure.CloseIdleConnections()
	p.plain.CloseIdleConnections()
}

// answer is what became of a request.
type answer struct {
	status int // 0: there was no answer
	err    error
	asked  time.Duration // how long to wait at least before the next request, by Retry-After
	took   time.Duration
}

// post sends a body to the receiver of a webhook, signed by all its secrets. It takes no longer than the time-out, and a
// second more for an answer that ends late.
func (p *Poster) post(ctx context.Context, w *record.Webhook, id string, body []byte) (a answer) {
	began := time.Now()
	defer func() { a.took = time.Since(began) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(p.timeout, func() { cancel(errors.New("no answer came within " + p.timeout.String())) })
	defer late.Stop()
	r, err := p.newRequest(ctx, w, id, body)
	if err != nil {
		return answer{err: err}
	}
	transport := p.plain
	if r.URL.Scheme == "https" {
		transport = p.secure
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return answer{err: plainly(ctx, err)}
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK { // its body is the connection, which no context ends
		return answer{status: resp.StatusCode}
	}
	late.Reset(bodyTimeout)
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	return answer{status: resp.StatusCode, asked: min(exchange.RetryAfter(resp.Header.Get("retry-after"), resp.Header.Get("date"), time.Now()), maxBackoff)}
}

// Test sends a fact of the type webhook.test to the receiver of a webhook, and returns what it answers. It returns a moment
// before the deadline of ctx, so that the caller can be told.
func (p *Poster) Test(ctx context.Context, w *record.Webhook) *api.WebhookAnswer {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-time.Until(deadline)/testShare), errNoAnswer)
		defer cancel()
	}
	now := p.now()
	b := &batch{facts: []api.Fact{{ID: "test-" + strconv.FormatInt(now.UnixMilli(), 10), Type: "webhook.test", Key: w.ID, At: api.At(now), Data: json.RawMessage("{}")}}}
	if _, err := b.encode(w.ID); err != nil {
		return answer{err: err}.shown()
	}
	return p.post(ctx, w, b.id(w.ID), b.body).shown()
}

// newRequest makes a signed request.
func (p *Poster) newRequest(ctx context.Context, w *record.Webhook, id string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	now := p.now()
	signature, err := sign(w.Secrets, id, now, body)
	if err != nil {
		return nil, err
	}
	r.GetBody = nil // nothing is sent again by itself
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "fanfare")
	r.Header.Set(headerID, id)
	r.Header.Set(headerTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(headerSignature, signature)
	return r, nil
}

// plainly is an error with the reason why a request was ended, and with no more of what a receiver has written than is kept.
func plainly(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return cause
	}
	if text := err.Error(); len(text) > maxError {
		return errors.New(text[:maxError])
	}
	return err
}
