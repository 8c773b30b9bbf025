package fanfare_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fanfare "fanfare/clients/go"
)

// The server is killed again and again, and connections are cut, while messages are sent and read: each message is
// posted once, and read in order without a hole. Only a gap that the server tells makes the reader begin again.
func TestAStreamSurvivesKills(t *testing.T) {
	t.Parallel()
	needRedis(t)
	s, ctx := setup(t), within(t, 2*time.Minute)
	c := s.client(fanfare.Options{Attempts: 100, MaxBackoff: time.Second})
	chat, err := c.CreateChat(ctx, fanfare.NewChat{Creator: "alice", Members: []string{"bob"}})
	must(t, err)
	const n = 200
	var posts sync.WaitGroup
	posts.Go(func() {
		for i := range n {
			if _, err := c.PostMessage(ctx, chat.ID, fanfare.NewMessage{Sender: "alice", Text: fmt.Sprint(i)}); err != nil {
				t.Error(err)
				return
			}
			if i%50 == 25 {
				s.kill()
				s.start()
			}
			if i%50 == 0 {
				s.proxy.CloseClientConnections()
			}
		}
	})
	last, reconnects := int64(0), 0
	for event, err := range c.StreamMessages(ctx, "bob", fanfare.StreamOptions{OnReconnect: func(error) { reconnects++ }}) {
		must(t, err)
		if event.Gap != nil { // after a new run of Redis a reader may be told to begin again, and misses nothing
			if last = event.Gap.FirstID - 1; last != 0 {
				t.Fatalf("messages are missing: %+v", event.Gap)
			}
			continue
		}
		if m := event.Message; m == nil || m.ID != last+1 || m.Text != fmt.Sprint(last) {
			t.Fatalf("after message %d: %+v", last, event.Message)
		}
		if last++; last == n {
			break
		}
	}
	posts.Wait() // the last message may be read before its post is answered
	if reconnects == 0 {
		t.Error("the stream was never cut")
	}
}

// A reader that begins with the ID of the last event goes on after it, and a message that was redacted is told.
func TestAStreamGoesOn(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), within(t, time.Minute)
	c := s.client(fanfare.Options{})
	chat, err := c.CreateChat(ctx, fanfare.NewChat{Creator: "alice", Members: []string{"bob"}})
	must(t, err)
	for range 3 {
		_, err := c.PostMessage(ctx, chat.ID, fanfare.NewMessage{Sender: "alice", Text: "x"})
		must(t, err)
	}
	last := ""
	for event, err := range c.StreamMessages(ctx, "bob", fanfare.StreamOptions{}) {
		must(t, err)
		if last = event.ID; event.Message.ID == 2 {
			break
		}
	}
	for event, err := range c.StreamMessages(ctx, "bob", fanfare.StreamOptions{LastEventID: last}) {
		must(t, err)
		if event.Message != nil {
			if event.Message.ID != 3 {
				t.Fatalf("it goes on with %+v", event.Message)
			}
			must(t, c.Call(ctx, http.MethodDelete, fanfare.Path("v1", "chats", chat.ID, "messages", "3"), nil, nil))
			continue
		}
		if event.Redaction == nil || event.Redaction.ID != 3 || event.Redaction.Chat != chat.ID {
			t.Errorf("%+v", event)
		}
		break
	}
}

// A stream whose token is revoked goes on with another one.
func TestAStreamWithATokenThatEnds(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), within(t, time.Minute)
	backend := s.client(fanfare.Options{})
	_, err := backend.CreateChat(ctx, fanfare.NewChat{ID: "team", Creator: "alice", Members: []string{"bob"}})
	must(t, err)
	var fetched atomic.Int64
	c := s.client(fanfare.Options{Token: func(ctx context.Context) (string, error) {
		fetched.Add(1)
		made, err := backend.CreateUserToken(ctx, "bob", []string{"chat"}, time.Hour)
		return made.Token, err
	}})
	post := func() {
		_, err := backend.PostMessage(ctx, "team", fanfare.NewMessage{Sender: "alice", Text: "x"})
		must(t, err)
	}
	post()
	var why error
	for event, err := range c.StreamMessages(ctx, "bob", fanfare.StreamOptions{OnReconnect: func(err error) { why = err; post() }}) {
		must(t, err)
		if event.Message.ID == 2 {
			break
		}
		must(t, backend.RevokeUserTokens(ctx, "bob"))
	}
	if fetched.Load() != 2 || why == nil || !strings.Contains(why.Error(), "revoked") {
		t.Errorf("%d tokens, %v", fetched.Load(), why)
	}
}

// A stream that is silent is opened again, what was cut in the middle of an event is not handed on, and the
// server's wait is kept.
func TestSilenceAndCuts(t *testing.T) {
	t.Parallel()
	var opened []string
	var times []time.Time
	c, _ := answerer(t, func(w http.ResponseWriter, r *http.Request) {
		opened = append(opened, r.Header.Get("Last-Event-ID")) // one after the other
		times = append(times, time.Now())
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(opened) {
		case 1: // silent after an event
			_, _ = w.Write([]byte("retry: 300\n\nid: a\nevent: x\ndata: 1\n\n:\n\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case 2: // cut in the middle
			_, _ = w.Write([]byte("id: b\n\nid: c\nevent: x\ndata: 2"))
		case 3:
			_, _ = w.Write([]byte("id: d\r\nevent:y\r\ndata: 3\r\ndata: 4\r\n\r\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	var got []string
	var why []error
	for event, err := range c.Stream(within(t, time.Minute), "/s", fanfare.StreamOptions{Silence: 100 * time.Millisecond, OnReconnect: func(err error) { why = append(why, err) }}) {
		must(t, err)
		if got = append(got, fmt.Sprintf("%s %s %s", event.ID, event.Name, event.Data)); len(got) == 2 {
			break
		}
	}
	if fmt.Sprintf("%q %q", got, opened) != `["a x 1" "d y 3\n4"] ["" "a" "b"]` || len(why) != 2 || !strings.Contains(why[0].Error(), "silent") {
		t.Errorf("%q, opened with %q, because of %v", got, opened, why)
	}
	if wait := times[1].Sub(times[0]); wait < 300*time.Millisecond {
		t.Errorf("it came back after %v, not after what the server said", wait)
	}
}

// A loop over a stream ends with an error when the context ends, and when the server refuses.
func TestAStreamEnds(t *testing.T) {
	t.Parallel()
	c := setup(t).client(fanfare.Options{})
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	defer cancel()
	_, err := c.CreateChat(ctx, fanfare.NewChat{Creator: "alice", Members: []string{"bob"}, Message: new("hello")})
	must(t, err)
	seen := 0
	for _, err = range c.StreamMessages(ctx, "bob", fanfare.StreamOptions{}) {
		seen++
		cancel()
	}
	if seen != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d events, then %v", seen, err)
	}
	for _, err = range c.StreamSale(within(t, time.Minute), "none", fanfare.StreamOptions{}) {
		if fanfare.CodeOf(err) != "sale_not_found" {
			t.Errorf("refused with %v", err)
		}
	}
}

// The stream of a sale follows what is available.
func TestASaleIsFollowed(t *testing.T) {
	t.Parallel()
	c, ctx := setup(t).client(fanfare.Options{}), within(t, time.Minute)
	_, err := c.PutSale(ctx, "spring", fanfare.NewSale{Items: []fanfare.Stock{{SKU: "a", Stock: 2}}, StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour)})
	must(t, err)
	for now, err := range c.StreamSale(ctx, "spring", fanfare.StreamOptions{}) {
		must(t, err)
		if now.Available["a"] == 2 {
			_, err := c.Reserve(ctx, "spring", "alice", []fanfare.Line{{SKU: "a", Quantity: 2}})
			must(t, err)
		} else if now.State == "sold_out" {
			break
		}
	}
}
