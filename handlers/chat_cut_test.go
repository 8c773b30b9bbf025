package handlers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// The size of the test: in each chat all members send and all follow, and their connections are cut
// the given number of times in total.
type cutPlan struct {
	chats, members, messages, cuts int
	trouble                        func() // another fault, which is repeated
}

// C13: connections are cut 1,000 times at random while 10,000 messages are sent (a fifth of both by
// default). Every member gets every message exactly once and in order, including the member's own.
// In between the subscription itself is cut.
func TestC13_CutAtRandom(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		redis := storetest.Redis(t)
		w := setupOn(t, storetest.Open(t, redis.URL()))
		w.cutAtRandom(cutPlan{chats: 4, members: 6, messages: storetest.Sized(10_000, 2000), cuts: storetest.Sized(1000, 200), trouble: func() {
			storetest.Must(t, redis.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		}})
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		setup(t).cutAtRandom(cutPlan{chats: 2, members: 4, messages: 400, cuts: 60})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		w := setupOn(t, storetest.Open(t, storetest.Cluster(t).URL()))
		w.cutAtRandom(cutPlan{chats: 3, members: 5, messages: 600, cuts: 60})
	})
}

// cutRun is one run of the test.
type cutRun struct {
	*world
	cutPlan
	store *chat.Store
	name  string
	texts []sync.Map // by chat: id -> text, from the answers to the senders
	sent  []atomic.Int64
	cut   atomic.Int64 // connections that were cut
}

func (w *world) cutAtRandom(plan cutPlan) {
	w.t.Helper()
	w.workChats()
	c := &cutRun{world: w, cutPlan: plan, store: w.chats, name: fmt.Sprintf("cut%d-", rand.Int64()), texts: make([]sync.Map, plan.chats), sent: make([]atomic.Int64, plan.chats)}
	for n := range plan.chats {
		var names []string
		for m := range plan.members {
			names = append(names, c.member(m))
		}
		w.mustChat(c.chat(n), names...)
	}
	var all sync.WaitGroup
	ready := make(chan struct{}, plan.members)
	for m := range plan.members {
		all.Go(func() { c.listen(m, sync.OnceFunc(func() { ready <- struct{}{} })) })
	}
	for range plan.members {
		<-ready
	}
	began := time.Now()
	stop := c.disturb()
	for sender := range 4 {
		all.Go(func() { c.send(sender) })
	}
	all.Wait()
	stop()
	w.t.Logf("%d messages to %d members each, %d cuts, in %v", plan.messages, plan.members, c.cut.Load(), time.Since(began))
	if n := c.cut.Load(); n < int64(plan.cuts) {
		w.t.Errorf("only %d cuts", n)
	}
}

func (c *cutRun) chat(n int) string   { return fmt.Sprintf("%schat%d", c.name, n) }
func (c *cutRun) member(m int) string { return fmt.Sprintf("%suser%d", c.name, m) }

// disturb causes the plan's fault until stop is called.
func (c *cutRun) disturb() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(500 * time.Millisecond):
				if c.trouble != nil {
					c.trouble()
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// send sends a quarter of the messages, through the router but without a socket.
func (c *cutRun) send(sender int) {
	for i := sender; i < c.messages; i += 4 {
		chat, from := i%c.cutPlan.chats, rand.IntN(c.members)
		text := fmt.Sprintf("%d from %s", i, c.member(from))
		r := httptest.NewRequestWithContext(c.t.Context(), "POST", "http://localhost/v1/chats/"+c.chat(chat)+"/messages",
			strings.NewReader(fmt.Sprintf(`{"sender":%q,"text":%q}`, c.member(from), text)))
		r.Header.Set("Content-Type", "application/json")
		a := httptest.NewRecorder()
		c.handler.ServeHTTP(a, r)
		var sent api.ChatMessageSent
		if err := json.Unmarshal(a.Body.Bytes(), &sent); err != nil || a.Code != 201 {
			c.t.Errorf("%d %s %v", a.Code, a.Body, err)
			return
		}
		c.texts[chat].Store(sent.ID, text)
		c.sent[chat].Add(1)
	}
}

// receiver is what one member has received.
type receiver struct {
	*cutRun
	member   int
	last     string // Last-Event-ID
	received []int64
	cuts     int // that are still to be made
}

// listen follows as one member until the member has received everything.
func (c *cutRun) listen(m int, ready func()) {
	defer ready()
	e := &receiver{cutRun: c, member: m, received: make([]int64, c.cutPlan.chats), cuts: c.cuts / c.members}
	if m < c.cuts%c.members {
		e.cuts++
	}
	deadline := time.Now().Add(3 * time.Minute)
	for first := true; !e.complete() && !c.t.Failed(); first = false {
		if time.Now().After(deadline) {
			c.t.Errorf("%s has received %v of %d", c.member(m), e.received, c.messages)
			return
		}
		if err := e.connect(first, ready); err != nil {
			c.t.Error(err)
			return
		}
	}
}

func (e *receiver) complete() bool {
	var sum int64
	for _, id := range e.received {
		sum += id
	}
	return sum == int64(e.messages)
}

// budget is the number of bytes after which the connection is cut. It spreads the cuts over all
// remaining data.
func (e *receiver) budget() int64 {
	if e.cuts == 0 {
		return 1 << 40
	}
	left := int64(e.messages)
	for _, id := range e.received {
		left -= id
	}
	return rand.Int64N(2*left*200/int64(e.cuts+1) + 2)
}

// connect follows until the connection is cut. A client without an id cannot continue, so the first
// connection is cut only after it has an id.
func (e *receiver) connect(first bool, ready func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", e.url+"/v1/users/"+e.cutRun.member(e.member)+"/messages/stream", nil)
	if err != nil {
		return err
	}
	if e.last != "" {
		r.Header.Set("Last-Event-ID", e.last)
	}
	res, err := e.streamClient().Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		return fmt.Errorf("%s: %d", e.cutRun.member(e.member), res.StatusCode)
	}
	body := &cutReader{from: res.Body, left: e.budget()}
	if first {
		body.left += 500
	}
	f := &follower{lines: bufio.NewReader(body)}
	for !e.complete() {
		event, err := f.next()
		if errors.Is(err, errCut) {
			e.cuts--
			e.cut.Add(1)
			return nil
		}
		if err == nil {
			err = e.receive(event)
		}
		if err != nil {
			return fmt.Errorf("%s after %v: %w", e.cutRun.member(e.member), e.received, err)
		}
		if e.last != "" {
			ready()
		}
	}
	return nil
}

// receive checks that the event is the next message of its chat.
func (e *receiver) receive(event event) error {
	if event.id != "" {
		e.last = event.id
	}
	switch event.name {
	case "":
		return nil
	case "read":
		return e.receiveRead(event)
	}
	var m api.StreamMessage
	if err := json.Unmarshal([]byte(event.data), &m); err != nil || event.name != "message" {
		return fmt.Errorf("received %s %s: %w", event.name, event.data, err)
	}
	for chat := range e.cutPlan.chats {
		if m.Chat != e.chat(chat) {
			continue
		}
		if m.ID != e.received[chat]+1 {
			return fmt.Errorf("received %s after %d", event.data, e.received[chat])
		}
		e.received[chat] = m.ID
		if text, ok := e.texts[chat].Load(m.ID); ok && text != m.Text { // the sender may not have the answer yet
			return fmt.Errorf("received %s instead of %q", event.data, text)
		}
		// Most members acknowledge at times. One member never does, so that all messages are kept.
		if e.member > 1 && rand.IntN(50) == 0 {
			_, err := e.store.Ack(context.Background(), e.cutRun.member(e.member), map[string]int64{m.Chat: m.ID}, nil)
			return err
		}
		return nil
	}
	return fmt.Errorf("received %s of another chat", event.data)
}

// receiveRead takes a position of a member, of which the stream must have sent the message (C20).
func (e *receiver) receiveRead(event event) error {
	var r api.StreamRead
	if err := json.Unmarshal([]byte(event.data), &r); err != nil {
		return err
	}
	for chat := range e.cutPlan.chats {
		if r.Chat == e.chat(chat) && r.Acked <= e.received[chat] {
			return nil
		}
	}
	return fmt.Errorf("received %s, and only messages up to %v", event.data, e.received)
}

// errCut ends a connection that was cut.
var errCut = errors.New("cut")

// cutReader cuts a connection after some bytes, at any place.
type cutReader struct {
	from io.Reader
	left int64
}

// Read reads up to the cut.
func (r *cutReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errCut
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}
