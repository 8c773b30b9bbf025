package chat

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"fanfare/store/storetest"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
)

func TestC1_IDsWithoutHoles(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		const senders, each = 16, 40
		names := []string{"reader"}
		for i := range senders {
			names = append(names, fmt.Sprint("s", i))
		}
		w.mustCreate("c", names...)
		var stop atomic.Bool
		var reading, sending errgroup.Group
		reading.Go(func() error { return w.readWhileSent("c", "reader", &stop) })
		taken := make([]atomic.Int64, senders*each+1)
		for _, name := range names[1:] {
			sending.Go(func() error {
				for range each {
					sent, _, err := w.send("c", name, name)
					if err != nil {
						return err
					}
					taken[sent.ID].Add(1)
				}
				return nil
			})
		}
		storetest.Must(t, sending.Wait())
		stop.Store(true)
		storetest.Must(t, reading.Wait())
		for id := 1; id <= senders*each; id++ {
			if n := taken[id].Load(); n != 1 {
				t.Fatalf("id %d was given %d times", id, n)
			}
		}
		m := w.mustRead("c", "reader", MessagesQuery{Before: before(1 << 40), Limit: 500})
		if m.LastID != senders*each || m.FirstID != 1 || len(m.Items) != 500 {
			t.Fatalf("%d messages from %d to %d", len(m.Items), m.FirstID, m.LastID)
		}
	})
}

// readWhileSent reads the newest messages over and over: below each that can be
// seen, all can be seen, and their times never decrease.
func (w *world) readWhileSent(chat, user string, stop *atomic.Bool) error {
	for !stop.Load() {
		m, err := w.read(chat, user, MessagesQuery{Before: before(1 << 40), Limit: 500})
		if err != nil {
			return err
		}
		for i, item := range m.Items {
			if item.ID != m.LastID-int64(len(m.Items)-1-i) {
				return fmt.Errorf("message %d is at position %d of %d up to %d", item.ID, i, len(m.Items), m.LastID)
			}
			if i > 0 && item.SentAt.Before(m.Items[i-1].SentAt.Time) {
				return fmt.Errorf("message %d is older than the one before it", item.ID)
			}
		}
	}
	return nil
}

func keyed(key, body string) api.Idempotency {
	once := api.Idempotency{Scope: "apikey POST /v1/chats", Key: key}
	copy(once.Body[:], body)
	return once
}

func (w *world) sendOnce(chat, sender, text, key string) (int64, bool, error) {
	sent, replayed, err := w.Send(w.ctx(), Outgoing{Chat: w.id(chat), Sender: w.id(sender), Text: text, Once: keyed(w.id(key), text)})
	if err != nil {
		return 0, false, err
	}
	return sent.ID, replayed, nil
}

func (w *world) wantSent(chat, sender, text, key string, wantID int64, wantReplay bool) {
	w.t.Helper()
	id, replayed, err := w.sendOnce(chat, sender, text, key)
	storetest.Must(w.t, err)
	if id != wantID || replayed != wantReplay {
		w.t.Fatalf("%s sent %q with %s: id %d, replayed %v; want %d, %v", sender, text, key, id, replayed, wantID, wantReplay)
	}
}

func TestC2_SendIsIdempotent(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		w.mustCreate("d", "alice", "bob")
		w.wantSent("c", "alice", "hi", "k", 1, false)
		w.wantSent("c", "alice", "hi", "k", 1, true)
		_, _, err := w.sendOnce("c", "alice", "other", "k")
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
		w.wantSent("c", "bob", "other", "k", 2, false)   // another sender
		w.wantSent("d", "alice", "other", "k", 1, false) // another chat
		w.wantSent("c", "alice", "hi", "k2", 3, false)   // another key
		w.wantRead("c", "carol", MessagesQuery{}, "1:hi 2:other 3:hi first=1 last=3")

		w.mustLeave("c", "alice")
		w.wantSent("c", "alice", "hi", "k", 1, true) // the answer it got as a member
		_, _, err = w.sendOnce("c", "alice", "hi", "k3")
		storetest.WantCode(t, err, api.CodeNotAMember)
		w.mustJoin("c", "alice", false)
		w.wantSent("c", "alice", "hi", "k3", 4, false) // a refusal is not kept

		name := keyed(w.id("k"), "hi").Name(w.id("c"), w.id("alice"))
		if ttl := w.db.Client().PTTL(t.Context(), recordKey(w.id("c"), name)).Val(); ttl <= keyTTL/2 || ttl > keyTTL {
			t.Errorf("the record lives %v", ttl)
		}
		for _, user := range []string{"alice", "bob", "carol"} {
			w.mustLeave("c", user)
		}
		w.mustCreate("c", "alice", "bob")
		w.wantSent("c", "alice", "now this", "k", 1, false) // another epoch: the record does not count
		w.wantSent("c", "alice", "now this", "k", 1, true)
	})
}

// A client of Redis whose answer was lost sends the same again.
func TestC2_ARepeatedScriptSendsOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		client := w.another(twice)
		for id := int64(1); id <= 3; id++ {
			if got := client.mustSend("c", "alice", "hi"); got != id {
				t.Fatalf("sent %d, want %d", got, id)
			}
		}
		client.wantSent("c", "alice", "ho", "k", 4, false) // its own repeat is no replay
		client.wantSent("c", "alice", "ho", "k", 4, true)
		w.wantRead("c", "bob", MessagesQuery{}, "1:hi 2:hi 3:hi 4:ho first=1 last=4")
	})
}

func TestC3_ReadingChangesNothingAckMovesForward(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		for range 10 {
			w.mustSend("c", "alice", "hi")
		}
		was := w.dump("c", "bob")
		w.mustRead("c", "bob", MessagesQuery{})
		w.pending("bob", 0)
		w.chats("bob")
		_, err := w.Positions(t.Context(), w.id("bob"))
		storetest.Must(t, err)
		if is := w.dump("c", "bob"); is != was {
			t.Fatalf("reading changed\n%s to\n%s", was, is)
		}
		var g errgroup.Group // two devices
		for _, id := range []int64{5, 9} {
			g.Go(func() error { _, err := w.ack("c", "bob", id); return err })
		}
		storetest.Must(t, g.Wait())
		w.wantMembers("c", "alice@10 bob@9 carol@0")
		if got := w.mustAck("c", "bob", 3); got != 9 {
			t.Errorf("an ack of 3 after 9 gives %d", got)
		}
		_, err = w.ack("c", "bob", 11)
		storetest.WantCode(t, err, api.CodeValidation)
		var e *api.Error
		if !errors.As(err, &e) || len(e.Fields) != 1 || !strings.HasPrefix(e.Fields[0].Field, "acks.") {
			t.Errorf("the field is not named: %+v", e)
		}
		_, err = w.ack("c", "eve", 1)
		storetest.WantCode(t, err, api.CodeNotAMember)
		_, err = w.ack("nowhere", "bob", 1)
		storetest.WantCode(t, err, api.CodeNotFound)
		w.wantMembers("c", "alice@10 bob@9 carol@0")
	})
}

func TestC3_SeveralChatsInOneAck(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("a", "alice", "bob")
		w.mustCreate("b", "alice", "bob")
		w.mustCreate("c", "alice", "carol")
		for _, chat := range []string{"a", "b", "c"} {
			w.mustSend(chat, "alice", "hi")
		}
		acks, err := w.Ack(t.Context(), w.id("bob"), map[string]int64{w.id("a"): 1, w.id("b"): 2, w.id("c"): 1, w.id("d"): 1}, nil)
		storetest.Must(t, err)
		want := fmt.Sprint(map[string]int64{w.id("a"): 1},
			map[string]api.ChatError{w.id("b"): {Code: api.CodeValidation}, w.id("c"): {Code: api.CodeNotAMember}, w.id("d"): {Code: api.CodeNotFound}})
		if got := fmt.Sprint(acks.Acked, acks.Errors); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// dump writes all that Redis has of a chat and of a user's index.
func (w *world) dump(chat, user string) string {
	w.t.Helper()
	c, name, ctx := w.db.Client(), w.id(chat), w.ctx()
	return fmt.Sprint(c.Get(ctx, metaKey(name)).Val(), c.LRange(ctx, logKey(name), 0, -1).Val(),
		c.ZRangeWithScores(ctx, membersKey(name), 0, -1).Val(), c.ZRange(ctx, joinsKey(name), 0, -1).Val(),
		c.ZRange(ctx, ownKey(name, w.id(user)), 0, -1).Val(), c.ZRangeWithScores(ctx, indexKey(w.id(user)), 0, -1).Val())
}

func TestC5_UnreadIsComputed(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		w.mustSend("c", "alice", "1") // all before it was acked: acked itself
		w.mustSend("c", "alice", "2")
		w.wantMembers("c", "alice@2 bob@0 carol@0")
		w.mustSend("c", "bob", "3") // 1 and 2 are not: his position stays
		w.mustSend("c", "bob", "4")
		w.mustSend("c", "alice", "5") // nor are 3 and 4 of alice
		w.wantMembers("c", "alice@2 bob@0 carol@0")
		w.wantChats("alice", "c:2/5@2")
		w.wantChats("bob", "c:3/5@0")
		w.wantChats("carol", "c:5/5@0")
		if got := w.mustAck("c", "bob", 1); got != 1 {
			t.Fatalf("an ack of 1 gives %d: message 2 is unread", got)
		}
		if got := w.mustAck("c", "bob", 2); got != 4 {
			t.Fatalf("an ack of 2 gives %d: 3 and 4 are his own", got)
		}
		w.wantChats("bob", "c:1/5@4")
		if got := w.mustAck("c", "alice", 3); got != 3 {
			t.Fatalf("an ack of 3 gives %d: message 4 is unread", got)
		}
		w.wantChats("alice", "c:1/5@3")
		w.wantPending("alice", "c:1[4:4 5:5]")
		if got := w.mustAck("c", "alice", 4); got != 5 {
			t.Fatalf("an ack of 4 gives %d: message 5 is her own", got)
		}
		w.wantChats("alice", "c:0/5@5")
		w.wantPending("alice", "")
	})
}

// A long row of one's own messages is passed in one step, up to the first of
// another.
func TestC5_AckPassesALongRow(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob", "carol")
		w.mustSend("c", "bob", "first")
		for range 100 {
			w.mustSend("c", "alice", "mine")
		}
		w.mustSend("c", "bob", "in between")
		w.mustSend("c", "alice", "mine")
		w.wantChats("alice", "c:2/103@0")
		if got := w.mustAck("c", "alice", 1); got != 101 {
			t.Fatalf("an ack of 1 gives %d", got)
		}
		w.wantChats("alice", "c:1/103@101")
	})
}

// C5: a user's own messages are those of the present membership: what he sent in an
// earlier one is unread when he joins again from the start.
func TestC5_OwnMessagesOfAnEarlierMembership(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "al", "bob")
		for i, sender := range []string{"bob", "alice", "al", "alice", "bob"} {
			w.mustSend("c", sender, fmt.Sprint(i+1))
		}
		w.mustLeave("c", "alice")
		w.mustJoin("c", "alice", true)
		w.wantChats("alice", "c:5/5@0")
		w.mustSend("c", "alice", "6")
		w.wantChats("alice", "c:5/6@0")
		if got := w.mustAck("c", "alice", 1); got != 1 {
			t.Fatalf("an ack of 1 gives %d", got)
		}
		w.wantPending("alice", "c:4[2:2 3:3 4:4 5:5 6:6]")
		if got := w.mustAck("c", "alice", 5); got != 6 {
			t.Fatalf("an ack of 5 gives %d: message 6 is of this membership", got)
		}
	})
}

func TestC12_TextIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		w.mustCreate("c", "alice", "bob")
		texts := []string{" ", "a b  c ", "\n\r\t", "1 2 3", "{}\"'\\", "\x00\x01", "é漢🎉", strings.Repeat("🎉", 4000), "-1", "1e5", "nil"}
		begun, err := w.db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		for _, text := range texts {
			w.mustSend("c", "alice", text)
		}
		ended, err := w.db.Client().Time(t.Context()).Result()
		storetest.Must(t, err)
		for i, item := range w.mustRead("c", "bob", MessagesQuery{}).Items {
			if item.Text != texts[i] {
				t.Errorf("message %d is %.40q, want %.40q", item.ID, item.Text, texts[i])
			}
			if at := item.SentAt.UnixMilli(); at < begun.UnixMilli()-1000 || at > ended.UnixMilli()+1000 || item.ID != int64(i+1) {
				t.Errorf("message %d was sent at %v", item.ID, item.SentAt)
			}
		}
		p, err := w.Pending(t.Context(), w.id("bob"), 0)
		storetest.Must(t, err)
		if got := p.Chats[0].Items[7].Text; got != texts[7] {
			t.Errorf("pending has %.40q", got)
		}
	})
}

// Ids and positions are exact up to 2^53.
func TestC1_LargeIDs(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		const last = int64(1)<<53 - 10
		w.mustCreate("c", "alice", "bob")
		c, name := w.db.Client(), w.id("c")
		w.setMeta("c", map[int]int64{metaLast: last, metaFirst: last + 1})
		storetest.Must(t, c.ZAdd(t.Context(), membersKey(name), zed(float64(last), w.id("alice")), zed(float64(last), w.id("bob"))).Err())
		for i := int64(1); i <= 4; i++ {
			sender := []string{"bob", "alice"}[i%2]
			if id := w.mustSend("c", sender, "t"); id != last+i {
				t.Fatalf("sent %d, want %d", id, last+i)
			}
		}
		w.wantSent("c", "bob", "t", "k", last+5, false)
		w.wantSent("c", "bob", "t", "k", last+5, true)
		again := w.another(twice)
		if id := again.mustSend("c", "bob", "its answer was lost"); id != last+6 {
			t.Errorf("sent %d, want %d", id, last+6)
		}
		if got := w.mustAck("c", "bob", last+1); got != last+2 {
			t.Errorf("an ack of %d gives %d", last+1, got)
		}
		w.wantChats("bob", fmt.Sprintf("c:1/%d@%d", last+6, last+2))
		w.wantRead("c", "bob", MessagesQuery{After: after(last + 4)}, fmt.Sprintf("%d:t %d:its answer was lost first=%d last=%d", last+5, last+6, last+2, last+6))
	})
}
