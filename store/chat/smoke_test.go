package chat

import "testing"

func TestSmoke(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		w.mustSend("c", "alice", "hi")
		w.mustSend("c", "bob", "ho there\n{}")
		w.wantMembers("c", "alice@1 bob@0")
		w.wantRead("c", "bob", MessagesQuery{}, "1:hi 2:ho there\n{} first=1 last=2")
		w.wantPending("bob", "c:1[1:hi 2:ho there\n{}]")
		if a := w.mustAck("c", "bob", 1); a != 2 {
			t.Fatal(a)
		}
		w.wantChats("alice", "c:1/2@1")
		w.wantRead("c", "bob", MessagesQuery{}, "2:ho there\n{} first=2 last=2")
		w.mustLeave("c", "alice")
		w.wantRead("c", "bob", MessagesQuery{}, "first=3 last=2")
		if !w.mustJoin("c", "zoe", true) {
			t.Fatal("joined")
		}
		w.mustLeave("c", "bob")
		w.mustLeave("c", "zoe")
		if k := w.keysOf("c", "bob", "zoe", "alice"); len(k) > 0 {
			t.Fatal(k)
		}
	})
}
