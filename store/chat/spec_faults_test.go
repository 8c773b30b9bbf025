package chat

import (
	"fmt"
	"slices"
	"testing"

	"fanfare/store/storetest"

	"fanfare/api"
)

// The faults of group chat as textbooks have it, each of which would show here.

func TestC15_FetchingDoesNotMarkAsRead(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustSend("c", "alice", "hi")
		for range 3 { // the answer was lost: ask again
			w.wantPending("bob", "c:1[1:hi]")
			w.wantRead("c", "bob", MessagesQuery{}, "1:hi first=1 last=1")
		}
	})
}

// There is one copy of a position, so that no two can differ.
func TestC15_OneCopyOfAPosition(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustSend("c", "alice", "hi")
		w.mustSend("c", "alice", "ho")
		was := w.db.Client().ZScore(t.Context(), indexKey(w.id("bob")), w.id("c")).Val()
		w.mustAck("c", "bob", 1)
		if is := w.db.Client().ZScore(t.Context(), indexKey(w.id("bob")), w.id("c")).Val(); is != was {
			t.Errorf("the index has a copy: %v became %v", was, is)
		}
		// Whatever a lost or old index says, the chat's copy counts.
		storetest.Must(t, w.db.Client().Del(t.Context(), indexKey(w.id("bob"))).Err())
		w.mustAck("c", "bob", 1)
		w.wantChats("bob", "c:1/2@1")
	})
}

func TestC15_JoiningAgainKeepsWhatIsUnread(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustSend("c", "alice", "hi")
		w.mustJoin("c", "bob", false)
		w.wantPending("bob", "c:1[1:hi]")
	})
}

func TestC15_LeavingTrimsTheRightLog(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		for _, chat := range []string{"c", "c:log", "c:own", "log", "meta", "bob"} { // names that look like keys
			w.mustCreate(chat, "alice", "bob", "carol", "log", "c")
			for i := range 4 {
				w.mustSend(chat, "alice", fmt.Sprint("t", i+1))
			}
			for _, user := range []string{"carol", "log", "c"} {
				w.mustAck(chat, user, 3)
			}
		}
		w.mustLeave("c", "bob")
		w.wantRead("c", "carol", MessagesQuery{}, "4:t4 first=4 last=4")
		for _, chat := range []string{"c:log", "c:own", "log", "meta", "bob"} {
			w.wantRead(chat, "bob", MessagesQuery{Limit: 1}, "1:t1 first=1 last=4")
		}
	})
}

func TestC15_TheLastLeaveDoesNotRestartIDsUnseen(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		epoch := w.mustCreate("c", "alice", "bob").Epoch
		for range 5 {
			w.mustSend("c", "alice", "hi")
		}
		w.mustLeave("c", "bob")
		w.mustLeave("c", "alice")
		_, _, err := w.send("c", "alice", "hi")
		storetest.WantCode(t, err, api.CodeNotFound)
		w.mustCreate("c", "alice", "bob")
		for range 7 {
			w.mustSend("c", "bob", "ho")
		}
		// A reader who knows message 5 of the first chat is told, though there is a 6.
		if m := w.mustRead("c", "alice", MessagesQuery{After: after(5), Epoch: epoch}); !m.Gap {
			t.Errorf("no gap: %s", show(m))
		}
	})
}

func TestC15_NothingIsMadeForAnUnknownChat(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		count := func() int {
			if w.clustered {
				return len(w.keysOf("nowhere", "bob"))
			}
			return int(w.db.Client().DBSize(t.Context()).Val())
		}
		before := count()
		_, _, err := w.Send(t.Context(), Outgoing{Chat: w.id("nowhere"), Sender: w.id("bob"), Text: "hi", Push: true, Once: keyed("k", "hi")})
		storetest.WantCode(t, err, api.CodeNotFound)
		_, err = w.ack("nowhere", "bob", 0)
		storetest.WantCode(t, err, api.CodeNotFound)
		_, err = w.read("nowhere", "bob", MessagesQuery{})
		storetest.WantCode(t, err, api.CodeNotFound)
		_, _, err = w.Join(t.Context(), w.id("nowhere"), w.id("bob"), true)
		storetest.WantCode(t, err, api.CodeNotFound)
		_, err = w.Members(t.Context(), w.id("nowhere"), "", "", 0)
		storetest.WantCode(t, err, api.CodeNotFound)
		_, err = w.PushMessages(t.Context(), w.id("nowhere"), 1)
		storetest.WantCode(t, err, api.CodeNotFound)
		storetest.Must(t, w.PushDone(t.Context(), w.id("nowhere"), "epoch", 1))
		if after := count(); after != before {
			t.Errorf("%d keys became %d", before, after)
		}
		w.mustLeave("nowhere", "bob") // nothing but the record of the call
		if after := count(); after > before+1 {
			t.Errorf("a leave made %d keys of %d", after, before)
		}
	})
}

// There is no lock that could end in mid-send: a sender that is held up between
// its commands has only one, and ids are in the order in which they are seen.
func TestC15_NoLockThatEndsInMidSend(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		commands, held := 0, make(chan struct{})
		slow := w.another(func(name string, answered bool) error {
			if !answered && name != "zmscore" { // which reads the sender's index beside
				commands++
				<-held
			}
			return nil
		})
		done := make(chan int64)
		go func() {
			sent, _, err := slow.send("c", "alice", "slow")
			if err != nil {
				t.Error(err)
				sent = &api.ChatMessageSent{}
			}
			done <- sent.ID
		}()
		for i := range 3 {
			if id := w.mustSend("c", "bob", "fast"); id != int64(i+1) {
				t.Errorf("fast has id %d", id)
			}
		}
		close(held)
		if id := <-done; id != 4 || commands != 1 {
			t.Errorf("slow has id %d after %d commands", id, commands)
		}
		got := showItems(w.mustRead("c", "carol", MessagesQuery{}).Items)
		if !slices.Equal(got, []string{"1:fast", "2:fast", "3:fast", "4:slow"}) {
			t.Errorf("got %v", got)
		}
	})
}
