package live

import (
	"testing"

	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// C10: who has left a chat gets nothing that is sent after it, also when his stream was
// busy with a slow Redis meanwhile and has not heard yet.
func TestC10_AStreamThatHasNotHeardOfALeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
	h, team := w.mustHub(), w.id("team")
	w.mustCreate("team", "ann", "bob")
	st, err := h.Stream(t.Context(), w.id("bob"), "")
	storetest.Must(t, err)
	defer st.Close(t.Context())
	_, err = st.Read(t.Context()) // its list of chats is of this moment
	storetest.Must(t, err)

	storetest.Must(t, w.Leave(t.Context(), team, w.id("bob")))
	_, _, err = w.Send(t.Context(), chat.Outgoing{Chat: team, Sender: w.id("ann"), Text: "without bob"})
	storetest.Must(t, err)
	top := h.topic(w.MessageChannel(team))
	storetest.Eventually(t, testPatience, "the message is in memory", func() bool {
		news, enough := top.after(st.cursor(team).epoch, 0, 1)
		return enough && len(news) == 1
	})
	dirty := map[string]struct{}{team: {}}
	events, reads := st.readMemory(nil, dirty)
	events, err = st.readLog(t.Context(), events, reads, dirty)
	storetest.Must(t, err)
	if len(events) > 0 || len(dirty) > 0 {
		t.Errorf("delivered %+v, and %v is left to do", events, dirty)
	}
	events, err = st.Read(t.Context())
	if err != nil || len(events) > 0 || st.cursor(team) != nil {
		t.Errorf("the stream goes on with the chat: %+v, %v", events, err)
	}
}

// C10: a leave comes on the channel of the chat's messages as well. On a Cluster the user's channel is on another
// connection and may be behind; here nothing at all comes on it.
func TestC10_ALeaveIsHeardBeforeTheMessagesAfterIt(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := newWorld(t, storetest.Open(t, server.URL()))
	h, team := w.mustHub(), w.id("team")
	w.mustCreate("team", "ann", "bob")
	mute := chat.New(storetest.Open(t, server.MustUser(t, "~*", "+@all", "&ff:live:chat:*")), chat.Options{})
	st, err := h.Stream(t.Context(), w.id("bob"), "")
	storetest.Must(t, err)
	defer st.Close(t.Context())
	_, err = st.Read(t.Context())
	storetest.Must(t, err)

	storetest.Must(t, mute.Leave(t.Context(), team, w.id("bob")))
	_, _, err = w.Send(t.Context(), chat.Outgoing{Chat: team, Sender: w.id("ann"), Text: "without bob"})
	storetest.Must(t, err)
	storetest.Eventually(t, testPatience, "the stream has left the chat", func() bool {
		events, err := st.Read(t.Context())
		storetest.Must(t, err)
		if len(events) > 0 {
			t.Fatalf("delivered %+v", events[0].Message)
		}
		return st.cursor(team) == nil
	})
}
