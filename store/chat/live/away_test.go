package live

import (
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// follower is a stream and what it has delivered.
type follower struct {
	*Stream
	t        *testing.T
	received []string
	last     string
}

func mustFollow(t *testing.T, h *Hub, user, lastEventID string) *follower {
	t.Helper()
	st, err := h.Stream(t.Context(), user, lastEventID)
	storetest.Must(t, err)
	t.Cleanup(func() { st.Close(t.Context()) })
	return &follower{Stream: st, t: t}
}

// await reads until all these have been delivered, and checks that nothing comes twice.
func (f *follower) await(want ...string) {
	f.t.Helper()
	late := time.After(2 * testPatience)
	for {
		if !slices.ContainsFunc(want, func(m string) bool { return !slices.Contains(f.received, m) }) {
			return
		}
		select {
		case <-f.Wake():
		case <-late:
			f.t.Fatalf("received %q, want %q", f.received, want)
		}
		events, err := f.Read(f.t.Context())
		storetest.Must(f.t, err)
		for _, e := range events {
			f.last = e.ID
			if e.Gap != nil {
				f.t.Errorf("a gap: %+v", e.Gap)
			}
			if e.Message == nil {
				continue
			}
			m := e.Message.Chat + " " + e.Message.Text
			if slices.Contains(f.received, m) {
				f.t.Errorf("%s comes twice", m)
			}
			f.received = append(f.received, m)
		}
	}
}

// C13: one master of a Cluster hangs. Streams that are open go on with the chats of the
// others, also through a join; streams can be opened; and the chats on it go on where the
// client left off when it is back.
func TestC13_OneMasterAway(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	for _, node := range cluster.Nodes { // the others go on
		storetest.Must(t, node.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	w := newWorld(t, storetest.Open(t, cluster.URL()))
	w.prefix = "" // where names go must be known
	away := cluster.Nodes[0]
	named := func(what string, on bool, key func(string) string) string {
		for n := 0; ; n++ {
			if name := fmt.Sprint(what, n); (cluster.MasterOf(t, key(name)) == away) == on {
				return name
			}
		}
	}
	meta := func(chat string) string {
		return fmt.Sprintf("ff:{chat:%03d}:meta:%s", crc32.ChecksumIEEE([]byte(chat))%256, chat)
	}
	index := func(user string) string { return "ff:{chats:" + user + "}:index" }
	gone, there, other := named("gone", true, meta), named("there", false, meta), named("other", false, meta)
	ann := named("ann", false, index)
	bob := ""
	for n := 0; bob == ""; n++ { // whose presence is on the master that is away
		if name := named(fmt.Sprint("bob", n, "."), false, index); cluster.MasterOf(t, PresenceKey(name)) == away {
			bob = name
		}
	}
	carl := named("carl", true, index) // the list of whose chats is there, too
	for _, chat := range []string{gone, there, other} {
		w.mustCreate(chat, ann, bob)
	}
	_, _, err := w.Join(t.Context(), there, carl, false)
	storetest.Must(t, err)
	for range 2 { // every master knows the scripts by now
		storetest.Must(t, w.Leave(t.Context(), other, bob))
		_, _, err = w.Join(t.Context(), other, bob, false)
		storetest.Must(t, err)
	}
	storetest.Must(t, w.Leave(t.Context(), other, bob))
	send := func(to, text string) {
		t.Helper()
		storetest.Eventually(t, testPatience, "it takes "+text, func() bool {
			_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: to, Sender: ann, Text: text})
			return err == nil
		})
	}
	h := w.mustHub()
	open, blind := mustFollow(t, h, bob, ""), mustFollow(t, h, carl, "")
	send(gone, "one")
	send(there, "one")
	open.await(gone+" one", there+" one")
	blind.await(there + " one")

	away.Pause()
	defer away.Resume()
	h.tick(time.Now().Add(rereadEvery)) // the lists are read again
	send(there, "two")
	open.await(there + " two")
	blind.await(there + " two")
	_, _, err = w.Join(t.Context(), other, bob, false)
	storetest.Must(t, err)
	send(other, "here too")
	open.await(other + " here too")

	again := mustFollow(t, h, bob, open.last)
	send(there, "three")
	again.await(there + " three")
	open.await(there + " three")
	third := mustFollow(t, h, bob, again.last) // goes on where the second was to
	away.Resume()
	send(gone, "two")
	for _, f := range []*follower{open, again, third} {
		f.await(gone + " two")
	}
	if n := slices.Index(again.received, gone+" one"); n >= 0 {
		t.Errorf("delivered before: %q", again.received)
	}
	if want := []string{gone + " two"}; !slices.Equal(third.received, want) {
		t.Errorf("received %q, want %q", third.received, want)
	}
}
