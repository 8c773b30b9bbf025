package exchange

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const (
	// How often a notification is sent again here, before the caller has to send it again.
	maxTries = 5   // on connections that live on
	maxMoves = 100 // to other connections, after GOAWAY
	// AgainAfter is the delay that is asked for when an Again is given up.
	AgainAfter = time.Second
)

// Owner is the part of an exchange that depends on the push service. Its methods are called one after
// the other, by any goroutine, and must not block.
type Owner interface {
	// Try begins a try. It calls Acquire now or later, or End.
	Try()
	// Post starts the call, which is for this connection. With an error, nothing is sent.
	Post(conn *h2.Conn, call *h2.Call) error
	// Judge turns the result of a call into an answer, and says what it shows about the connection. With
	// Again, or if the service is known not to have processed the request, there may be another try.
	Judge(conn *h2.Conn, r *h2.Result) (transport.Answer, h2.Use)
}

// Exchange is one notification on its way to its answer. It first waits for room on a connection
// (Acquired) and then for the answer (Answered), perhaps more than once. No goroutine waits: these
// methods are called when the wait is over. Only one wait is under way at any time, so that the fields
// that the methods use need no lock. Owners embed it.
type Exchange struct {
	owner   Owner
	pool    *h2.Pool
	done    func(transport.Answer)
	body    []byte
	check   func() bool
	waiter  h2.Waiter
	conn    *h2.Conn
	sent    time.Time // the newest request
	last    transport.Answer
	tries   int
	moves   int
	timer   *time.Timer
	unwatch func() bool

	mu   sync.Mutex
	call *h2.Call // the newest call
	over error    // why the exchange must end
}

// Options of an Exchange; all but Limiter and Body are required.
type Options struct {
	Pool *h2.Pool
	// Limiter is the app's, of the pool; nil: no answer lowers the number of requests under way.
	Limiter *h2.Limiter
	// Timeout ends the exchange.
	Timeout time.Duration
	// Body is what is posted, until SetBody.
	Body []byte
	// Done gets the answer, once.
	Done func(transport.Answer)
}

// Init prepares an exchange. It ends at the latest with ctx or after the time-out. The owner's Try
// begins it.
func (x *Exchange) Init(ctx context.Context, owner Owner, n *transport.Notification, o Options) {
	x.owner, x.pool, x.done, x.body, x.check = owner, o.Pool, o.Done, o.Body, n.MaySend
	x.waiter = h2.Waiter{Group: n.Topic, Bulk: n.Bulk, Limiter: o.Limiter, Context: ctx, Owner: x}
	x.timer = time.AfterFunc(o.Timeout, func() { x.cancel(context.DeadlineExceeded) })
	if ctx.Done() != nil {
		x.unwatch = context.AfterFunc(ctx, func() { x.cancel(ctx.Err()) })
	}
}

// cancel ends the exchange, whichever wait is under way.
func (x *Exchange) cancel(err error) {
	x.mu.Lock()
	x.over = err
	call := x.call
	x.mu.Unlock()
	x.pool.Cancel(&x.waiter, err)
	if call != nil {
		call.Cancel(err)
	}
}

// use makes a call the newest one. It returns an error if the exchange must end. It also checks the
// context, because cancel is called only a moment after the context has ended.
func (x *Exchange) use(call *h2.Call) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.call = call
	return cmp.Or(x.over, x.waiter.Context.Err())
}

// SetBody sets the body of the request. An owner calls it in Try, before Acquire.
func (x *Exchange) SetBody(body []byte) { x.body = body }

// Acquire waits for room on a connection.
func (x *Exchange) Acquire() { x.pool.Acquire(&x.waiter) }

// Acquired is called with a connection that has room (see h2.Waiter), and starts the request. If there
// is no connection, the previous answer, if there was one, is the result.
func (x *Exchange) Acquired(conn *h2.Conn, err error) {
	if err != nil {
		x.Fail(err)
		return
	}
	x.conn = conn
	call := conn.NewCall(x.body, x.check, x)
	call.Bulk = x.waiter.Bulk
	x.sent = time.Now()
	if err = x.use(call); err == nil {
		err = x.owner.Post(conn, call)
	}
	if err != nil {
		x.pool.Release(conn, h2.Unanswered)
		x.End(transport.Answer{Outcome: transport.NotSent, Err: err})
	}
}

// Fail ends an exchange that cannot go on with another try. The previous answer, if there was one, is
// the result.
func (x *Exchange) Fail(err error) {
	answer := transport.Answer{Outcome: transport.NotSent, Err: err}
	if x.last.Status != 0 {
		answer = x.last
		answer.RetryAfter = AgainAfter
	}
	if rest := (*h2.RestError)(nil); errors.As(err, &rest) {
		answer.RetryAfter = rest.Left
	}
	x.End(answer)
}

// Answered implements h2.Owner: it is called with the answer, and sends again or ends.
func (x *Exchange) Answered(r *h2.Result) {
	answer, use := x.owner.Judge(x.conn, r)
	if r.Cut && r.Status/100 == 4 && r.Status != http.StatusTooManyRequests {
		// It was refused, and what is missing may say that neither the device nor the app is at fault.
		answer.Outcome, answer.Reason = transport.Retry, ""
	}
	if answer.Status != 0 {
		answer.Took = time.Since(x.sent)
	}
	x.pool.Release(x.conn, use)
	if !x.again(&answer) {
		x.End(answer)
		return
	}
	x.last = answer
	x.owner.Try()
}

// again reports whether to send the notification again now. A notification whose connection ends is sent
// on another one each time, because the pool does not open connections too fast. If it is not to be
// sent again, the answer for the caller may be changed.
func (x *Exchange) again(answer *transport.Answer) bool {
	if answer.Outcome != transport.Again && !errors.Is(answer.Err, h2.ErrUnprocessed) || x.use(nil) != nil {
		return false
	}
	if x.tries++; answer.Status == 0 && (x.conn.Gone() || errors.Is(answer.Err, h2.ErrFull)) {
		x.tries, x.moves = 0, x.moves+1
	}
	if x.tries == maxTries || x.moves == maxMoves || answer.RetryAfter > 0 {
		answer.RetryAfter = max(answer.RetryAfter, AgainAfter)
		return false
	}
	return true
}

// End releases what the exchange holds, and reports the answer.
func (x *Exchange) End(answer transport.Answer) {
	x.timer.Stop()
	if x.unwatch != nil {
		x.unwatch()
	}
	pace := h2.Unsaid
	switch {
	case answer.Outcome == transport.Delivered:
		pace = h2.Fine
	case answer.Outcome == transport.RetryUncounted && answer.Status == http.StatusServiceUnavailable:
		pace = h2.Slower
	}
	x.pool.Leave(&x.waiter, pace)
	x.done(answer)
}
