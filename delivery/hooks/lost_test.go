package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/facts"
	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// feeding is a world whose webhooks read facts from Redis.
type feeding struct {
	*world
	facts *facts.Store
	left  string // the outbox in which the facts are left
	n     int    // how many were told
}

func setupFacts(t testing.TB, db *redisdb.DB) *feeding {
	t.Helper()
	o := queuetest.Options(t)
	o.Shards, o.Lanes = 2, true
	events := queue.New(db, o)
	w := &feeding{world: setup(t, 2), left: events.KeyBeside(0, "facts:out")}
	w.facts = facts.New(facts.Options{
		DB: db, Events: events, Outboxes: facts.OutboxesOf(events), On: func(string) bool { return true },
		Over:   func(context.Context, []string) (map[string]json.RawMessage, error) { return nil, nil },
		Failed: func(*api.DeadLetter) json.RawMessage { return nil },
	})
	w.redis, w.told = db, w.facts
	w.Store = w.store()
	return w
}

// mustTell tells n facts in both lanes, whose data are numbers that rise from 1 on.
func (w *feeding) mustTell(n int) {
	w.t.Helper()
	for range n {
		w.n++
		storetest.Eventually(w.t, soon, "a fact is left", func() bool { // after a fail-over some connections are dead
			return w.redis.Client().XAdd(w.t.Context(), &redis.XAddArgs{Stream: w.left, Values: []string{"t", "a", "k", fmt.Sprint("key", w.n), "a", "", "d", fmt.Sprint(w.n)}}).Err() == nil
		})
	}
	storetest.Eventually(w.t, soon, "the facts are moved", func() bool { return w.facts.Sweep(w.t.Context()) == nil })
}

// mustArrive waits until the receiver has all facts from the first to the last that was told.
func (w *feeding) mustArrive(s *receiver, first int) {
	w.t.Helper()
	storetest.Eventually(w.t, time.Minute, fmt.Sprintf("the facts %d to %d", first, w.n), func() bool {
		have := map[int]bool{}
		for _, r := range s.got() {
			for _, f := range r.Facts {
				var n int
				storetest.Must(w.t, json.Unmarshal(f.Data, &n))
				have[n] = true
			}
		}
		for n := first; n <= w.n; n++ {
			if !have[n] {
				return false
			}
		}
		return true
	})
}

// mustRest waits until a webhook has taken all facts that are there.
func (w *feeding) mustRest(id string) {
	w.t.Helper()
	storetest.Eventually(w.t, time.Minute, "nothing is left to send", func() bool {
		status, err := w.Status(w.t.Context(), id)
		return err == nil && status.LagMS == 0 && status.FailingSince == nil
	})
}

// H9: a Redis that has lost everything has no facts and no positions. What happens afterwards is sent, by a process that was ahead, and by
// one that begins then.
func TestH9_RedisIsEmptied(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setupFacts(t, storetest.Open(t, server.URL()))
	s := newReceiver(t, nil)
	_, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	p := w.start(poster(s))
	w.mustTell(40)
	w.mustArrive(s, 1)
	empty := func() (lost int) {
		storetest.Must(t, server.Client().FlushAll(t.Context()).Err())
		lost = w.n
		w.mustTell(7) // fewer than there were: the position in the process is ahead of their numbers
		return lost
	}
	w.mustArrive(s, empty()+1)
	w.mustRest("shop")
	p.stop()
	lost := empty()
	w.start(poster(s))
	w.mustArrive(s, lost+1)
	w.mustRest("shop")
}

// H9: a replica that has lost the newest facts, and the positions behind them, takes over. What happens afterwards is sent, by a process
// that was ahead of the replica, and the facts that the replica has are sent at least once.
func TestH9_AFailOverLosesFactsAndPositions(t *testing.T) {
	t.Parallel()
	first := storetest.Redis(t)
	second := storetest.Redis(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", first.Port()))
	proxy, url := storetest.ProxyTo(t, first.URL())
	w := setupFacts(t, storetest.Open(t, url))
	s := newReceiver(t, nil)
	hook, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	w.start(poster(s))
	w.mustTell(40)
	w.mustArrive(s, 1)
	w.mustRest("shop")
	positions := func(c redis.Cmdable) string {
		return fmt.Sprint(c.HGet(t.Context(), "ff:{test:0}:hook:"+hook.Series, "pos").Val(), c.HGet(t.Context(), "ff:{test:1}:hook:"+hook.Series, "pos").Val())
	}
	storetest.Eventually(t, soon, "the replica has the positions", func() bool {
		return positions(first.Client()) == positions(second.Client())
	})
	storetest.Must(t, second.Client().Do(t.Context(), "replicaof", "no", "one").Err())
	before := positions(second.Client())
	w.mustTell(20) // these are lost
	w.mustArrive(s, 41)
	w.mustRest("shop")
	if positions(first.Client()) == before {
		t.Fatal("the position is not ahead of the replica")
	}
	proxy.Redirect(second.Addr())
	proxy.Cut()
	first.Kill()
	proxy.Mend()
	lost := w.n
	w.mustTell(7)
	w.mustArrive(s, lost+1)
	w.mustRest("shop")
	if now := positions(second.Client()); now == before {
		t.Error("the position on record does not move")
	}
}
