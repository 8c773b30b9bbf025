package apns

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sideshow/apns2"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// maxExpired is how many ExpiredProviderToken answers one notification may get.
const maxExpired = 3

// push is one notification on its way to APNs.
type push struct {
	exchange.Exchange
	app     *app
	n       *transport.Notification
	token   *providerToken // sent with the request; nil: certificate
	expired int
}

// Start implements transport.Sender.
func (s *Sender) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	apps := s.apps.Load()
	find := apps.find
	if n.Channel != "" {
		find = apps.forChannels
	}
	a := find(n.Topic, n.Environment)
	switch {
	case a == nil:
		done(transport.Answer{Outcome: transport.NoApp})
	case len(n.Payload) == 0:
		done(transport.Answer{Outcome: transport.OurBug, Reason: apns2.ReasonPayloadEmpty, Err: errors.New("the payload is empty")})
	default:
		newPush(ctx, a, n, s.o.Timeout, done).Try()
	}
}

// newPush prepares a notification. The push ends at the latest with ctx or after its time-out.
func newPush(ctx context.Context, a *app, n *transport.Notification, timeout time.Duration, done func(transport.Answer)) *push {
	p := &push{app: a, n: n}
	if a.link.source == nil {
		done = judgeCertificate(done)
	}
	p.Init(ctx, p, n, exchange.Options{Pool: a.link.pool, Limiter: a.limiter, Timeout: timeout, Body: n.Payload, Done: done})
	return p
}

// Try implements exchange.Owner.
func (p *push) Try() { p.Acquire() }

// Post implements exchange.Owner. It sends the request with the headers that apns2 would set, and with
// expiration 0, which apns2 would leave out. Headers that many notifications share are left to the
// connection's header table.
func (p *push) Post(conn *h2.Conn, call *h2.Call) (err error) {
	if p.token, err = bearer(conn); err != nil {
		return err
	}
	if p.n.Channel != "" {
		call.Start(broadcastPath(p.n), p.broadcastFields())
		return nil
	}
	n, room := p.n, [8]h2.Field{}
	fields := append(room[:0],
		h2.Field{Name: "content-type", Value: "application/json; charset=utf-8"},
		h2.Field{Name: "apns-topic", Value: n.Topic},
		h2.Field{Name: "apns-push-type", Value: cmp.Or(string(n.PushType), string(apns2.PushTypeAlert))},
		h2.Field{Name: "apns-id", Value: n.ID, Sensitive: true})
	if p.token != nil {
		fields = append(fields, h2.Field{Name: "authorization", Value: p.token.bearer})
	}
	if n.Priority > 0 {
		fields = append(fields, h2.Field{Name: "apns-priority", Value: strconv.Itoa(n.Priority)})
	}
	if n.CollapseID != "" {
		fields = append(fields, h2.Field{Name: "apns-collapse-id", Value: n.CollapseID, Sensitive: true})
	}
	if e := n.Expiration; e != nil {
		fields = append(fields, h2.Field{Name: "apns-expiration", Value: strconv.FormatInt(max(e.Unix(), 0), 10), Sensitive: true})
	}
	call.Start("/3/device/"+n.Token, fields)
	return nil
}

// Judge implements exchange.Owner.
func (p *push) Judge(conn *h2.Conn, r *h2.Result) (transport.Answer, h2.Use) {
	answer := answerOf(r, p.n.Channel != "")
	if p.n.Channel == "" || answer.Outcome == transport.Delivered { // the topic of a broadcast is the backend's
		p.app.judgeTopic(p.n.Topic, &answer)
	}
	p.renewToken(conn, &answer)
	switch {
	case answer.Status == 0:
		return answer, h2.Unanswered
	case answer.Outcome == transport.Again && (answer.Reason == apns2.ReasonIdleTimeout || answer.Reason == apns2.ReasonShutdown):
		return answer, h2.Refused
	case answer.Outcome == transport.Again && answer.Reason == apns2.ReasonExpiredProviderToken:
		if p.expired++; p.expired == maxExpired {
			answer.Outcome = transport.PauseApp
		}
	}
	return answer, h2.Answered
}

// renewToken does what an answer says about the provider token.
func (p *push) renewToken(conn *h2.Conn, answer *transport.Answer) {
	source := p.app.link.source
	if p.token == nil {
		return
	}
	switch answer.Reason {
	case apns2.ReasonTooManyProviderTokenUpdates:
		source.freeze()
	case apns2.ReasonExpiredProviderToken:
		if answer.Status != http.StatusForbidden {
			return
		}
		if next, err := source.renew(p.token); err == nil {
			tokenOf(conn).replace(conn, p.token, next)
		}
	}
}
