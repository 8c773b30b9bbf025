package chat

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestC4_PendingAgainIsTheSame(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("a", "alice", "bob")
		w.mustCreate("b", "alice", "bob")
		w.mustCreate("c", "alice", "bob")
		for i := range 120 {
			w.mustSend("a", "alice", fmt.Sprint("t", i+1))
		}
		w.mustSend("c", "alice", "x")
		want := "a:120[1:t1 2:t2 3:t3] c:1[1:x]"
		for range 2 {
			if got := w.pending("bob", 3); got != want {
				t.Fatalf("pending is %q, want %q", got, want)
			}
		}
		if n := strings.Count(w.pending("bob", 0), "t"); n != api.DefaultPageSize {
			t.Errorf("%d messages of one chat by default", n)
		}
		var got []string // pages to the end, each acknowledged
		for range 120/7 + 1 {
			p, err := w.Pending(t.Context(), w.id("bob"), 7)
			storetest.Must(t, err)
			got = append(got, showItems(p.Chats[0].Items)...)
			w.mustAck("a", "bob", p.Chats[0].Items[len(p.Chats[0].Items)-1].ID)
		}
		if len(got) != 120 || got[119] != "120:t120" || !slices.IsSortedFunc(got, byID) {
			t.Errorf("the pages have %d messages: %v", len(got), got)
		}
		w.wantPending("bob", "c:1[1:x]")
	})
}

func byID(a, b string) int {
	var x, y int
	fmt.Sscan(strings.Split(a, ":")[0], &x)
	fmt.Sscan(strings.Split(b, ":")[0], &y)
	return x - y
}

func TestC4_OneChatsFailureIsItsOwn(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		for _, chat := range []string{"a", "b", "c"} {
			w.mustCreate(chat, "alice", "bob")
			w.mustSend(chat, "alice", "hi")
		}
		storetest.Must(t, w.db.Client().Del(t.Context(), logKey(w.id("b"))).Err())
		storetest.Must(t, w.db.Client().Set(t.Context(), logKey(w.id("b")), "not a list", 0).Err())
		w.wantPending("bob", "a:1[1:hi] b:0?internal[] c:1[1:hi]")
		list, _, err := w.UserChats(t.Context(), w.id("bob"), "", 0)
		if err != nil || len(list) != 3 || list[1].Error == nil || list[0].Error != nil || list[2].Error != nil {
			t.Errorf("the list of chats is %+v, %v", list, err)
		}
	})
}

// Long messages do not make an answer without bound, and every chat is there.
func TestC4_LongMessagesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	long := strings.Repeat("🎉", 4000)
	const chats = 100
	var g errgroup.Group
	g.SetLimit(8)
	for i := range chats {
		g.Go(func() error {
			w.mustCreate(fmt.Sprint("c", i), "alice", "bob")
			for range 30 {
				if _, _, err := w.send(fmt.Sprint("c", i), "alice", long); err != nil {
					return err
				}
			}
			return nil
		})
	}
	storetest.Must(t, g.Wait())
	p, err := w.Pending(t.Context(), w.id("bob"), 500)
	storetest.Must(t, err)
	bytes := 0
	for _, c := range p.Chats {
		if c.Unread != 30 {
			t.Fatalf("%s has %d unread", c.ID, c.Unread)
		}
		bytes += len(c.Items) * len(long)
	}
	if len(p.Chats) != chats || bytes > answerBytes || bytes < answerBytes/2 || !p.More {
		t.Errorf("%d chats, %d bytes, more: %t", len(p.Chats), bytes, p.More)
	}
	again, err := w.Pending(t.Context(), w.id("bob"), 500)
	storetest.Must(t, err)
	if !reflect.DeepEqual(again, p) {
		t.Error("a second call has another answer")
	}
}

// C4: whoever acknowledges what came reads everything, also if no two chats fit into one answer.
// Control characters take six bytes each in an answer.
func TestC4_PendingReachesTheEndOfLongMessages(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		const chats, each = 3, 40
		long := strings.Repeat("\x01", 4000)
		for i := range chats {
			w.mustCreate(fmt.Sprint("c", i), "alice", "bob")
			for range each {
				w.mustSend(fmt.Sprint("c", i), "alice", long)
			}
		}
		seen := map[string]int64{}
		for calls := 0; ; calls++ {
			p, err := w.Pending(t.Context(), w.id("bob"), 500)
			storetest.Must(t, err)
			if len(p.Chats) == 0 {
				break
			}
			size := 0
			for _, c := range p.Chats {
				size += len(c.Items) * 6 * len(long)
				for i, m := range c.Items {
					if m.ID != seen[c.ID]+int64(i)+1 {
						t.Fatalf("message %d after %d", m.ID, seen[c.ID])
					}
				}
				if n := len(c.Items); n > 0 {
					seen[c.ID] = c.Items[n-1].ID
					_, err := w.Ack(t.Context(), w.id("bob"), map[string]int64{c.ID: seen[c.ID]}, nil)
					storetest.Must(t, err)
				}
			}
			if size == 0 || size > answerBytes || calls > 2*chats*each {
				t.Fatalf("call %d has %d bytes", calls, size)
			}
		}
		for chat, last := range seen {
			if last != each {
				t.Errorf("%s ends at %d", chat, last)
			}
		}
	})
}

// mustCreateMany makes chats c0... of alice and bob, with a message of alice.
func (w *world) mustCreateMany(chats int) {
	w.t.Helper()
	var g errgroup.Group
	g.SetLimit(64)
	for i := range chats {
		g.Go(func() error {
			hi := "hi"
			_, _, err := w.Create(w.ctx(), &api.ChatRequest{ID: w.id(fmt.Sprint("c", i)), Creator: "alice", Members: []string{"bob"}, Message: &hi}, api.Idempotency{}, false)
			return err
		})
	}
	storetest.Must(w.t, g.Wait())
}

// More chats than one pipeline reads.
func TestC4_ThousandsOfChats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	const chats = 2*indexChunk + 5
	w.mustCreateMany(chats)
	p, err := w.Pending(t.Context(), "bob", 1)
	storetest.Must(t, err)
	seen := map[string]bool{}
	for _, c := range p.Chats {
		seen[c.ID] = true
	}
	positions, err := w.Positions(t.Context(), "bob")
	storetest.Must(t, err)
	if len(p.Chats) != chats || len(seen) != chats || len(positions) != chats {
		t.Errorf("%d pending, %d different, %d positions; want %d", len(p.Chats), len(seen), len(positions), chats)
	}
}

// Between two pipelines a user leaves the chat that the first one ended with and
// joins it again: all the others are there, once.
func TestC4_TheLastChatOfAPipelineMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	const chats = indexChunk + 5
	w.mustCreateMany(chats)
	check := func(what string, list func(*Store) ([]string, error)) {
		t.Helper()
		index, err := w.db.Client().ZRange(t.Context(), indexKey("bob"), 0, -1).Result()
		storetest.Must(t, err)
		last, moved := index[indexChunk-1], false
		found, err := list(w.another(func(script string, answered bool) error {
			if script != "index_page" || !answered || moved {
				return nil
			}
			moved = true
			if err := w.Leave(t.Context(), last, "bob"); err != nil {
				return err
			}
			if _, _, err := w.Join(t.Context(), last, "bob", false); err != nil {
				return err
			}
			_, _, err := w.Send(t.Context(), Outgoing{Chat: last, Sender: "alice", Text: "there again"})
			return err
		}).Store)
		storetest.Must(t, err)
		times := map[string]int{}
		for _, chat := range found {
			times[chat]++
		}
		for _, chat := range index {
			if times[chat] != 1 && chat != last {
				t.Errorf("%s: %s came %d times", what, chat, times[chat])
			}
		}
		if times[last] == 0 {
			t.Errorf("%s: %s is missing, where he was a member before and afterwards", what, last)
		}
	}
	check("pending", func(s *Store) (chats []string, err error) {
		p, err := s.Pending(t.Context(), "bob", 1)
		if err != nil {
			return nil, err
		}
		for _, c := range p.Chats {
			chats = append(chats, c.ID)
		}
		return chats, nil
	})
	check("positions", func(s *Store) (chats []string, err error) {
		positions, err := s.Positions(t.Context(), "bob")
		for _, p := range positions {
			chats = append(chats, p.Chat)
		}
		return chats, err
	})
}

// Joins that met in one microsecond are in the order of their names: a page
// ends between them and goes on right there, also when its last chat is gone.
func TestC4_ChatsOfOneMicrosecond(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		key, names := indexKey(w.id("bob")), []string{"B", "a", "b", "c", "d", "e"} // in the order of bytes
		for _, name := range names {
			storetest.Must(t, w.db.Client().ZAdd(t.Context(), key, zed(5, name)).Err())
		}
		storetest.Must(t, w.db.Client().ZAdd(t.Context(), key, zed(6, "A")).Err())
		for limit := 1; limit <= len(names)+1; limit++ {
			for _, gone := range append(names, "") {
				storetest.Must(t, w.db.Client().ZRem(t.Context(), key, gone).Err())
				for _, last := range names {
					p, err := w.readPage(t.Context(), w.id("bob"), "5 "+last, limit)
					storetest.Must(t, err)
					want := slices.DeleteFunc(append(slices.Clone(names), "A"), func(n string) bool { return n == gone || n <= last && n != "A" })
					want = want[:min(limit, len(want))]
					if got := fmt.Sprint(p.entries); got != fmt.Sprint(entriesOf(want)) {
						t.Errorf("%d after %s, without %q: %s, want %v", limit, last, gone, got, entriesOf(want))
					}
				}
				if gone != "" {
					storetest.Must(t, w.db.Client().ZAdd(t.Context(), key, zed(5, gone)).Err())
				}
			}
		}
	})
}

func entriesOf(names []string) (entries []entry) {
	for _, name := range names {
		stamp := int64(5)
		if name == "A" {
			stamp = 6
		}
		entries = append(entries, entry{name, stamp})
	}
	return entries
}

func TestC6_AfterBeforeLimit(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		for i := range 9 {
			w.mustSend("c", "alice", string(rune('a'+i)))
		}
		for name, c := range map[string]struct {
			q    MessagesQuery
			want string
		}{
			"neither":     {MessagesQuery{Limit: 2}, "1:a 2:b"},
			"after":       {MessagesQuery{After: after(3), Limit: 2}, "4:d 5:e"},
			"after 0":     {MessagesQuery{After: after(0), Limit: 1}, "1:a"},
			"after last":  {MessagesQuery{After: after(9)}, ""},
			"before":      {MessagesQuery{Before: before(5), Limit: 2}, "3:c 4:d"},
			"before 1":    {MessagesQuery{Before: before(1)}, ""},
			"before many": {MessagesQuery{Before: before(1000), Limit: 2}, "8:h 9:i"},
			"both":        {MessagesQuery{After: after(2), Before: before(8), Limit: 3}, "5:e 6:f 7:g"},
			"between":     {MessagesQuery{After: after(4), Before: before(6)}, "5:e"},
			"nothing":     {MessagesQuery{After: after(4), Before: before(5)}, ""},
		} {
			if got := strings.Join(showItems(w.mustRead("c", "bob", c.q).Items), " "); got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
		for range 600 {
			w.mustSend("c", "alice", "x")
		}
		for limit, want := range map[int]int{0: 50, 1: 1, 500: 500, 501: 500} {
			if got := len(w.mustRead("c", "bob", MessagesQuery{Limit: limit}).Items); got != want {
				t.Errorf("limit %d gives %d messages", limit, got)
			}
		}
	})
}

func TestC6_ManyReadsInOnePipeline(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("a", "alice", "bob")
		w.mustCreate("b", "alice")
		w.mustSend("a", "alice", "hi")
		w.mustSend("a", "alice", "ho")
		found, err := w.ReadMany(t.Context(), w.id("bob"), []Read{
			{w.id("a"), MessagesQuery{After: after(1)}}, {w.id("b"), MessagesQuery{}}, {w.id("c"), MessagesQuery{}},
		})
		storetest.Must(t, err)
		storetest.Must(t, found[0].Err)
		if got := show(found[0].Messages); got != "2:ho first=1 last=2" {
			t.Errorf("got %q", got)
		}
		storetest.WantCode(t, found[1].Err, api.CodeNotAMember)
		storetest.WantCode(t, found[2].Err, api.CodeNotFound)
	})
}

func TestC7_AReaderIsToldOfAGap(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxMessages: 3}, func(t *testing.T, w *world) {
		epoch := w.mustCreate("c", "alice", "bob").Epoch
		w.wantRead("c", "bob", MessagesQuery{After: after(0), Epoch: epoch}, "first=1 last=0")
		for i := range 5 {
			w.mustSend("c", "alice", fmt.Sprint("t", i+1))
		}
		kept := "3:t3 4:t4 5:t5 first=3 last=5"
		w.wantRead("c", "bob", MessagesQuery{After: after(1)}, kept+" gap")
		w.wantRead("c", "bob", MessagesQuery{After: after(2)}, kept)
		w.wantRead("c", "bob", MessagesQuery{Epoch: epoch}, kept)
		w.wantRead("c", "bob", MessagesQuery{}, kept)
		w.wantRead("c", "bob", MessagesQuery{Epoch: "another"}, kept+" gap")
		w.wantRead("c", "bob", MessagesQuery{After: after(5)}, "first=3 last=5")
		w.wantRead("c", "bob", MessagesQuery{After: after(6)}, "first=3 last=5 gap")
		w.wantPending("bob", "c:3![3:t3 4:t4 5:t5]")
		w.mustAck("c", "bob", 5) // all have seen all: the log is empty
		w.wantRead("c", "bob", MessagesQuery{After: after(4)}, "first=6 last=5 gap")
		w.wantRead("c", "bob", MessagesQuery{After: after(5), Epoch: epoch}, "first=6 last=5")
		w.mustLeave("c", "alice")
		w.mustLeave("c", "bob")
		if again := w.mustCreate("c", "alice", "bob").Epoch; again == epoch || len(again) < 22 {
			t.Errorf("the epoch of another chat is %q, before %q", again, epoch)
		}
		w.wantRead("c", "bob", MessagesQuery{After: after(0), Epoch: epoch}, "first=1 last=0 gap")
	})
}

func TestC8_WhatAllHaveSeenGoes(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		for i := range 6 {
			w.mustSend("c", "alice", fmt.Sprint("t", i+1))
		}
		w.mustAck("c", "bob", 4)
		w.wantRead("c", "bob", MessagesQuery{Limit: 1}, "1:t1 first=1 last=6")
		w.mustAck("c", "carol", 3)
		w.wantRead("c", "bob", MessagesQuery{Limit: 1}, "4:t4 first=4 last=6")
		w.wantLog("c", 3)
		w.mustAck("c", "carol", 6)
		w.mustAck("c", "bob", 6)
		w.wantLog("c", 0)
		if id := w.mustSend("c", "bob", "t7"); id != 7 {
			t.Errorf("after an empty log comes %d", id)
		}
	})
}

// A log that was emptied and begins anew has an end again, however soon.
func TestC8_EveryLogHasAnEnd(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxAge: time.Hour}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		for range 20 {
			w.mustAck("c", "bob", w.mustSend("c", "alice", "hi"))
			w.wantLog("c", 0)
			w.mustSend("c", "alice", "ho")
			w.mustSend("c", "bob", "ho")
			for _, key := range []string{logKey(w.id("c")), ownKey(w.id("c"), w.id("bob"))} {
				if ttl := w.db.Client().PTTL(t.Context(), key).Val(); ttl <= time.Hour-testPatience || ttl > time.Hour+2*time.Second {
					t.Fatalf("%s ends in %v", key, ttl)
				}
			}
			w.mustAck("c", "bob", w.mustSend("c", "bob", "ho"))
			w.mustAck("c", "alice", w.mustSend("c", "bob", "ho"))
		}
	})
}

// wantLog checks how many messages Redis has.
func (w *world) wantLog(chat string, want int64) {
	w.t.Helper()
	if n := w.db.Client().LLen(w.ctx(), logKey(w.id(chat))).Val(); n != want {
		w.t.Fatalf("the log of %s has %d messages, want %d", chat, n, want)
	}
}

func TestC8_OneSilentMemberDoesNotKeepEverything(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{MaxMessages: 10}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "silent")
		for i := range 100 {
			w.mustSend("c", "alice", fmt.Sprint(i))
			w.mustSend("c", "bob", fmt.Sprint(i))
			w.mustAck("c", "alice", int64(2*i+2))
		}
		w.wantLog("c", 10)
		w.wantChats("silent", "c:10/200@0")
		w.wantChats("bob", "c:5/200@0") // bob never acknowledged: half of what is kept is his own
		if n := w.db.Client().ZCard(t.Context(), ownKey(w.id("c"), w.id("bob"))).Val(); n != 5 {
			t.Errorf("%d own ids of bob are kept", n)
		}
		w.mustAck("c", "bob", 200)
		if k := w.keysOf("c", "bob"); slices.Contains(k, ownKey(w.id("c"), w.id("bob"))) {
			t.Errorf("own ids below the position are kept: %v", k)
		}
	})
}

// When the limit is lowered, readers see it at once; the log follows piece by
// piece.
func TestC8_TrimmingIsBounded(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		for i := range 100 {
			w.mustSend("c", "alice", fmt.Sprint("t", i+1))
		}
		w.o.MaxMessages = 5
		w.wantRead("c", "bob", MessagesQuery{Limit: 1}, "96:t96 first=96 last=100")
		w.wantChats("bob", "c:5/100@0")
		w.wantLog("c", 100)
		for i, left := range []int64{69, 38, 7, 5, 5} {
			w.mustSend("c", "alice", "x")
			w.wantLog("c", left)
			w.o.MaxMessages = 1000 // what was out of sight stays so
			w.wantRead("c", "bob", MessagesQuery{After: after(int64(100 + i))}, fmt.Sprintf("%d:x first=%d last=%d", 101+i, 97+i, 101+i))
			w.o.MaxMessages = 5
		}
	})
}

// serverTime is by Redis' clock, like all ages.
func (w *world) serverTime() time.Time {
	w.t.Helper()
	at, err := w.db.Client().Time(w.ctx()).Result()
	storetest.Must(w.t, err)
	return at
}

func TestC8_OldMessagesAreNotShownInASilentChat(t *testing.T) {
	t.Parallel()
	const age = 700 * time.Millisecond
	eachWorld(t, Options{MaxAge: age}, func(t *testing.T, w *world) {
		epoch := w.mustCreate("c", "alice", "bob", "carol").Epoch
		for i := range 40 {
			w.mustSend("c", "alice", fmt.Sprint("t", i+1))
		}
		w.mustAck("c", "bob", 2)
		storetest.Eventually(t, testPatience, "half an age", func() bool { return w.mustOld("c", 40, age/2) })
		newer := w.serverTime()
		for i := range 5 {
			w.mustSend("c", "carol", fmt.Sprint("n", i+1))
		}
		seen := false
		storetest.Eventually(t, testPatience, "the first 40 are out of sight", func() bool {
			now := w.serverTime()
			m := w.mustRead("c", "bob", MessagesQuery{})
			for _, i := range m.Items {
				if old := now.Sub(i.SentAt.Time); old > age+time.Millisecond {
					t.Fatalf("message %d is shown at an age of %v", i.ID, old)
				}
			}
			seen = seen || m.FirstID == 41 && len(m.Items) == 5
			return m.FirstID > 40
		})
		if !seen && w.serverTime().Sub(newer) < age {
			t.Error("the newer five went with the others")
		}
		storetest.Eventually(t, testPatience, "all are out of sight before the log ends", func() bool {
			m := w.mustRead("c", "bob", MessagesQuery{})
			if len(m.Items) > 0 && w.serverTime().Sub(newer) > 2*age {
				t.Fatalf("shown in a silent chat: %s", show(m))
			}
			return len(m.Items) == 0
		})
		storetest.Eventually(t, testPatience, "the log ends by itself", func() bool {
			return len(w.keysOf("c", "alice", "bob", "carol")) == 3
		})
		w.wantRead("c", "bob", MessagesQuery{After: after(2), Epoch: epoch}, "first=46 last=45 gap")
		w.wantMembers("c", "alice@40 bob@2 carol@0") // positions and ids go on
		w.wantChats("bob", "c:0/45@2")
		w.wantPending("bob", "")
		if id := w.mustSend("c", "alice", "again"); id != 46 {
			t.Errorf("after a log that ended comes %d", id)
		}
		w.wantPending("bob", "c:1![46:again]")
	})
}

// mustOld reports whether a message, or nothing any more, is that old.
func (w *world) mustOld(chat string, id int64, age time.Duration) bool {
	w.t.Helper()
	m := w.mustRead(chat, "bob", MessagesQuery{After: after(id - 1), Limit: 1})
	return len(m.Items) == 0 || w.serverTime().Sub(m.Items[0].SentAt.Time) >= age
}

// Times never decrease, so that ages can be looked for: also when the clock of a
// new master is behind.
func TestC8_TimesNeverDecrease(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := newWorld(t, db, Options{})
		w.mustCreate("c", "alice", "bob")
		ahead := w.serverTime().Add(time.Hour).UnixMilli()
		w.setMeta("c", map[int]int64{metaAt: ahead})
		w.mustSend("c", "alice", "hi")
		sent, _, err := w.send("c", "alice", "ho")
		storetest.Must(t, err)
		if sent.SentAt.UnixMilli() != ahead {
			t.Errorf("sent at %v, the one before it at %d", sent.SentAt, ahead)
		}
	})
}

// A page of long messages ends before its limit, and following pages have the rest.
func TestC6_PagesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("a", "alice", "bob")
		long := strings.Repeat("🎉", 4000)
		sent := int64(150)
		if w.db.Embedded() {
			sent = 70 // still more than a page; long texts take it many times as long
		}
		for range sent {
			w.mustSend("a", "alice", long)
		}
		for _, backwards := range []bool{false, true} {
			next := int64(0)
			for pages := 0; next < sent; pages++ {
				q := MessagesQuery{After: &next, Limit: 500}
				if backwards {
					before := sent + 1 - next
					q.After, q.Before = nil, &before
				}
				items := w.mustRead("a", "bob", q).Items
				if len(items) == 0 || len(items)*len(long) > answerBytes || pages > 10 {
					t.Fatalf("page %d has %d messages", pages, len(items))
				}
				for i, m := range items {
					want := next + int64(i) + 1
					if backwards {
						want = sent - next - int64(len(items)-1-i)
					}
					if m.ID != want {
						t.Fatalf("message %d of the page is %d, want %d", i, m.ID, want)
					}
				}
				next += int64(len(items))
			}
		}
	})
}

// C4, C6: a control character is counted as JSON writes it, in six bytes. Pages reach every message.
func TestC6_ControlCharactersCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	w.mustCreate("a", "alice", "bob")
	long := strings.Repeat("\x01", 4000)
	for range 60 {
		w.mustSend("a", "alice", long)
	}
	want := answerBytes / (6*len(long) + 2 + messageBytes + len(w.id("alice")))
	before := int64(61)
	for _, q := range []MessagesQuery{{Limit: 500}, {Before: &before, Limit: 500}} {
		items := w.mustRead("a", "bob", q).Items
		if first := map[bool]int64{false: 1, true: int64(61 - want)}[q.Before != nil]; len(items) != want || items[0].ID != first {
			t.Errorf("%d messages from %d, want %d from %d", len(items), items[0].ID, want, first)
		}
	}
	p, err := w.Pending(t.Context(), w.id("bob"), 500)
	storetest.Must(t, err)
	if got := p.Chats[0]; len(got.Items) != want || got.Unread != 60 {
		t.Errorf("%d messages are pending of %d", len(got.Items), got.Unread)
	}
}

// Short messages fill the largest page.
func TestC6_ShortMessagesFillAPage(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("a", "alice", "bob")
		for range 510 {
			w.mustSend("a", "alice", "hi")
		}
		before := int64(511)
		for _, q := range []MessagesQuery{{Limit: 500}, {Before: &before, Limit: 500}} {
			if n := len(w.mustRead("a", "bob", q).Items); n != 500 {
				t.Errorf("%d messages", n)
			}
		}
	})
}

// B2: unread chats are counted among the thousand that the user joined first: a later one counts only when the user has left one of
// these, and not when one of these has been read.
func TestB2_AmongTheFirstThousandChats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Redis(t).URL()), Options{})
	create := func(chat string) error {
		_, _, err := w.Create(t.Context(), &api.ChatRequest{ID: w.id(chat), Creator: w.id("alice"), Members: w.ids("bob"), Message: new("hi")}, api.Idempotency{}, false)
		return err
	}
	var g errgroup.Group
	g.SetLimit(16)
	for n := range 1000 {
		g.Go(func() error { return create(fmt.Sprint("c", n)) })
	}
	storetest.Must(t, g.Wait())
	wants := func(when string, want int64) {
		t.Helper()
		if n, err := w.UnreadChats(t.Context(), w.id("bob")); err != nil || n != want {
			t.Errorf("%s: %d unread chats, %v; want %d", when, n, err, want)
		}
	}
	wants("with a thousand", 1000)
	for n := range 3 {
		storetest.Must(t, create(fmt.Sprint("late", n)))
	}
	wants("with three more", 1000)
	w.mustAck("c7", "bob", 1)
	wants("when one was read", 999)
	w.mustLeave("c8", "bob")
	wants("when one was left, too", 999)
	w.mustLeave("c7", "bob")
	wants("when the one that was read was left", 1000)
}
