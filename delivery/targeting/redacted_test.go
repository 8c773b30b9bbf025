package targeting_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/chat"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustRedact redacts messages in another process, and returns when that was answered.
func (k *talk) mustRedact(id string, from, to int64) time.Time {
	k.Helper()
	done, err := k.chats.Redact(k.Context(), id, chat.Redaction{From: from, To: to})
	storetest.Must(k, err)
	storetest.Must(k, k.process().events.Withdraw(k.Context(), done.Pushes...))
	return time.Now()
}

// mustPush sends a message and waits until its push is an event, whose id it returns.
func (k *talk) mustPush(id, sender, text string) string {
	k.Helper()
	event := k.eventOf(id, k.mustSay(id, sender, text))
	k.pusher.Due(id)
	storetest.Eventually(k, soon, "the event", func() bool {
		_, err := k.first.events.Report(k.Context(), event)
		return err == nil
	})
	return event
}

// C19: a push that waits when its message is redacted fails, whatever its way is.
func TestC19_PushesThatWait(t *testing.T) {
	t.Parallel()
	for name, members := range map[string]int{"AtOnce": 3, "Waits": 3, "LargeChat": 130} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := talking(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *options) { o.idle, o.waits = true, name == "Waits" })
			k.run(k.pusher.Run)
			names := []string{"ann"}
			for n := range members {
				names = append(names, user(n))
				k.mustDevice(user(n), n)
			}
			k.mustChat("team", names...)
			kept, gone := k.mustPush("team", "ann", "kept"), k.mustPush("team", "ann", "gone")
			k.mustRedact("team", 2, 2)
			k.first.start()
			n := int64(members)
			r := k.mustEnd(gone, api.EventDone)
			k.mustCounts(r, counts{n + 1, n, 0, n, 0})
			if want := map[string]int64{"redacted": n}; !maps.Equal(r.FailedBy, want) {
				t.Errorf("failed by %v, want %v", r.FailedBy, want)
			}
			k.mustCounts(k.mustEnd(kept, api.EventDone), counts{n + 1, n, n, 0, 0})
			for _, p := range k.mustArrive(members) {
				if p.Data["text"] != "kept" {
					t.Fatalf("%+v was sent", p)
				}
			}
		})
	}
}

// C19: APNs is slow, and eight messages for bob wait one after the other when all are redacted. A
// second later nothing of them is written.
func TestC19_NothingIsWrittenLater(t *testing.T) {
	t.Parallel()
	for _, took := range []time.Duration{time.Second, 3 * time.Second} {
		for _, hops := range []string{"AtOnce", "Waits"} {
			t.Run(took.String()+"/"+hops, func(t *testing.T) {
				t.Parallel()
				s, sender := watching()
				k := talking(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *options) { o.sender, o.waits = sender, hops == "Waits" })
				k.run(k.pusher.Run)
				k.apns.SetLatency(took, 0)
				k.mustDevice("bob", 1)
				k.mustChat("team", "ann", "bob")
				var ids []string
				for range 8 {
					ids = append(ids, k.mustPush("team", "ann", "hello"))
				}
				storetest.Must(t, k.apns.WaitTotal(1, soon))
				gone := k.mustRedact("team", 1, 8)
				delivered := int64(0)
				for _, id := range ids {
					r := k.mustEnd(id, api.EventDone)
					if r.Notifications != 1 || r.Delivered+r.FailedBy["redacted"] != 1 || r.Retrying != 0 {
						t.Errorf("report %+v", r)
					}
					delivered += r.Delivered
				}
				if delivered == 8 || int64(k.apns.Total()) != delivered {
					t.Errorf("%d were delivered, %d requests", delivered, k.apns.Total())
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, id := range ids {
					if at, written := s.written[events.NotificationID(id, token(1))]; written && at.Sub(gone) > time.Second {
						t.Errorf("a text was written %v after it was redacted", at.Sub(gone))
					}
				}
			})
		}
	}
}

// C19: a process reads a message, it is redacted, and then the process makes its push.
func TestC19_APushThatIsMadeTooLate(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		k := talking(t, db)
		k.mustDevice("bob", 1)
		k.mustChat("team", "ann", "bob")
		p := chat.NewPusher(k.chats, chat.PusherOptions{Post: func(ctx context.Context, named ...api.NamedEvent) ([]error, error) {
			k.mustRedact("team", 1, 1)
			return k.first.events.AcceptNamed(ctx, named...)
		}})
		k.run(p.Run)
		event := k.eventOf("team", k.mustSay("team", "ann", "hello"))
		p.Due("team")
		storetest.Eventually(t, soon, "the event", func() bool {
			_, err := k.first.events.Report(t.Context(), event)
			return err == nil
		})
		if r := k.mustEnd(event, api.EventDone); r.FailedBy["redacted"] != 1 || k.apns.Total() != 0 {
			t.Errorf("report %+v, %d requests", r, k.apns.Total())
		}
	})
}

// C19: a push that became a dead letter does not send the text of a redacted message either.
func TestC19_ADeadLetter(t *testing.T) {
	t.Parallel()
	k := talking(t, storetest.Open(t, storetest.Redis(t).URL()))
	k.run(k.pusher.Run)
	k.mustDevice("bob", 1)
	k.mustChat("team", "ann", "bob")
	k.apns.Script(token(1), apnstest.Fail(400, "BadMessageId"))
	event := k.mustPush("team", "ann", "hello")
	k.mustCounts(k.mustEnd(event, api.EventDone), counts{2, 1, 0, 1, 0})
	dead, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, k.first.queueOfNotes)
	if err != nil || len(dead.Items) != 1 {
		t.Fatalf("dead letters %+v, %v", dead, err)
	}
	shown := func() string {
		storetest.Must(t, k.process().events.HideWithdrawn(t.Context(), dead.Items))
		return string(dead.Items[0].Payload)
	}
	if !strings.Contains(shown(), "hello") {
		t.Errorf("the letter of a message that was not redacted shows %s", shown())
	}
	k.mustRedact("team", 1, 1)
	if shown() != `{"redacted":true}` { // C17
		t.Errorf("after the redaction the letter shows %s", shown())
	}
	storetest.Eventually(t, soon, "the process knows it", func() bool {
		k.first.events.RefreshWithdrawn(t.Context())
		is, _ := k.first.events.Withdrawn(event)
		return is
	})
	_, _, err = k.first.queueOfNotes.RetryDead(t.Context(), dead.Items[0].ID, queue.Once{})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "the dead letter is tried again", func() bool { return k.mustReport(event).FailedBy["redacted"] == 1 })
	if n := k.apns.Total(); n != 1 {
		t.Errorf("%d requests, want the first one", n)
	}
}

// C19: a push waits for its process while Redis is started again, with messages in between. A
// redaction finds it, however many runs of Redis ago its event was made.
func TestC19_AfterRunsOfRedis(t *testing.T) {
	t.Parallel()
	for _, restarts := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(restarts), func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
			k := talking(t, storetest.Open(t, server.URL()), func(o *options) { o.idle, o.waits = true, true })
			k.run(k.pusher.Run)
			k.mustDevice("bob", 1)
			k.mustChat("team", "ann", "bob")
			ids := []string{k.mustPush("team", "ann", "SECRET")}
			for range restarts {
				server.Restart()
				storetest.Eventually(t, soon, "Redis", func() bool { _, err := k.chats.Chat(t.Context(), "team", ""); return err == nil })
				ids = append(ids, k.mustPush("team", "ann", "harmless"))
			}
			k.mustRedact("team", 1, 1)
			k.first.start()
			for n, id := range ids {
				r := k.mustEnd(id, api.EventDone)
				if redacted := int64(1 - min(n, 1)); r.FailedBy["redacted"] != redacted || r.Delivered != 1-redacted {
					t.Errorf("message %d: %+v", n+1, r)
				}
			}
			if n := k.apns.Total(); n != restarts {
				t.Errorf("%d requests, want %d", n, restarts)
			}
		})
	}
}

// C19: pushes of messages wait while the list of redacted messages cannot be read. Other notifications
// do not wait, and cost no reading.
func TestC19_ReadingWhatIsRedacted(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	var cut atomic.Bool
	var reads atomic.Int64
	k := talking(t, db, func(o *options) {
		o.events = func(e *events.Options) {
			readings := func(c redis.Cmder) string {
				if c.Name() != "xrange" || c.Args()[1] != "ff:{withdrawn}:events" {
					return ""
				}
				return c.Name()
			}
			e.DB = storetest.FaultyBy(t, db, readings, func(_ string, answered bool) error {
				if answered {
					return nil
				}
				reads.Add(1)
				if cut.Load() {
					return storetest.ErrCut
				}
				return nil
			})
		}
	})
	k.run(k.pusher.Run)
	k.mustDevice("bob", 1)
	k.mustChat("team", "ann", "bob")
	ordinary := func() { k.mustCounts(k.mustEnd(k.mustPost(hello("bob")), api.EventDone), counts{1, 1, 1, 0, 0}) }
	for range 20 {
		ordinary()
	}
	if n := reads.Load(); n != 0 {
		t.Errorf("%d readings for notifications that are not of messages", n)
	}
	began := time.Now()
	var last string
	for n := range 100 {
		last = k.mustPush("team", "ann", fmt.Sprint("m", n))
	}
	k.mustCounts(k.mustEnd(last, api.EventDone), counts{2, 1, 1, 0, 0})
	if n, most := reads.Load(), 2+int64(time.Since(began)/(500*time.Millisecond)); n < 1 || n > most {
		t.Errorf("%d readings for 100 messages in %v, at most %d expected", n, time.Since(began), most)
	}
	cut.Store(true)
	storetest.Eventually(t, soon, "what was read to be too old", func() bool {
		_, fresh := k.first.events.Withdrawn(last)
		return !fresh
	})
	sent := k.apns.Total()
	waits := k.mustPush("team", "ann", "waits")
	storetest.Eventually(t, soon, "the push to wait", func() bool { return k.mustReport(waits).Retrying == 1 })
	ordinary()
	if n := k.apns.Total(); n != sent+1 {
		t.Errorf("%d requests were sent, want the one that is not of a message", n-sent)
	}
	cut.Store(false)
	k.mustCounts(k.mustEnd(waits, api.EventDone), counts{2, 1, 1, 0, 0})
}
