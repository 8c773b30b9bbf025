package h2

import (
	"errors"
	"time"
)

const (
	// answerWithin is the most that Options.AnswerWithin is by default.
	answerWithin = 5 * time.Second
	// mostPatience is how many times Options.AnswerWithin a pool waits for a slow server.
	mostPatience = 4
)

var errNoAnswers = errors.New("requests get no answer")

// noAnswers finds connections whose peer is alive and answers no request. Such a connection is retired when
// nothing was answered for Pool.patience, since the second of its unanswered requests began: one device for
// which the server does not answer must not cost connections. Requests under way keep their time. If one of
// them is answered after all, the server is slow, and the pool becomes more patient. The pool's lock
// guards it.
type noAnswers struct {
	unanswered int       // requests that have begun since the last answer, or were under way then
	since      time.Time // when the last answer was heard, or the begin of the second unanswered request
	watched    bool      // checkAnswers is to run
	slow       bool      // retired because nothing was answered
}

// asked notes that a request begins.
func (c *Conn) asked() {
	if c.unanswered++; c.unanswered == 2 || c.inFlight == 0 {
		c.since = time.Now()
	}
	c.watchAnswers(c.pool.patience)
}

// answered notes an answer.
func (c *Conn) answered() {
	c.unanswered, c.since = c.inFlight, c.opened.Add(time.Duration(c.heard.Load())) // the answer was the last that was heard
	if p := c.pool; c.slow {
		c.slow, p.patience = false, mostPatience*p.o.AnswerWithin
	}
	c.watchAnswers(c.pool.patience)
}

// expectFirstAnswers counts requests that wait because of the single requests of new connections.
func (p *Pool) expectFirstAnswers() {
	for _, c := range p.conns {
		if !c.proven && c.unanswered == 1 && c.inFlight > 0 {
			c.asked()
		}
	}
}

// watchAnswers lets checkAnswers run after a time, unless it is to run already.
func (c *Conn) watchAnswers(after time.Duration) {
	if c.unanswered >= 2 && !c.watched {
		c.watched = true
		time.AfterFunc(after, c.checkAnswers)
	}
}

// checkAnswers retires the connection if it was silent for too long. If it runs far too late, this process
// was stopped, and answers may be waiting to be read: it checks again.
func (c *Conn) checkAnswers() {
	p := c.pool
	p.mu.Lock()
	defer p.unlockAndNotify()
	c.watched = false
	if c.inFlight == 0 || c.gone.Load() {
		return
	}
	switch silent := time.Since(c.since); {
	case silent < p.patience:
		c.watchAnswers(p.patience - silent)
	case silent > 2*p.patience:
		c.since = time.Now()
		c.watchAnswers(p.patience)
	case c.unanswered >= 2:
		c.slow, p.patience = true, max(p.patience/2, p.o.AnswerWithin)
		p.retire(c, errNoAnswers)
	}
}
