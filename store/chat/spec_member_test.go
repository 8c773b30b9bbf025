package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fanfare/store/storetest"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
)

func TestC9_Join(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxMessages: 3}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		for i := range 5 {
			w.mustSend("c", "alice", fmt.Sprint("t", i+1))
		}
		if !w.mustJoin("c", "new", false) || !w.mustJoin("c", "reader", true) {
			t.Fatal("who was no member did not join")
		}
		w.wantMembers("c", "alice@5 bob@0 new@5 reader@2")
		w.wantPending("new", "")
		w.wantPending("reader", "c:3[3:t3 4:t4 5:t5]") // no false gap
		w.wantPending("bob", "c:3![3:t3 4:t4 5:t5]")

		w.mustAck("c", "reader", 4)
		joined := w.joinedAt("c")
		m, again, err := w.Join(t.Context(), w.id("c"), w.id("reader"), true)
		storetest.Must(t, err)
		if again || m.Acked != 4 || m.User != w.id("reader") || !strings.HasSuffix(joined, m.JoinedAt.String()) {
			t.Errorf("who joins again is %+v", m)
		}
		for _, fromStart := range []bool{true, false} {
			if w.mustJoin("c", "reader", fromStart) || w.mustJoin("c", "bob", fromStart) {
				t.Fatal("a member joined again")
			}
		}
		w.wantMembers("c", "alice@5 bob@0 new@5 reader@4")
		if later := w.joinedAt("c"); later != joined {
			t.Errorf("joined at %s, then %s", joined, later)
		}
		w.wantChats("reader", "c:1/5@4")

		_, _, err = w.Join(t.Context(), w.id("nowhere"), w.id("eve"), true)
		storetest.WantCode(t, err, api.CodeNotFound)
		if keys := w.keysOf("nowhere", "eve"); len(keys) > 0 || w.indexed("eve") != "" {
			t.Errorf("an unknown chat left %v, %q", keys, w.indexed("eve"))
		}
	})
}

func (w *world) joinedAt(chat string) string {
	w.t.Helper()
	list, err := w.Members(w.ctx(), w.id(chat), "", "", 0)
	storetest.Must(w.t, err)
	var out []string
	for _, m := range list {
		out = append(out, m.JoinedAt.String())
		if d := w.serverTime().Sub(m.JoinedAt.Time); d < -1e9 || d > testPatience {
			w.t.Errorf("%s joined %v ago", m.User, d)
		}
	}
	return strings.Join(out, " ")
}

// indexed writes the chats in a user's index as Redis has them.
func (w *world) indexed(user string) string {
	w.t.Helper()
	found, err := w.db.Client().ZRange(w.ctx(), indexKey(w.id(user)), 0, -1).Result()
	storetest.Must(w.t, err)
	return strings.ReplaceAll(strings.Join(found, " "), w.prefix, "")
}

func TestC10_Leave(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "slow")
		for i := range 6 {
			w.mustSend("c", "alice", fmt.Sprint("t", i+1))
		}
		w.mustAck("c", "bob", 4)
		w.mustLeave("c", "slow") // the slowest: what the others have seen goes
		w.wantRead("c", "bob", MessagesQuery{}, "5:t5 6:t6 first=5 last=6")
		_, err := w.read("c", "slow", MessagesQuery{})
		storetest.WantCode(t, err, api.CodeNotAMember)
		_, _, err = w.send("c", "slow", "x")
		storetest.WantCode(t, err, api.CodeNotAMember)
		w.wantPending("slow", "")
		w.wantChats("slow", "")
		for range 2 {
			w.mustLeave("c", "slow")
			w.mustLeave("c", "stranger")
			w.mustLeave("nowhere", "bob")
		}
		w.mustLeave("c", "alice") // her messages stay
		w.wantPending("bob", "c:2[5:t5 6:t6]")
		if w.indexed("alice")+w.indexed("slow") != "" {
			t.Errorf("those who left have chats: %q, %q", w.indexed("alice"), w.indexed("slow"))
		}
	})
}

func TestC10_TheLastToLeaveDeletesEveryKey(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		names := []string{"alice", "bob", "carol"}
		epoch := w.mustCreate("c", names...).Epoch
		for i := range 30 {
			sent := Outgoing{Chat: w.id("c"), Sender: w.id(names[i%3]), Text: "t", Push: true, Once: keyed(w.id(fmt.Sprint("k", i)), "t")}
			_, _, err := w.Send(t.Context(), sent)
			storetest.Must(t, err)
		}
		if n := len(w.keysOf("c", names...)); n != 8 {
			t.Fatalf("%d keys before; the test looks for the wrong ones: %v", n, w.keysOf("c", names...))
		}
		for _, user := range names {
			w.mustLeave("c", user)
		}
		if keys := w.keysOf("c", names...); len(keys) > 0 {
			t.Errorf("left behind: %v", keys)
		}
		w.wantNothingForEver("c", names...)
		again := w.mustCreate("c", "alice", "bob")
		if again.Epoch == epoch {
			t.Error("the same epoch again")
		}
		if id := w.mustSend("c", "alice", "hi"); id != 1 {
			t.Errorf("the first message has id %d", id)
		}
		w.wantPending("bob", "c:1[1:hi]")
	})
}

// wantNothingForEver looks through all of Redis: what mentions a chat has an end.
func (w *world) wantNothingForEver(chat string, members ...string) {
	w.t.Helper()
	if w.clustered {
		return // one node is enough
	}
	c := w.db.Client()
	keys, err := c.Keys(w.ctx(), "*").Result()
	storetest.Must(w.t, err)
	for _, key := range keys {
		if c.PTTL(w.ctx(), key).Val() < 0 || strings.Contains(key, w.id(chat)) {
			w.t.Errorf("%s stays for ever", key)
		}
	}
}

// However joins and leaves race, there is never a member without a chat nor a
// chat without members, and the indexes are right in the end.
func TestC10_LeaveAndJoinRacing(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		users := []string{"u1", "u2", "u3", "u4"}
		for round := range 25 {
			chat := fmt.Sprint("c", round)
			w.mustCreate(chat, users[0], users[1])
			var g errgroup.Group
			for i, user := range users {
				g.Go(func() error {
					if i%2 == 0 {
						return w.Leave(w.ctx(), w.id(chat), w.id(user))
					}
					_, _, err := w.Join(w.ctx(), w.id(chat), w.id(user), true)
					if api.CodeOf(err) == api.CodeNotFound {
						err = nil
					}
					return err
				})
				g.Go(func() error { return w.Leave(w.ctx(), w.id(chat), w.id(users[1])) })
			}
			storetest.Must(t, g.Wait())
			w.wantConsistent(chat, users...)
		}
	})
}

// wantConsistent checks that a chat has all its parts or none, and that every
// member's index has it. It returns the members.
func (w *world) wantConsistent(chat string, users ...string) []string {
	w.t.Helper()
	c, name := w.db.Client(), w.id(chat)
	inside := c.ZRange(w.ctx(), membersKey(name), 0, -1).Val()
	var joined []string
	for _, join := range c.ZRange(w.ctx(), joinsKey(name), 0, -1).Val() {
		joined = append(joined, strings.Fields(join)[0])
	}
	slices.Sort(inside)
	meta := c.Exists(w.ctx(), metaKey(name)).Val() == 1
	if !slices.Equal(inside, joined) || meta != (len(inside) > 0) {
		w.t.Fatalf("%s: there is a chat: %v, members %v, joins %v", chat, meta, inside, joined)
	}
	if keys := w.keysOf(chat, users...); !meta && len(keys) > 0 {
		w.t.Fatalf("%s is gone and left %v", chat, keys)
	}
	for _, user := range inside {
		if c.ZScore(w.ctx(), indexKey(user), name).Err() != nil {
			w.t.Fatalf("%s: the index of %s lacks it", chat, user)
		}
	}
	return inside
}

func TestC11_Create(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		hi := "hi"
		r := &api.ChatRequest{ID: w.id("c"), Creator: w.id("alice"), Members: w.ids("bob", "alice", "bob", "carol"), Message: &hi}
		c, _, err := w.Create(t.Context(), r, api.Idempotency{}, false)
		storetest.Must(t, err)
		if c.ID != r.ID || !slices.Equal(c.Members, w.ids("alice", "bob", "carol")) || c.Epoch == "" {
			t.Errorf("made %+v", c)
		}
		w.wantMembers("c", "alice@1 bob@0 carol@0")
		w.wantPending("bob", "c:1[1:hi]")
		w.wantPending("alice", "")
		_, _, err = w.Create(t.Context(), &api.ChatRequest{ID: r.ID, Creator: w.id("eve")}, api.Idempotency{}, false)
		storetest.WantCode(t, err, api.CodeConflict)
		if w.indexed("eve") != "" {
			t.Errorf("a refused creator has %q", w.indexed("eve"))
		}
		w.wantMembers("c", "alice@1 bob@0 carol@0")
		info, err := w.Chat(t.Context(), r.ID, "")
		storetest.Must(t, err)
		if info.Epoch != c.Epoch || info.LastID != 1 || info.FirstID != 1 || info.MemberCount != 3 || w.serverTime().Sub(info.CreatedAt.Time) > testPatience {
			t.Errorf("the chat is %+v", info)
		}
		_, err = w.Chat(t.Context(), w.id("nowhere"), "")
		storetest.WantCode(t, err, api.CodeNotFound)
	})
}

func TestC11_CreateIsIdempotent(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		hi := "hi"
		for _, id := range []string{"", w.id("given")} {
			r := &api.ChatRequest{ID: id, Creator: w.id("alice"), Members: w.ids("bob"), Message: &hi}
			once := keyed(w.id("key"+id), "body")
			first, replayed, err := w.Create(t.Context(), r, once, false)
			storetest.Must(t, err)
			again, replayedAgain, err := w.Create(t.Context(), r, once, false)
			storetest.Must(t, err)
			if replayed || !replayedAgain || first.ID != again.ID || first.Epoch != again.Epoch {
				t.Errorf("made %+v (replayed %v), then %+v (replayed %v)", first, replayed, again, replayedAgain)
			}
			other := &api.ChatRequest{ID: w.id("other" + id), Creator: w.id("alice")}
			_, _, err = w.Create(t.Context(), other, keyed(w.id("key"+id), "other body"), false)
			storetest.WantCode(t, err, api.CodeIdempotencyReused)
			_, err = w.Chat(t.Context(), other.ID, "")
			storetest.WantCode(t, err, api.CodeNotFound)
			for _, user := range w.ids("alice", "bob") { // a replay has no effect after the chat's end
				storetest.Must(t, w.Leave(t.Context(), first.ID, user))
			}
			after, replayed, err := w.Create(t.Context(), r, once, false)
			storetest.Must(t, err)
			if _, err := w.Chat(t.Context(), first.ID, ""); !replayed || after.Epoch != first.Epoch || api.CodeOf(err) != api.CodeNotFound {
				t.Errorf("after its end: %+v, replayed %v, chat %v", after, replayed, err)
			}
		}
		if w.indexed("alice")+w.indexed("bob") != "" {
			t.Errorf("chats that ended are in indexes: %q %q", w.indexed("alice"), w.indexed("bob"))
		}
	})
}

// A refusal does not use up the key.
func TestC11_ARefusedKeyMayWinLater(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice")
		_, _, err := w.Create(t.Context(), &api.ChatRequest{ID: w.id("c"), Creator: w.id("bob")}, keyed(w.id("k"), "1"), false)
		storetest.WantCode(t, err, api.CodeConflict)
		_, replayed, err := w.Create(t.Context(), &api.ChatRequest{ID: w.id("d"), Creator: w.id("bob")}, keyed(w.id("k"), "2"), false)
		storetest.Must(t, err)
		if replayed {
			t.Error("a first success is a replay")
		}
	})
}

func TestC11_AThousandMembers(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		names := make([]string, api.MaxChatMembers+1)
		for i := range names {
			names[i] = fmt.Sprintf("m%04d", i)
		}
		w.mustCreate("c", names...)
		var listed []string
		for last, more := "", true; more; {
			page, err := w.MemberNames(t.Context(), w.id("c"), last, 300)
			storetest.Must(t, err)
			listed = append(listed, page...)
			if more = len(page) == 300; more {
				last = page[299]
			}
		}
		if !slices.Equal(listed, w.ids(names...)) {
			t.Errorf("%d names listed, of %d", len(listed), len(names))
		}
		if w.indexed("m0777") != "c" {
			t.Errorf("the index of a member has %q", w.indexed("m0777"))
		}
		page, err := w.Members(t.Context(), w.id("c"), "", w.id("m0010"), 2)
		storetest.Must(t, err)
		if len(page) != 2 || page[0].User != w.id("m0011") || page[1].User != w.id("m0012") {
			t.Errorf("after m0010 come %+v", page)
		}
		nobody, err := w.MemberNames(t.Context(), w.id("nowhere"), "", 10)
		if err != nil || len(nobody) > 0 {
			t.Errorf("an unknown chat has %v, %v", nobody, err)
		}
	})
}

// C10: the answer to a leave is lost, the user joins again, and the client of Redis sends
// the leave once more: it ended the membership that was, not the new one.
func TestC10_ALeaveThatIsSentAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		for _, who := range []string{"bob", "stranger"} {
			joined := false
			leaving := w.another(func(script string, answered bool) error {
				if script != "member_leave" || !answered || joined {
					return nil
				}
				joined = true
				w.mustJoin("c", who, false)
				return storetest.ErrTwice
			})
			leaving.mustLeave("c", who)
			w.mustSend("c", who, "here again")

			if !strings.Contains(w.chats(who), "c:") {
				t.Errorf("%s has %q in his list", who, w.chats(who))
			}
			w.mustLeave("c", who) // another leave counts
			_, _, err := w.send("c", who, "gone")
			storetest.WantCode(t, err, api.CodeNotAMember)
		}
		// The same when there was no chat, and one is made meanwhile.
		made := false
		leaving := w.another(func(script string, answered bool) error {
			if script != "member_leave" || !answered || made {
				return nil
			}
			made = true
			w.mustCreate("later", "alice", "bob")
			return storetest.ErrTwice
		})
		leaving.mustLeave("later", "bob")
		w.mustSend("later", "bob", "still here")
	})
}

// A list of chats that has lost some: each is judged by itself, also when one can't be read.
func TestC10_AddMissingTellsWhatWasLeft(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		user := w.id("bob")
		all := w.ids("member", "left", "broken")
		for _, chat := range []string{"member", "left", "broken"} {
			w.mustCreate(chat, "ann", "bob")
		}
		w.mustLeave("left", "bob")
		for _, key := range []string{indexKey(user), metaKey(w.id("broken"))} {
			storetest.Must(t, w.db.Client().Del(t.Context(), key).Err())
		}
		storetest.Must(t, w.db.Client().RPush(t.Context(), metaKey(w.id("broken")), "not a string").Err())
		left, err := w.AddMissing(t.Context(), user, all)
		if err == nil || !slices.Equal(left, w.ids("left")) {
			t.Errorf("left %v, %v", left, err)
		}
		if listed := w.db.Client().ZRange(t.Context(), indexKey(user), 0, -1).Val(); !slices.Equal(listed, w.ids("member")) {
			t.Errorf("the list has %v", listed)
		}
	})
}
