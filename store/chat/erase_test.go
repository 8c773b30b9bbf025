package chat

import (
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// E5: an erased user leaves all chats joined before, also those that the index has lost, and stays
// in those joined since.
func TestE5_AnErasedUserLeavesAllChats(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		ann, index := w.id("ann"), indexKey(w.id("ann"))
		w.mustCreate("old", "ann", "bob")
		w.mustCreate("alone", "ann")
		w.mustCreate("lost", "ann", "bob")
		w.mustCreate("again", "ann", "bob")
		w.mustCreate("fresh", "bob")
		storetest.Must(t, w.db.Client().ZRem(w.ctx(), index, w.id("lost")).Err())
		storetest.Must(t, w.db.Client().ZAdd(w.ctx(), index, zed(1, w.id("stale"))).Err())
		until := time.Now().Truncate(time.Millisecond)
		storetest.Eventually(t, testPatience, "a later moment", func() bool { return time.Since(until) > 2*time.Millisecond })
		w.mustLeave("again", "ann")
		w.mustJoin("again", "ann", false)
		w.mustJoin("fresh", "ann", false)
		for n, want := range []int64{2, 0} {
			if left, err := w.LeaveAll(w.ctx(), ann, until); err != nil || left != want {
				t.Errorf("round %d: left %d, %v", n, left, err)
			}
		}
		for n, want := range []int64{1, 0} {
			if left, err := w.LeaveUnlisted(w.ctx(), ann, until, w.ids("old", "lost", "fresh", "again", "nowhere")...); err != nil || left != want {
				t.Errorf("unlisted, round %d: left %d, %v", n, left, err)
			}
		}
		w.wantMembers("old", "bob@0")
		w.wantMembers("lost", "bob@0")
		w.wantMembers("again", "ann@0 bob@0")
		w.wantMembers("fresh", "ann@0 bob@0")
		if info, _, err := w.readChat(w.ctx(), w.id("alone"), ""); err != nil || info != nil {
			t.Errorf("the chat without members is there: %+v, %v", info, err)
		}
		if n := w.db.Client().ZCard(w.ctx(), index).Val(); n != 2 {
			t.Errorf("the index has %d chats, want 2", n)
		}
	})
}

// E5: messages of an erased user lose text and sender, also in chats that the user has left and in
// long logs; ids and positions stay, and so do messages of others and newer ones.
func TestE5_MessagesOfAnErasedUser(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		const text = "a secret text"
		w.mustCreate("team", "ann", "bob", "ann2")
		w.mustSend("team", "ann", text)
		for range eraseStep {
			w.mustSend("team", "bob", "of bob")
		}
		w.mustSend("team", "ann2", "of ann2")
		w.mustSend("team", "ann", text)
		w.mustLeave("team", "ann")
		until := time.Now().Truncate(time.Millisecond)
		storetest.Eventually(t, testPatience, "a later moment", func() bool { return time.Since(until) > 2*time.Millisecond })
		w.mustJoin("team", "ann", false)
		w.mustSend("team", "ann", "new")
		for n, want := range []int64{2, 0} {
			if changed, err := w.EraseMessages(w.ctx(), w.id("team"), w.id("ann"), until); err != nil || changed != want {
				t.Errorf("round %d: %d changed, %v", n, changed, err)
			}
		}
		if n, err := w.EraseMessages(w.ctx(), w.id("nowhere"), w.id("ann"), until); err != nil || n != 0 {
			t.Errorf("in no chat: %d, %v", n, err)
		}
		last := int64(eraseStep + 4)
		first := w.mustRead("team", "bob", MessagesQuery{After: after(0), Limit: 2})
		end := w.mustRead("team", "bob", MessagesQuery{After: after(last - 3), Limit: 10})
		if first.LastID != last || first.Gap || first.Items[0].ID != 1 || first.Items[0].Text != "" || first.Items[0].Sender != "" || first.Items[1].Text != "of bob" {
			t.Errorf("the log begins with %+v", first)
		}
		if m := end.Items; len(m) != 3 || m[0].Sender != w.id("ann2") || m[1].ID != last-1 || m[1].Text != "" || m[1].Sender != "" || m[1].SentAt.IsZero() || m[2].Text != "new" || m[2].Sender != w.id("ann") {
			t.Errorf("the log ends with %+v", m)
		}
		for _, entry := range w.db.Client().LRange(w.ctx(), logKey(w.id("team")), 0, -1).Val() {
			if strings.Contains(entry, text) {
				t.Errorf("the log has %q", entry)
			}
		}
	})
}
