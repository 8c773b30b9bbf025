package webpush

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// maxTTL is how long push services keep a notification, unless its expiration is sooner.
const maxTTL = 28 * 24 * time.Hour

// urgencies are the priorities of push services (RFC 8030, 5.3).
var urgencies = map[int]string{10: "high", 5: "normal", 1: "low"}

// push is one notification on its way to a push service.
type push struct {
	exchange.Exchange
	app     *app
	to      *recipient
	payload []byte
	size    int // of the body
	fields  []h2.Field
}

// Start implements transport.Sender. A notification without a payload was found to be too large when its
// payload was made (W6).
func (s *Sender) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	a := s.app(n.Topic)
	switch {
	case a == nil:
		done(transport.Answer{Outcome: transport.NoApp})
	case len(n.Payload) == 0 || len(n.Payload) > maxPlain:
		done(transport.Answer{Outcome: transport.FailMessage, Reason: reasonTooLarge})
	default:
		s.start(ctx, a, n, done)
	}
}

// start sends a notification to its browser. It ends at the latest with ctx or after its time-out.
func (s *Sender) start(ctx context.Context, a *app, n *transport.Notification, done func(transport.Answer)) {
	to, err := recipientOf(n.Target)
	if err != nil {
		done(transport.Answer{Outcome: transport.OurBug, Err: err})
		return
	}
	origin, listed := s.o.Origins.Of(to.host) // asked each time: the list may have become shorter since the registration
	if !listed {
		done(transport.Answer{Outcome: transport.FailMessage, Reason: reasonUnlisted})
		return
	}
	host, err := s.hosts.take(hostKey{to.host, a.route}, origin, a.roots)
	if err != nil {
		done(transport.Answer{Outcome: transport.NotSent, Err: err})
		return
	}
	p := &push{app: a, to: to, payload: n.Payload, fields: fieldsOf(n, to)}
	p.Init(ctx, p, n, exchange.Options{Pool: host.pool, Timeout: s.o.Timeout, Done: func(answer transport.Answer) {
		s.hosts.release(host)
		done(answer)
	}})
	p.Try()
}

// fieldsOf are the headers that depend on the notification and its host. Windows' service refuses a TTL of 0.
func fieldsOf(n *transport.Notification, to *recipient) []h2.Field {
	ttl := maxTTL
	if n.Expiration != nil {
		ttl = n.Left(maxTTL)
	}
	if to.isWindows() {
		ttl = max(ttl, time.Second)
	}
	fields := []h2.Field{
		{Name: "content-type", Value: "application/octet-stream"},
		{Name: "content-encoding", Value: "aes128gcm"},
		{Name: "ttl", Value: strconv.FormatInt(int64(ttl.Seconds()), 10)},
	}
	if urgency := urgencies[n.Priority]; urgency != "" {
		fields = append(fields, h2.Field{Name: "urgency", Value: urgency})
	}
	if n.CollapseID != "" {
		fields = append(fields, h2.Field{Name: "topic", Value: topicOf(n.CollapseID), Sensitive: true})
	}
	return fields
}

// topicOf makes a topic, which has at most 32 characters (RFC 8030, 5.4), of a collapse id.
func topicOf(collapseID string) string {
	sum := sha256.Sum256([]byte(collapseID))
	return hex.EncodeToString(sum[:16])
}

// Try implements exchange.Owner: each try is encrypted with a key of its own.
func (p *push) Try() {
	body, err := encrypt(p.payload, p.to)
	if err != nil {
		p.End(transport.Answer{Outcome: transport.OurBug, Err: err})
		return
	}
	p.size = len(body)
	p.SetBody(body)
	p.Acquire()
}

// Post implements exchange.Owner.
func (p *push) Post(_ *h2.Conn, call *h2.Call) error {
	token, err := p.app.vapid.token("https://" + p.to.host)
	if err != nil {
		return err
	}
	call.Start(p.to.path, append(p.fields[:len(p.fields):len(p.fields)],
		h2.Field{Name: "content-length", Value: strconv.Itoa(p.size)}, h2.Field{Name: "authorization", Value: token.header}))
	return nil
}

// Judge implements exchange.Owner.
func (p *push) Judge(_ *h2.Conn, r *h2.Result) (transport.Answer, h2.Use) {
	if r.Status == 0 {
		return exchange.Unanswered("the push service", r.Err), h2.Unanswered
	}
	a := answerOf(r, p.to.path)
	p.to.readMore(&a, r)
	return a, h2.Answered
}
