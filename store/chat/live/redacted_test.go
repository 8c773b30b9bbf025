package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// mustReadEvents reads n events of a stream: "2:two" is message 2, "2:(gone)" the same without its text,
// and "-2" says that it was redacted.
func mustReadEvents(t testing.TB, st *Stream, n int) string {
	t.Helper()
	var out []string
	for len(out) < n {
		select {
		case <-st.Wake():
		case <-time.After(testPatience):
			t.Fatalf("%q, and no more", out)
		}
		events, err := st.Read(t.Context())
		storetest.Must(t, err)
		for _, e := range events {
			switch {
			case e.Redacted != nil:
				out = append(out, fmt.Sprint("-", e.Redacted.ID))
			case e.Message != nil && e.Message.Redacted:
				out = append(out, fmt.Sprint(e.Message.ID, ":(gone)", e.Message.Text, e.Message.Data))
			case e.Message != nil:
				out = append(out, fmt.Sprint(e.Message.ID, ":", e.Message.Text))
			}
		}
	}
	return strings.Join(out, " ")
}

// C18: in every process a stream that has delivered the message tells of the redaction, and one that has
// not delivers the message without its text, from memory and from the log.
func TestC18_StreamsOfEveryProcess(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		hubs, team := []*Hub{w.mustHub(), w.mustHub()}, w.id("team")
		w.mustCreate("team", "ann", "bob")
		var quick, slow []*Stream
		for _, h := range hubs {
			for _, list := range []*[]*Stream{&quick, &slow} {
				st, err := h.Stream(t.Context(), w.id("bob"), "")
				storetest.Must(t, err)
				defer st.Close(t.Context())
				*list = append(*list, st)
			}
		}
		for _, text := range []string{"one", "two", "three"} {
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: team, Sender: w.id("ann"), Text: text, Data: map[string]string{"of": text}})
			storetest.Must(t, err)
		}
		for _, st := range quick {
			if got := mustReadEvents(t, st, 3); got != "1:one 2:two 3:three" {
				t.Errorf("delivered %s", got)
			}
		}
		_, err := w.Redact(t.Context(), team, chat.Redaction{From: 2, To: 2})
		storetest.Must(t, err)
		for i, h := range hubs {
			if got := mustReadEvents(t, quick[i], 1); got != "-2" {
				t.Errorf("told %s", got)
			}
			if got := mustReadEvents(t, slow[i], 3); got != "1:one 2:(gone)map[] 3:three" {
				t.Errorf("delivered later %s", got)
			}
			later, err := h.Stream(t.Context(), w.id("bob"), "")
			storetest.Must(t, err)
			defer later.Close(t.Context())
			if got := mustReadEvents(t, later, 3); got != "1:one 2:(gone)map[] 3:three" {
				t.Errorf("delivered to a new stream %s", got)
			}
			top := h.topic(w.MessageChannel(team))
			top.mu.Lock()
			bytes := 0
			for _, m := range top.ring {
				bytes += m.size()
			}
			if len(top.ring) != 3 || top.bytes != bytes || h.kept.used.Load() != int64(bytes) {
				t.Errorf("%d messages of %d bytes in memory, %d and %d counted", len(top.ring), bytes, top.bytes, h.kept.used.Load())
			}
			top.mu.Unlock()
		}
	})
}

// C18: a stream that reconnects after a redaction goes on exactly, and is not told of what it delivered
// before. A process that has forgotten the message, or never heard of it, tells its streams as well.
func TestC18_AfterAReconnect(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		h, team := w.mustHub(), w.id("team")
		w.mustCreate("team", "ann", "bob")
		st, err := h.Stream(t.Context(), w.id("bob"), "")
		storetest.Must(t, err)
		send := func(text string) {
			t.Helper()
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: team, Sender: w.id("ann"), Text: text})
			storetest.Must(t, err)
		}
		redact := func(id int64) {
			t.Helper()
			_, err := w.Redact(t.Context(), team, chat.Redaction{From: id, To: id})
			storetest.Must(t, err)
		}
		send("one")
		send("two")
		mustReadEvents(t, st, 2)
		at := st.eventID()
		st.Close(t.Context())
		redact(1)
		send("three")
		redact(3)
		st, err = h.Stream(t.Context(), w.id("bob"), at)
		storetest.Must(t, err)
		defer st.Close(t.Context())
		if got := mustReadEvents(t, st, 1); got != "3:(gone)map[]" {
			t.Errorf("after the reconnect %s", got)
		}
		redact(2)
		if got := mustReadEvents(t, st, 1); got != "-2" {
			t.Errorf("told %s", got)
		}
		page, err := w.Messages(t.Context(), team, chat.MessagesQuery{User: w.id("bob")})
		storetest.Must(t, err)
		for _, m := range page.Items {
			if !m.Redacted || m.Text != "" {
				t.Errorf("read again: %+v", m)
			}
		}
	})
}

// A message that was read from memory before it was redacted is followed by the redaction.
func TestC18_ARedactionDuringADelivery(t *testing.T) {
	t.Parallel()
	st := &Stream{marks: marks{wake: make(chan struct{}, 1)}}
	kept := &budget{}
	top := &topic{chat: "team", on: new(feed), known: true, epoch: "e", listeners: map[*Stream]struct{}{st: {}}}
	c := &cursor{topic: top, epoch: "e"}
	st.addCursor(c)
	top.receive("e 1 1700000000000 ann hi", kept)
	news, enough := top.after("e", 0, 10)
	if !enough || len(news) != 1 {
		t.Fatalf("%d messages, enough %v", len(news), enough)
	}
	if top.receive("e 1 1700000000000 ann ", kept) {
		t.Error("the topic is stale")
	}
	st.deliver(nil, c, news)                        // what was read before
	top.receive("other 1 1700000000000 ann ", kept) // of a chat of the same name
	events := st.tellRedacted(nil)
	if len(events) != 1 || events[0].Redacted.ID != 1 || events[0].Redacted.Chat != "team" {
		t.Errorf("told %+v", events)
	}
	if again, _ := top.after("e", 0, 10); len(again) != 1 || again[0].Text != "" || !again[0].Redacted || news[0].Text != "hi" {
		t.Errorf("in memory is %+v", again)
	}
	if want := int64(len("ann")); kept.used.Load() != want {
		t.Errorf("%d bytes are counted, want %d", kept.used.Load(), want)
	}
	// One that is not in memory, and one that this process has not heard of.
	c.position = 7
	top.drop(kept)
	if top.receive("e 1 1700000000000 ann ", kept) || !top.receive("e 7 1700000000000 ann ", kept) {
		t.Error("the topic is stale exactly if it has not heard of the message")
	}
	var ids []int64
	for _, e := range st.tellRedacted(nil) {
		ids = append(ids, e.Redacted.ID)
	}
	if !slices.Equal(ids, []int64{1, 7}) {
		t.Errorf("told of %v", ids)
	}
}
