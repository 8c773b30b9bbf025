package apnstest

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// decide answers a whole request; false ends the connection.
func (c *conn) decide(id uint32, st *stream) bool {
	r := &st.req
	r.At, r.Payload = time.Now(), st.payload
	a := c.possible(id, c.judge(&st.headers, r))
	c.handled = max(c.handled, id)
	st.place = c.record(r, &a)
	return c.apply(id, a)
}

// judge checks a request and chooses its answer.
func (c *conn) judge(h *headers, r *Request) Answer {
	switch {
	case c.manage:
		return c.judgeManaged(h, r)
	case strings.HasPrefix(h.path, broadcastPath):
		return c.judgeBroadcast(h, r)
	}
	a, ok := c.s.check(h, r, c.cert)
	if ok && !c.cert {
		a, ok = c.authorize(r)
	}
	if ok {
		a = c.s.script.next(r)
	}
	return a
}

// authorize checks the provider token. After the first valid one a connection accepts more than one
// stream.
func (c *conn) authorize(r *Request) (Answer, bool) {
	if reason := c.s.tokens.check(r.Bearer); reason != "" {
		return Fail(http.StatusForbidden, reason), false
	}
	if r.Bearer != c.bearer {
		now := c.s.o.Now()
		if c.bearer != "" && now.Sub(c.since) < c.s.o.TokenUpdates {
			return Fail(http.StatusTooManyRequests, "TooManyProviderTokenUpdates"), false
		}
		c.bearer, c.since = r.Bearer, now
	}
	if !c.proven {
		c.proven = true
		c.s.mu.Lock()
		most := c.s.maxStreams
		c.s.mu.Unlock()
		c.announce(most)
	}
	return Answer{}, true
}

// possible turns a GOAWAY that would take back decided requests into a refusal
// of this one.
func (c *conn) possible(id uint32, a Answer) Answer {
	if a.Fault == GoAwayBefore && c.handled > id {
		a.Fault = Refuse
	}
	return a
}

// record enters the request and its answer in the ledger when the request arrives, so that the
// ledger is in the order of arrival. Payloads are copied only if they are kept.
func (c *conn) record(r *Request, a *Answer) place {
	r.Status, r.Reason = 0, ""
	if a.Fault == NoFault || a.Fault == GoAwayAfter || a.Fault == CutOff {
		r.Status, r.Reason = a.status(), a.Reason
	}
	r.Taken = a.Fault.taken() && (a.status() == http.StatusOK || c.manage && a.status()/100 == 2)
	if c.s.o.OnRequest != nil && !c.manage {
		c.s.o.OnRequest(r)
	}
	var id [16]byte
	if c.s.o.TrackIDs {
		id = uuidBytes(r.ID)
	}
	if !c.s.o.CountsOnly {
		r.Payload = append([]byte(nil), r.Payload...)
	}
	return c.ledger().add(r, id)
}

// ledger is that of the connection's host.
func (c *conn) ledger() *Ledger {
	if c.manage {
		return c.s.Managed
	}
	return c.s.Ledger
}

// apply sends the answer that was decided; false ends the connection.
func (c *conn) apply(id uint32, a Answer) bool {
	switch a.Fault {
	case Refuse:
		return c.reset(id, http2.ErrCodeRefusedStream)
	case Reset:
		return c.reset(id, http2.ErrCodeInternal)
	case GoAwayBefore:
		c.sendGoAway(max(id, 2) - 2)
		return true
	case GoAwayAfter:
		c.sendGoAway(max(id, c.handled))
	case GoAwayDrop:
		c.sendGoAway(max(id, c.handled))
		_ = c.bw.Flush()
		return false
	case Drop, DropUntaken:
		return false
	case Hang:
		return true
	case BlackHole:
		c.silent = true
		return true
	}
	if d := a.Delay + c.s.latency.Load().draw(); d > 0 {
		c.later(id, a, d)
		return true
	}
	c.respond(id, a)
	return true
}

// reset ends one stream; the connection goes on.
func (c *conn) reset(id uint32, code http2.ErrCode) bool {
	_ = c.fr.WriteRSTStream(id, code)
	c.release(id)
	return true
}

// latency is how long answers take: a minimum, and a random additional time.
type latency struct{ least, more time.Duration }

func (l *latency) draw() time.Duration {
	if l.more <= 0 {
		return l.least
	}
	return l.least + rand.N(l.more)
}

// lateAnswer is the answer of a stream, which is not due yet.
type lateAnswer struct {
	id     uint32
	answer Answer
}

// later answers after a delay. Answers that are due at about the same time share a
// timer and a write, so that thousands may wait at little cost.
func (c *conn) later(id uint32, a Answer, d time.Duration) {
	step := min(max(d/32, time.Millisecond), 4*time.Millisecond)
	now := time.Since(c.s.began)
	due := (now + d + step - 1).Truncate(step)
	if c.late[due] == nil {
		time.AfterFunc(due-now, func() { c.respondLate(due) })
	}
	c.late[due] = append(c.late[due], lateAnswer{id, a})
}

// respondLate sends the answers that are due, except for streams that the client gave up meanwhile.
func (c *conn) respondLate(due time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.late[due]
	delete(c.late, due)
	if c.silent {
		return
	}
	for _, l := range late {
		if _, ok := c.streams[l.id]; ok {
			c.respond(l.id, l.answer)
		}
	}
	_ = c.bw.Flush()
	c.finish()
}

// respond writes the answer and forgets the stream.
func (c *conn) respond(id uint32, a Answer) {
	st := c.streams[id]
	body := a.body()
	c.block.Reset()
	c.field(":status", strconv.Itoa(a.status()), false)
	switch {
	case !isUUID(st.req.ID):
	case st.headers.requestID != "":
		c.field("apns-request-id", st.req.ID, true)
	default:
		c.field("apns-id", st.req.ID, true)
	}
	if a.Channel != "" {
		c.field("apns-channel-id", a.Channel, true)
	}
	if a.RetryAfter != "" {
		c.field("retry-after", a.RetryAfter, false)
	}
	_ = c.fr.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: len(body) == 0,
	})
	if a.Fault == CutOff {
		_, body = c.fr.WriteRSTStream(id, http2.ErrCodeInternal), nil
	}
	for len(body) > 0 {
		piece := body[:min(len(body), 16<<10)]
		body = body[len(piece):]
		_ = c.fr.WriteData(id, len(body) == 0, piece)
	}
	select {
	case <-c.done: // the connection has ended
	default:
		c.ledger().answered(st.place)
	}
	c.release(id)
}

// field encodes a header. A value that differs with every answer is never put into the header
// table, where it would push out values that are worth keeping.
func (c *conn) field(name, value string, never bool) {
	_ = c.enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: never})
}

// sendGoAway announces the end: streams above last are forgotten.
func (c *conn) sendGoAway(last uint32) {
	if c.goAway {
		return
	}
	c.goAway, c.last = true, last
	_ = c.fr.WriteGoAway(last, http2.ErrCodeNo, nil)
	for id := range c.streams {
		if id > last {
			c.release(id)
		}
	}
}

// goAwayNow ends the connection after all that has arrived so far.
func (c *conn) goAwayNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bw == nil || c.silent {
		return
	}
	c.sendGoAway(c.highest)
	_ = c.bw.Flush()
	c.finish()
}

// blackHole makes the connection silent; its reader stops at the next frame.
func (c *conn) blackHole() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
}

// finish ends the connection after the last answer that follows a GOAWAY. It signals the end to the
// client and waits until the client closes, because closing with unread data would reset the
// connection and discard the answer.
func (c *conn) finish() {
	if !c.goAway || c.over || len(c.streams) > 0 {
		return
	}
	c.over = true
	_ = c.bw.Flush()
	_ = c.tls.CloseWrite()
	_ = c.raw.SetReadDeadline(time.Now().Add(lingerTime))
}
