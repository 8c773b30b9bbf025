package apns

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sideshow/apns2"

	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// How often a notification is sent again here, before the caller has to send it again.
const (
	maxTries   = 5           // on connections that live on
	maxMoves   = 100         // to other connections, after GOAWAY
	maxExpired = 3           // ExpiredProviderToken answers for one notification
	againAfter = time.Second // the delay that is asked for when Again is given up
)

// push is one notification on its way to APNs. It first waits for room on a connection (Acquired) and
// then for the answer (Answered), perhaps more than once. No goroutine waits: these methods are called
// when the wait is over. Only one wait is under way at any time, so that the fields that the methods
// use need no lock.
type push struct {
	app     *app
	n       *transport.Notification
	done    func(transport.Answer)
	waiter  h2.Waiter
	conn    *h2.Conn
	token   *providerToken // sent with the request; nil: certificate
	sent    time.Time      // the newest request
	last    transport.Answer
	tries   int
	moves   int
	expired int
	timer   *time.Timer
	unwatch func() bool

	mu   sync.Mutex
	call *h2.Call // the newest call
	over error    // why the push must end
}

// newPush prepares a notification. The push ends at the latest with ctx or after its time-out.
func newPush(ctx context.Context, a *app, n *transport.Notification, timeout time.Duration, done func(transport.Answer)) *push {
	p := &push{app: a, n: n, done: done}
	p.waiter = h2.Waiter{Group: n.Topic, Limiter: a.limiter, Context: ctx, Owner: p}
	p.timer = time.AfterFunc(timeout, func() { p.cancel(context.DeadlineExceeded) })
	if ctx.Done() != nil {
		p.unwatch = context.AfterFunc(ctx, func() { p.cancel(ctx.Err()) })
	}
	return p
}

// cancel ends the push, whichever wait is under way.
func (p *push) cancel(err error) {
	p.mu.Lock()
	p.over = err
	call := p.call
	p.mu.Unlock()
	p.app.link.pool.Cancel(&p.waiter, err)
	if call != nil {
		call.Cancel(err)
	}
}

// use makes a call the newest one. It returns an error if the push must end. It also checks the
// context, because cancel is called only a moment after the context has ended.
func (p *push) use(call *h2.Call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.call = call
	return cmp.Or(p.over, p.waiter.Context.Err())
}

// Acquired is called with a connection that has room (see h2.Waiter), and starts the request. If there
// is no connection, the previous answer, if there was one, is the result.
func (p *push) Acquired(conn *h2.Conn, err error) {
	if err != nil {
		answer := transport.Answer{Outcome: transport.NotSent, Err: err}
		if p.last.Status != 0 {
			answer = p.last
			answer.RetryAfter = againAfter
		}
		p.finish(answer)
		return
	}
	p.conn = conn
	call := conn.NewCall(p.n.Payload, p.n.MaySend, p)
	if err = p.use(call); err == nil {
		p.token, err = bearer(conn)
	}
	if err != nil {
		p.app.link.pool.Release(conn, h2.Unanswered)
		p.finish(transport.Answer{Outcome: transport.NotSent, Err: err})
		return
	}
	p.start(call)
}

// start sends the request with the headers that apns2 would set, and with expiration 0, which
// apns2 would leave out. Headers that many notifications share are left to the connection's
// header table.
func (p *push) start(call *h2.Call) {
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
	p.sent = time.Now()
	call.Start("/3/device/"+n.Token, fields)
}

// Answered implements h2.Owner: it is called with the answer, and sends again or finishes.
func (p *push) Answered(r *h2.Result) {
	answer := answerOf(r)
	if answer.Status != 0 {
		answer.Took = time.Since(p.sent)
	}
	answer.Quiet = p.app.met && answer.Outcome == transport.PauseApp && answer.Status == http.StatusBadRequest
	p.renewToken(&answer)
	use := h2.Answered
	switch {
	case answer.Status == 0:
		use = h2.Unanswered
	case answer.Outcome == transport.Again && (answer.Reason == apns2.ReasonIdleTimeout || answer.Reason == apns2.ReasonShutdown):
		use = h2.Refused
	}
	p.app.link.pool.Release(p.conn, use)
	if !p.again(&answer) {
		p.finish(answer)
		return
	}
	p.last = answer
	p.app.link.pool.Acquire(&p.waiter)
}

// renewToken does what an answer says about the provider token.
func (p *push) renewToken(answer *transport.Answer) {
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
			tokenOf(p.conn).replace(p.conn, p.token, next)
		}
	}
}

// again tells whether to send the notification again now. A notification whose connection ends is sent
// on another one each time, because the pool does not open connections too fast. If it is not to be
// sent again, the answer for the caller may be changed.
func (p *push) again(answer *transport.Answer) bool {
	if answer.Outcome == transport.Again && answer.Reason == apns2.ReasonExpiredProviderToken {
		if p.expired++; p.expired == maxExpired {
			answer.Outcome = transport.PauseApp
			return false
		}
	}
	if answer.Outcome != transport.Again && !errors.Is(answer.Err, h2.ErrUnprocessed) || p.use(nil) != nil {
		return false
	}
	if p.tries++; answer.Status == 0 && (p.conn.Gone() || errors.Is(answer.Err, h2.ErrFull)) {
		p.tries, p.moves = 0, p.moves+1
	}
	if p.tries == maxTries || p.moves == maxMoves || answer.RetryAfter > 0 {
		answer.RetryAfter = max(answer.RetryAfter, againAfter)
		return false
	}
	return true
}

// finish releases what the push holds, and reports the answer.
func (p *push) finish(answer transport.Answer) {
	p.timer.Stop()
	if p.unwatch != nil {
		p.unwatch()
	}
	pace := h2.Unsaid
	switch answer.Outcome {
	case transport.Delivered:
		pace = h2.Fine
	case transport.RetryUncounted:
		pace = h2.Slower
	}
	p.app.link.pool.Leave(&p.waiter, pace)
	p.done(answer)
}
