package targeting_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/targeting"
	"fanfare/store/chat"
	"fanfare/store/chat/live"
	"fanfare/store/events"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// talk is a pipeline with a store of chats.
type talk struct {
	*pipeline
	chats  *chat.Store
	live   *live.Hub
	pusher *chat.Pusher
}

// talking makes a set-up in which messages of chats are pushed. Of the chats only the loops that
// streams need are running.
func talking(t testing.TB, db *redisdb.DB, change ...func(*options)) *talk {
	t.Helper()
	chats := chat.New(db, chat.Options{})
	o := options{db: db, target: func(o *targeting.Options) {
		o.Pagers[events.KindChat] = chats.MemberNames
		o.LiveKey = live.PresenceKey
	}}
	for _, f := range change {
		f(&o)
	}
	p := setup(t, o)
	k := &talk{pipeline: p, chats: chats, live: live.New(chats, db, nil)}
	k.pusher = k.newPusher()
	p.mustType(api.ChatMessageType, api.EventTypeRequest{Title: "{{.actor}}", Body: "{{.data.text}}"})
	k.run(k.live.Run)
	return k
}

func (k *talk) newPusher() *chat.Pusher {
	return chat.NewPusher(k.chats, chat.PusherOptions{Post: k.first.events.AcceptNamed, SweepEvery: 50 * time.Millisecond, SweepAge: time.Millisecond})
}

// run runs a loop until the test ends.
func (k *talk) run(loop func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop(ctx) }()
	k.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			k.Error(err)
		}
	})
}

func (k *talk) mustChat(id string, members ...string) {
	k.Helper()
	if _, _, err := k.chats.Create(k.Context(), &api.ChatRequest{ID: id, Creator: members[0], Members: members}, api.Idempotency{}, true); err != nil {
		k.Fatal(err)
	}
}

func (k *talk) mustSay(id, sender, text string) *api.ChatMessageSent {
	k.Helper()
	sent, _, err := k.chats.Send(k.Context(), chat.Outgoing{Chat: id, Sender: sender, Text: text, Push: true})
	if err != nil {
		k.Fatal(err)
	}
	return sent
}

// mustSubscribe opens a live stream of a user's chats.
func (k *talk) mustSubscribe(user string) *live.Stream {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), soon)
	defer cancel()
	st, err := k.live.Stream(ctx, user, "")
	if err != nil {
		k.Fatal(err)
	}
	return st
}

// pushed is a message in a request to APNs.
type pushed struct {
	EventID string            `json:"event_id"`
	Object  string            `json:"object"`
	Type    string            `json:"type"`
	Data    map[string]string `json:"data"`
}

// mustArrive waits for n requests at APNs and reads their payloads.
func (k *talk) mustArrive(n int) (all []pushed) {
	k.Helper()
	storetest.Eventually(k, soon, fmt.Sprint(n, " pushes"), func() bool { return k.apns.Total() >= n })
	for _, r := range k.apns.Requests() {
		var p pushed
		if err := json.Unmarshal(r.Payload, &p); err != nil {
			k.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestC14_WhoHasNoStreamGetsAPush(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		k := talking(t, db)
		k.run(k.pusher.Run)
		k.mustChat("team", "ann", "bob", "dan", "eve", "liv", "max", "mia", "out")
		for n, user := range []string{"ann", "bob", "eve", "max", "mia", "out"} {
			k.mustDevice(user, n)
		}
		for _, user := range []string{"max", "mia"} {
			if err := k.first.devices.PutMute(t.Context(), user, "chat:team", &api.MuteRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.first.devices.PutOptOut(t.Context(), "out", api.ChatMessageType); err != nil {
			t.Fatal(err)
		}
		// liv has no device and mia mutes the chat: those reasons come first.
		for _, user := range []string{"ann", "eve", "liv", "mia", "out"} {
			defer k.mustSubscribe(user).Close(t.Context())
		}
		k.mustSay("team", "ann", "hello")
		k.pusher.Due("team")
		got := k.mustArrive(1)[0]
		if got.Object != "chat:team" || got.Type != "chat.message" || len(got.Data) != 3 ||
			got.Data["chat"] != "team" || got.Data["message_id"] != "1" || got.Data["text"] != "hello" {
			t.Errorf("the push is %+v", got)
		}
		r := k.mustEnd(got.EventID, api.EventDone)
		k.mustCounts(r, counts{8, 1, 1, 0, 0})
		want := api.SuppressedCounts{IsActor: 1, OptedOut: 1, Muted: 2, NoDevice: 2, Live: 1}
		if r.Suppressed != want {
			t.Errorf("suppressed %+v, want %+v", r.Suppressed, want)
		}
		if token := k.apns.Requests()[0].Token; token != k.tokenOf("bob") {
			t.Errorf("the push went to %s", token)
		}
	})
}

func (k *talk) tokenOf(user string) string {
	k.Helper()
	list, err := k.first.devices.Devices(k.Context(), user)
	if err != nil || len(list.Items) != 1 {
		k.Fatalf("%+v %v", list, err)
	}
	return list.Items[0].Token
}

// A user's presence ends with the user's last stream, and not with one of two.
func TestC14_PresenceEndsWithTheStream(t *testing.T) {
	t.Parallel()
	k := talking(t, storetest.Open(t, ""))
	k.run(k.pusher.Run)
	k.mustChat("team", "ann", "bob")
	k.mustDevice("bob", 1)
	say := func(text string) *api.EventReport {
		sent := k.mustSay("team", "ann", text)
		k.pusher.Due("team")
		var id string
		storetest.Eventually(t, soon, "the event", func() bool {
			id = k.eventOf("team", sent)
			_, err := k.first.events.Report(t.Context(), id)
			return err == nil
		})
		return k.mustEnd(id, api.EventDone)
	}
	one, two := k.mustSubscribe("bob"), k.mustSubscribe("bob")
	if r := say("first"); r.Suppressed.Live != 1 {
		t.Errorf("two streams: %+v", r)
	}
	one.Close(t.Context())
	if r := say("second"); r.Suppressed.Live != 1 {
		t.Errorf("one stream: %+v", r)
	}
	two.Close(t.Context())
	if r := say("third"); r.Suppressed.Live != 0 || r.Delivered != 1 {
		t.Errorf("no stream: %+v", r)
	}
}

// eventOf finds the id of a message's event by accepting it again.
func (k *talk) eventOf(id string, sent *api.ChatMessageSent) string {
	k.Helper()
	info, err := k.chats.Chat(k.Context(), id, "")
	if err != nil {
		k.Fatal(err)
	}
	return k.first.events.NamedID(&api.NamedEvent{Name: fmt.Sprintf("chat %s %s %d", id, chat.LifeOf(info.Epoch), sent.ID), Route: id, At: sent.SentAt.Time})
}

// Several processes and a sweeper find the same messages due. Each member gets one notification of
// each message.
func TestC14_OncePerMessage(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		const messages = 150
		k := talking(t, db)
		other := k.newPusher()
		k.run(k.pusher.Run)
		k.run(other.Run)
		k.run(other.Sweep)
		k.mustChat("team", "ann", "bob")
		k.mustDevice("bob", 1)
		var all sync.WaitGroup
		for _, p := range []*chat.Pusher{k.pusher, other, k.pusher} {
			all.Go(func() {
				for range messages / 3 {
					k.mustSay("team", "ann", "hello")
					p.Due("team")
				}
			})
		}
		all.Wait()
		seen := map[string]int{}
		for _, p := range k.mustArrive(messages) {
			seen[p.Data["message_id"]]++
		}
		storetest.Eventually(t, soon, "nothing is due", func() bool {
			due, err := k.chats.DuePushes(t.Context(), 0, 10)
			return err == nil && len(due) == 0
		})
		if k.apns.Total() != messages || len(seen) != messages {
			t.Errorf("%d pushes of %d messages, want %d", k.apns.Total(), len(seen), messages)
		}
	})
}

// If a process dies after it sent a message and before it made the push, the sweeper of another
// process makes the push.
func TestC14_SweeperPushesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	k := talking(t, storetest.Open(t, ""))
	k.mustChat("team", "ann", "bob")
	k.mustDevice("bob", 1)
	k.mustSay("team", "ann", "one")
	k.mustSay("team", "ann", "two")
	if k.apns.Total() != 0 {
		t.Fatal("somebody pushed")
	}
	k.run(k.newPusher().Sweep)
	if got := k.mustArrive(2); got[0].Data["text"]+got[1].Data["text"] != "onetwo" && got[0].Data["text"]+got[1].Data["text"] != "twoone" {
		t.Errorf("%+v", got)
	}
}

func TestC14_TextIsCut(t *testing.T) {
	t.Parallel()
	k := talking(t, storetest.Open(t, ""))
	k.run(k.pusher.Run)
	k.mustChat("team", "ann", "bob")
	k.mustDevice("bob", 1)
	for n, c := range []struct{ said, want string }{
		{strings.Repeat("x", 4000), strings.Repeat("x", 500)},
		{strings.Repeat("€", 200), strings.Repeat("€", 166)}, // 3 bytes each
		{"x" + strings.Repeat("😀", 200), "x" + strings.Repeat("😀", 124)},
		{strings.Repeat("\x01", 500), ""}, // 6 bytes each in JSON, in text and alert: no payload can hold it
		{strings.Repeat("y", 500), strings.Repeat("y", 500)},
	} {
		k.mustSay("team", "ann", c.said)
		k.pusher.Due("team")
		if got := k.mustArrive(n + 1)[n]; got.Data["text"] != c.want {
			t.Errorf("%q was pushed as %q", c.said, got.Data["text"])
		}
	}
}
