package chat

import (
	"strings"
	"testing"

	"fanfare/store/storetest"
)

// C5, C9: who joins a long chat from the start finds his own messages of an earlier
// membership, however many scripts that takes; others write meanwhile. No script reads much
// more than a MiB.
func TestC5_OwnMessagesInALongChat(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		const rounds, text = 60, 16_000
		w.mustCreate("c", "alice", "bob")
		long := strings.Repeat("x", text)
		for range rounds {
			for _, sender := range []string{"alice", "bob", "alice"} {
				w.mustSend("c", sender, long)
			}
		}
		w.mustLeave("c", "bob")
		steps := 0
		joining := w.another(func(script string, answered bool) error {
			if script == "own_restore" && answered {
				steps++
				w.mustSend("c", "alice", "meanwhile")
			}
			return nil
		})
		joining.mustJoin("c", "bob", true)
		if least := 3 * rounds * text / (restoreBytes + 51*text); steps < least || steps > 10*least {
			t.Errorf("%d scripts searched the log, want some %d", steps, least)
		}
		c, err := w.Chat(t.Context(), w.id("c"), "")
		storetest.Must(t, err)
		unread := c.LastID - c.FirstID + 1 - rounds
		if chats, _, err := w.UserChats(t.Context(), w.id("bob"), "", 0); err != nil || chats[0].Unread != unread {
			t.Errorf("%+v unread, want %d (%v)", chats, unread, err)
		}
		if left := w.db.Client().PTTL(t.Context(), ownKey(w.id("c"), w.id("bob"))).Val(); left < w.o.MaxAge/2 {
			t.Errorf("what he sent is known for %v", left)
		}
	})
}

// C10: between the search and the join the chat ends and another one of its name begins:
// what he sent in the first does not count in the second.
func TestC5_OwnMessagesOfAnotherChat(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		for range 3 {
			w.mustSend("c", "bob", "mine")
		}
		w.mustLeave("c", "bob")
		joining := w.another(func(script string, answered bool) error {
			if script != "member_join" || answered {
				return nil
			}
			w.mustLeave("c", "alice")
			w.mustLeave("c", "carol")
			w.mustCreate("c", "alice", "carol")
			for range 4 {
				w.mustSend("c", "alice", "hers")
			}
			return nil
		})
		joining.mustJoin("c", "bob", true)
		w.wantChats("bob", "c:4/4@0")
	})
}
