package apns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/sideshow/apns2"

	"fanfare/api"
	"fanfare/delivery/exchange"
)

// maxManaged is how much of an answer is read: a list of 10,000 channels is below 1 MiB today.
const maxManaged = 16 << 20

// silence is how long a connection may say nothing during a call before it is asked whether it is there, and how long it has
// for the answer. A connection that broke silently is then closed, and the next call opens another one.
const silence = 3 * time.Second

// manager makes the calls of one account to the management host. They are rare, so that one at a time is enough: Apple
// allows no more on a connection before it has seen a provider token.
type manager struct {
	base   *url.URL
	client *http.Client
	source *tokenSource // nil: certificate
	turn   chan struct{}
}

func newManager(c *configuration, a *appConfig, source *tokenSource, o *Options) *manager {
	t := &http.Transport{
		TLSClientConfig: c.tlsConfig(a, a.manage), Protocols: new(http.Protocols), IdleConnTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: o.DialTimeout}).DialContext, TLSHandshakeTimeout: o.DialTimeout,
		HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence},
	}
	t.Protocols.SetHTTP2(true)
	return &manager{
		base: a.manage, source: source, turn: make(chan struct{}, 1),
		client: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// call is one call to the management host.
type call struct {
	method, topic, path string
	channel             string // "": none
	body                []byte
}

// managed is an answer of the management host.
type managed struct {
	status  int
	reason  string
	channel string
	body    []byte
	retry   time.Duration
}

// do makes a call and returns the answer if it is what the call asks for. Errors are those of broadcasts.Channels.
func (m *manager) do(ctx context.Context, c call) (*managed, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, api.Errorf(api.CodeUnavailable, "other calls to APNs' management host took too long")
	}
	token, err := m.token(nil)
	if err != nil {
		return nil, err
	}
	a, err := m.send(ctx, c, token)
	if err == nil && token != nil {
		switch {
		case a.status == http.StatusForbidden && a.reason == apns2.ReasonExpiredProviderToken:
			if token, err = m.token(token); err == nil {
				a, err = m.send(ctx, c, token)
			}
		case a.reason == apns2.ReasonTooManyProviderTokenUpdates:
			m.source.freeze()
		}
	}
	if err == nil {
		err = a.refusal(c)
	}
	return a, err
}

// token is the present provider token, or a newer one than old; nil with a certificate.
func (m *manager) token(old *providerToken) (*providerToken, error) {
	switch {
	case m.source == nil:
		return nil, nil
	case old != nil:
		return m.source.renew(old)
	}
	return m.source.fresh()
}

// send sends a request and reads its answer.
func (m *manager) send(ctx context.Context, c call, token *providerToken) (*managed, error) {
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }})
	at := *m.base
	at.Path = "/1/apps/" + c.topic + "/" + c.path
	r, err := http.NewRequestWithContext(ctx, c.method, at.String(), bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("make a request to the management host: %w", err)
	}
	if token != nil {
		r.Header.Set("authorization", token.bearer)
	}
	if c.channel != "" {
		r.Header.Set("apns-channel-id", c.channel)
	}
	if c.body != nil {
		r.Header.Set("content-type", "application/json")
	}
	answer, err := m.client.Do(r)
	if err != nil {
		return nil, c.unanswered(err, written.Load())
	}
	defer answer.Body.Close()
	a := &managed{status: answer.StatusCode, channel: answer.Header.Get("apns-channel-id"), retry: exchange.RetryAfter(answer.Header.Get("retry-after"), answer.Header.Get("date"), time.Now())}
	if a.body, err = io.ReadAll(io.LimitReader(answer.Body, maxManaged)); err != nil && a.channel == "" {
		return nil, c.unanswered(err, true)
	}
	a.reason, _ = parseAnswer(a.body)
	return a, nil
}

// unanswered is the error of a call without an answer. Only a channel that may have been made makes a difference: to
// read or delete twice changes nothing.
func (c call) unanswered(err error, written bool) error {
	code := api.CodeUnavailable
	if written && c.method == http.MethodPost {
		code = api.CodeUnknownOutcome
	}
	return api.Errorf(code, "APNs' management host did not answer").Because(err)
}

// refusal is the error of an answer; nil if it is what the call asks for.
func (a *managed) refusal(c call) error {
	code := manageCode(c.method, a.status, a.reason)
	if code == "" && c.method == http.MethodPost && (a.channel == "" || len(a.channel) > api.MaxChannel) {
		code = api.CodeUnknownOutcome
	}
	switch code {
	case "":
		return nil
	case api.CodeInternal:
		return fmt.Errorf("APNs' management host answered %s %s with %d %s", c.method, c.path, a.status, a.reason)
	}
	e := api.Errorf(code, "APNs' management host answered %d %s", a.status, a.reason)
	if code == api.CodeChannelsRefused {
		e = e.With("reason", a.reason)
	}
	e.RetryAfter = a.retry
	return e
}

// TakesBroadcast reports whether there is an app for a bundle id. It implements broadcasts.Channels, as the methods that
// follow.
func (s *Sender) TakesBroadcast(topic string, env api.Environment) bool {
	t := s.apps.Load()
	return t.ofFileForChannels(topic+api.PushLiveActivity.TopicSuffix(), env) != nil || t.any[env] != nil
}

// manage makes a call with the credentials of an app.
func (s *Sender) manage(ctx context.Context, env api.Environment, c call) (*managed, error) {
	a := s.apps.Load().forChannels(c.topic+api.PushLiveActivity.TopicSuffix(), env)
	if a == nil {
		return nil, api.Errorf(api.CodeUnknownApp, "there is no app of APNs for the topic %s in the environment %s", c.topic, env)
	}
	return a.link.manage.do(ctx, c)
}

// storagePolicies are Apple's numbers for what a channel keeps.
var storagePolicies = map[api.BroadcastKeep]int{api.KeepNone: 0, api.KeepLatest: 1}

// CreateChannel makes a channel and returns its name.
func (s *Sender) CreateChannel(ctx context.Context, topic string, env api.Environment, keep api.BroadcastKeep) (string, error) {
	body := fmt.Appendf(nil, `{"message-storage-policy":%d,"push-type":"LiveActivity"}`, storagePolicies[keep])
	a, err := s.manage(ctx, env, call{method: http.MethodPost, topic: topic, path: "channels", body: body})
	if err != nil {
		return "", err
	}
	return a.channel, nil
}

// DeleteChannel deletes a channel.
func (s *Sender) DeleteChannel(ctx context.Context, topic string, env api.Environment, channel string) error {
	_, err := s.manage(ctx, env, call{method: http.MethodDelete, topic: topic, path: "channels", channel: channel})
	return err
}

// ListChannels names all channels of an app.
func (s *Sender) ListChannels(ctx context.Context, topic string, env api.Environment) ([]string, error) {
	a, err := s.manage(ctx, env, call{method: http.MethodGet, topic: topic, path: "all-channels"})
	if err != nil {
		return nil, err
	}
	var list struct {
		Channels []string `json:"channels"`
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		return nil, fmt.Errorf("read APNs' list of channels: %w", err)
	}
	return list.Channels, nil
}
