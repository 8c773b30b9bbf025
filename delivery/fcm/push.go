package fcm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const (
	// maxRefused is how many 401 answers one notification may get.
	maxRefused = 3
	// maxTTL is how long FCM keeps a message at most.
	maxTTL = 28 * 24 * time.Hour
	// androidHead begins every payload.
	androidHead = `{"android":{`
	// installationID is the length of a Firebase Installation ID.
	installationID = 22
)

// push is one notification on its way to FCM.
type push struct {
	exchange.Exchange
	ctx     context.Context
	app     *app
	token   *accessToken
	refused int
}

// Start implements transport.Sender. A notification without a payload was found to be too large when
// its payload was made (W6).
func (s *Sender) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	a := s.apps.Load().apps[n.Topic]
	switch {
	case a == nil:
		done(transport.Answer{Outcome: transport.NoApp})
	case len(n.Payload) == 0:
		done(transport.Answer{Outcome: transport.FailMessage, Reason: reasonTooLarge})
	default:
		start(ctx, a, n, &s.o, done)
	}
}

// start sends a notification. It ends at the latest with ctx or after its time-out.
func start(ctx context.Context, a *app, n *transport.Notification, o *Options, done func(transport.Answer)) {
	body, err := message(n)
	if err != nil {
		done(transport.Answer{Outcome: transport.OurBug, Err: err})
		return
	}
	p := &push{ctx: ctx, app: a}
	p.Init(ctx, p, n, exchange.Options{Pool: a.link.pool, Limiter: a.limiter, Timeout: o.Timeout, Body: body, Done: done})
	p.Try()
}

// message adds the device and the time to live to the payload, which the event's devices share.
func message(n *transport.Notification) ([]byte, error) {
	payload := n.Payload
	if !bytes.HasPrefix(payload, []byte(androidHead+`"`)) {
		return nil, errors.New("the payload is none of FCM")
	}
	if n.Expiration != nil {
		var err error
		if payload, err = limited(payload, n.Left(maxTTL), n.At); err != nil {
			return nil, fmt.Errorf("add the time to live: %w", err)
		}
	}
	token := n.Token
	if registration, activity, ok := api.LiveTarget(n.Target); ok {
		token = registration
		if activity != "" { // an iPhone's
			var err error
			if payload, err = forActivity(payload, activity); err != nil {
				return nil, fmt.Errorf("add the activity: %w", err)
			}
		}
	}
	b := append(make([]byte, 0, len(payload)+len(token)+64), `{"message":{"token":"`...)
	if isInstallationID(token) {
		b = append(b[:0], `{"message":{"fid":"`...)
	}
	b = append(append(b, token...), `",`...)
	return append(append(b, payload[1:]...), '}'), nil
}

// forActivity is what of a payload goes to an iPhone's activity, with the activity's token.
func forActivity(payload []byte, token string) ([]byte, error) {
	var m struct {
		APNs struct {
			Token   string          `json:"live_activity_token"`
			Headers json.RawMessage `json:"headers"`
			Payload json.RawMessage `json:"payload"`
		} `json:"apns"`
	}
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	m.APNs.Token = token
	return json.Marshal(&m)
}

// limited adds the time to live to a payload, in the form of each kind of device.
func limited(payload []byte, left time.Duration, now time.Time) ([]byte, error) {
	var m struct {
		Android map[string]json.RawMessage `json:"android"`
		APNs    *struct {
			Headers map[string]string `json:"headers"`
			Payload json.RawMessage   `json:"payload"`
		} `json:"apns,omitempty"`
		WebPush struct {
			Headers map[string]string `json:"headers"`
		} `json:"webpush"`
		Notification json.RawMessage `json:"notification,omitempty"`
		Data         json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	seconds, end := strconv.FormatInt(int64(left.Seconds()), 10), "0" // APNs tries once
	if left >= time.Second {
		end = strconv.FormatInt(now.Add(left).Unix(), 10)
	}
	m.Android["ttl"] = json.RawMessage(`"` + seconds + `s"`)
	m.WebPush.Headers = map[string]string{"TTL": seconds}
	if m.APNs != nil {
		m.APNs.Headers["apns-expiration"] = end
	}
	return json.Marshal(&m)
}

// isInstallationID tells a Firebase Installation ID from a registration token.
func isInstallationID(token string) bool {
	if len(token) != installationID || token[0] < 'c' || token[0] > 'f' {
		return false
	}
	for _, c := range []byte(token) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// Try implements exchange.Owner: a request needs an access token first.
func (p *push) Try() {
	p.app.link.source.get(p.ctx, func(t *accessToken, err error) {
		if err != nil {
			p.Fail(err)
			return
		}
		p.token = t
		p.Acquire()
	})
}

// Post implements exchange.Owner.
func (p *push) Post(_ *h2.Conn, call *h2.Call) error {
	call.Start(p.app.link.path, []h2.Field{
		{Name: "content-type", Value: "application/json; charset=utf-8"},
		{Name: "authorization", Value: p.token.bearer},
	})
	return nil
}

// Judge implements exchange.Owner.
func (p *push) Judge(_ *h2.Conn, r *h2.Result) (transport.Answer, h2.Use) {
	if r.Status == 0 {
		return exchange.Unanswered("FCM", r.Err), h2.Unanswered
	}
	a := answerOf(r)
	switch {
	case a.Outcome == transport.Again: // the access token was refused
		p.app.link.source.refused(p.token)
		if p.refused++; p.refused == maxRefused {
			a.Outcome = transport.PauseApp
		}
	case a.Status == http.StatusTooManyRequests && a.Outcome == transport.RetryUncounted:
		p.app.limiter.Rest(a.RetryAfter)
	}
	return a, h2.Answered
}
