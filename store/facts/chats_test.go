package facts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/apps"
	"fanfare/store/chat"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// chatBoxes are the outboxes of chats, as a server has them.
func chatBoxes() (boxes []Outbox) {
	for n := range chat.Buckets {
		name, key := chat.FactOutbox(n)
		boxes = append(boxes, Outbox{Name: name, Key: key, Type: api.FactChatMessage})
	}
	return boxes
}

// H1, H2: each message of a chat is told once and in its order, whichever processes store it and move its fact, and wherever these die;
// also of a chat that is gone by then.
func TestH1_MessagesAreToldOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *Options) { o.Outboxes = chatBoxes() })
		prefix := strings.ToLower(rand.Text()[:10]) + "-" // all tests share the Cluster
		const chats, messages = 6, 40
		tells := func(string) bool { return true }
		s := chat.New(db, chat.Options{Tells: tells})
		name := func(n int) string { return fmt.Sprint(prefix, "chat", n) }
		for n := range chats {
			_, _, err := s.Create(t.Context(), &api.ChatRequest{ID: name(n), Creator: prefix + "ann", Members: []string{prefix + "bob"}}, api.Idempotency{}, false)
			storetest.Must(t, err)
		}
		var all sync.WaitGroup
		for n := range chats {
			all.Go(func() {
				for i := range messages {
					m := chat.Outgoing{Chat: name(n), Sender: prefix + []string{"ann", "bob"}[i%2], Text: "x", Once: api.Idempotency{Scope: "s", Key: fmt.Sprint(prefix, n, " ", i)}}
					if i%3 == 0 { // the process that sends it dies, at times after Redis took it, and the caller repeats
						_, _, _ = chat.New(storetest.Faulty(t, db, storetest.DieAt(mathrand.IntN(2)).Fault), chat.Options{Tells: tells}).Send(t.Context(), m)
					}
					if _, _, err := s.Send(t.Context(), m); err != nil {
						t.Error(err)
					}
				}
			})
		}
		dieMoving := func() {
			_ = New(Options{DB: storetest.Faulty(t, db, storetest.DieAt(mathrand.IntN(8)).Fault), Events: w.q, Outboxes: chatBoxes()}).Sweep(t.Context())
		}
		for range 20 {
			dieMoving()
		}
		all.Wait()
		want := map[string][]string{}
		for n := range chats {
			page, err := s.Messages(t.Context(), name(n), chat.MessagesQuery{User: prefix + "ann", Limit: 500})
			storetest.Must(t, err)
			for _, m := range page.Items {
				want[name(n)] = append(want[name(n)], fmt.Sprint(m.ID, m.Sender))
			}
			if len(want[name(n)]) != messages {
				t.Fatalf("chat %d has %d messages", n, len(page.Items))
			}
			for _, user := range []string{"ann", "bob"} {
				storetest.Must(t, s.Leave(t.Context(), name(n), prefix+user))
			}
		}
		for range 10 {
			dieMoving()
		}
		storetest.AtOnce(t, 4, func(ctx context.Context, _ int) error {
			return New(Options{DB: db, Events: w.q, Outboxes: chatBoxes()}).Sweep(ctx)
		})
		facts, _, _ := w.mustReadAll("", 1000)
		got := map[string][]string{}
		for _, f := range facts {
			var d struct {
				ID     int64
				Sender string
			}
			storetest.Must(t, json.Unmarshal(f.Data, &d))
			got[f.Key] = append(got[f.Key], fmt.Sprint(d.ID, d.Sender))
		}
		for key := range want {
			if !slices.Equal(got[key], want[key]) {
				t.Errorf("%s: told %v, want %v", key, got[key], want[key])
			}
		}
		if len(got) != chats {
			t.Errorf("facts of %d chats are told", len(got))
		}
	})
}

// H1: a pause and its end are told within a second, once, in their order.
func TestH1_PausesAreTold(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	box := Outbox{Name: "apps", Key: apps.FactsKey}
	w := setup(t, db, func(o *Options) { o.Outboxes = []Outbox{box} })
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.s.Run(ctx) })
	defer running.Wait()
	defer stop()
	s := apps.New(db, apps.Options{Tells: func(string) bool { return true }, Left: func() { w.s.Left(box) }})
	other := apps.New(db, apps.Options{Tells: func(string) bool { return true }}) // of a process that dies before it moves what it left
	after, paused := w.mustRead(api.FactsNow, 1).Next, false
	for _, store := range []*apps.Store{s, other} {
		storetest.InTime(t, time.Second, "what has become of the app is told", func(int) time.Duration {
			want, change := api.FactAppPaused, func() (bool, error) { return store.PauseApp(t.Context(), "a/production", "InvalidProviderToken") }
			if paused {
				want, change = api.FactAppResumed, func() (bool, error) { return store.ResumeApp(t.Context(), "a/production") }
			}
			paused = !paused
			began := time.Now()
			_, err := change()
			storetest.Must(t, err)
			list, err := w.s.Read(t.Context(), waiting(t, soon), after, nil, 10)
			if err != nil || len(list.Items) != 1 || list.Items[0].Type != want || list.Items[0].Key != "a/production" {
				t.Fatalf("%s: %v, %v", want, list, err)
			}
			after = list.Next
			return time.Since(began)
		})
	}
}

// While facts of a type are not told, the outboxes that have no others are seldom looked at; what was left in one by this process is
// moved at once.
func TestOutboxesOfTypesThatAreOffRest(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	on := false
	chats, others := chatBoxes()[1], Outbox{Name: "apps", Key: apps.FactsKey}
	s := setup(t, db, func(o *Options) {
		o.Outboxes, o.On = []Outbox{chats, others}, func(typ string) bool { return typ != api.FactChatMessage || on }
	}).s
	looked := func(resting bool, want ...Outbox) {
		t.Helper()
		s.markAll(resting)
		boxes := s.takeDirty()
		slices.SortFunc(boxes, func(a, b Outbox) int { return strings.Compare(a.Name, b.Name) })
		if !slices.Equal(boxes, want) {
			t.Errorf("looked at %v, want %v", boxes, want)
		}
	}
	looked(false, others)
	looked(true, others, chats)
	s.Left(chats)
	looked(false, others, chats)
	on = true
	looked(false, others, chats)
}
