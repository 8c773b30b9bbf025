package facts

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// runners are processes that relay what is in the outboxes of a world.
type runners struct {
	*world
	all sync.WaitGroup
}

// start starts one, and returns what ends it.
func (r *runners) start() (end func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	s := New(r.s.o)
	r.all.Go(func() { _ = s.Run(ctx) })
	return cancel
}

// While nothing happens, four processes look at the outboxes no more often than one.
func TestProcessesSweepInTurns(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	r := runners{world: setup(t, storetest.Open(t, server.URL()), func(o *Options) { o.Outboxes = chatBoxes() })}
	defer r.all.Wait()
	began := time.Now()
	for range 4 {
		defer r.start()()
	}
	storetest.Eventually(t, soon, "they sweep again and again", func() bool { return storetest.Calls(t, server.Client(), "xrange") >= 6*chat.Buckets })
	n := storetest.Calls(t, server.Client(), "xrange")
	// One sweep at first, one of the outboxes that rest, and one more in every turn.
	if most := (2 + int(time.Since(began)/sweepEvery)) * chat.Buckets; n > most {
		t.Errorf("%d outboxes were read in %v, want at most %d", n, time.Since(began), most)
	}
}

// H1: what a process has left that dies is moved soon, also if it had the turn to sweep.
func TestH1_AProcessThatHasTheTurnDies(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	boxes := chatBoxes()
	r := runners{world: setup(t, db, func(o *Options) { o.Outboxes = boxes })}
	defer r.all.Wait()
	at := r.mustRead(api.FactsNow, 1).Next
	comes := func(box Outbox, key string) {
		t.Helper()
		storetest.Must(t, db.Client().XAdd(t.Context(), &redis.XAddArgs{Stream: box.Key, Values: []string{"t", api.FactChatMessage, "k", key, "a", "1", "d", "{}"}}).Err())
		began := time.Now()
		list, err := r.s.Read(t.Context(), waiting(t, soon), at, nil, 10)
		if err != nil || len(list.Items) != 1 || list.Items[0].Key != key {
			t.Fatalf("the fact of %s: %+v, %v", key, list, err)
		}
		t.Logf("the fact of %s took %v", key, time.Since(began))
		at = list.Next
	}
	for name, every := range map[string]time.Duration{"told": sweepEvery, "all": restEvery} {
		if mine, _, err := db.Turn(t.Context(), r.s.turn(name), every); err != nil || !mine {
			t.Fatalf("another process has the turn: %v", err)
		}
	}
	first := r.start()
	defer r.start()()
	comes(boxes[7], "first")
	first()
	comes(boxes[8], "second")
	if left := db.Client().PTTL(t.Context(), r.s.turn("told")).Val(); left > sweepEvery {
		t.Errorf("the turn lasts %v", left)
	}
}

// H1: while the master is away whose process has the turn, or facts cannot be moved, a process looks without the turn.
func TestH1_ATurnThatCannotBeHad(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	r := setup(t, db, func(o *Options) { o.Outboxes = chatBoxes() })
	cut := New(Options{DB: storetest.FaultyBy(t, db, func(cmd redis.Cmder) string {
		if len(cmd.Args()) > 1 && cmd.Args()[1] == any(r.s.turn("told")) {
			return "turn"
		}
		return ""
	}, func(string, bool) error { return storetest.ErrCut }), Events: r.q, Outboxes: chatBoxes(), On: r.s.o.On})
	w := &sweep{name: "told", every: sweepEvery}
	if !cut.begin(t.Context(), w, false) || cut.begin(t.Context(), w, false) {
		t.Error("it does not look, or at once again")
	}
	held := &sweep{name: "told", every: sweepEvery}
	if !r.s.begin(t.Context(), held, true) || time.Until(held.next) < heldUpEvery/2 {
		t.Errorf("while facts are held up the next look is in %v", time.Until(held.next))
	}
}
