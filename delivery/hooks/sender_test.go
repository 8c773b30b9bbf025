package hooks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
	"fanfare/store/webhooks"
)

// process runs a sender and its webhooks.
type process struct {
	*Sender
	stop func()
}

func (w *world) start(p *Poster, change ...func(*Options)) *process {
	return w.startWith(w.store(), p, change...)
}

// startWith is start with the webhooks of the process.
func (w *world) startWith(store *webhooks.Store, p *Poster, change ...func(*Options)) *process {
	s := w.sender(store, p)
	for _, f := range change {
		f(&s.o)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = store.Run(ctx) })
	all.Go(func() { _ = s.Run(ctx) })
	stop := func() { cancel(); all.Wait() }
	w.t.Cleanup(stop)
	return &process{s, stop}
}

// distinct are the facts that a receiver got, each once, in the order of the first time, by lane.
func (s *receiver) distinct() map[string][]int {
	seen, out := map[string]bool{}, map[string][]int{}
	for _, id := range s.facts() {
		if seen[id] {
			continue
		}
		seen[id] = true
		var lane, n int
		_, _ = fmt.Sscanf(id, "%d-%d-0", &lane, &n)
		key := strconv.Itoa(lane)
		out[key] = append(out[key], n)
	}
	return out
}

// mustHaveAll wants the first facts of each lane, in order, none left out.
func (s *receiver) mustHaveAll(lanes, facts int) {
	s.t.Helper()
	got := s.distinct()
	for lane := range lanes {
		have := got[strconv.Itoa(lane)]
		if len(have) != facts {
			s.t.Errorf("lane %d: %d facts of %d", lane, len(have), facts)
		}
		for i, n := range have {
			if i != n {
				s.t.Errorf("lane %d: fact %d comes as number %d", lane, n, i)
				break
			}
		}
	}
}

func (s *receiver) count() (n int) {
	for _, have := range s.distinct() {
		n += len(have)
	}
	return n
}

// H4: a webhook gets the facts of all lanes, and one that is made, changed, turned off or deleted while senders run
// is so within seconds.
func TestH4_WebhooksComeAndGo(t *testing.T) {
	t.Parallel()
	w := setup(t, 3)
	s := newReceiver(t, nil)
	w.start(poster(s))
	w.start(poster(s))
	_, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	for lane := range 3 {
		w.feed.add(lane, "a", "k", 25)
	}
	storetest.Eventually(t, soon, "all facts", func() bool { return s.count() == 75 })
	s.mustHaveAll(3, 25)

	_, second, err := w.AddSecret(t.Context(), "shop")
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "the new secret signs in each lane", func() bool {
		signatures := map[string]int{}
		for _, r := range s.got() {
			lane, _, _ := strings.Cut(r.Facts[0].ID, "-")
			signatures[lane] = strings.Count(r.header.Get("webhook-signature"), "v1,")
		}
		for lane := range 3 {
			w.feed.add(lane, "a", "k", 1)
		}
		return signatures["0"] == 2 && signatures["1"] == 2 && signatures["2"] == 2
	})
	s.expect(secret, second)
	before := s.count()
	w.feed.add(1, "a", "k", 1)
	storetest.Eventually(t, soon, "a fact that both have signed", func() bool { return s.count() > before })

	most := int64(10)
	_, _, err = w.Put(t.Context(), "shop", &api.WebhookRequest{URL: s.URL, Types: []string{"a"}, Max: &most, State: api.WebhookOff}, api.Match{})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "no lane is owned without a webhook", w.free)
	quiet := s.count()
	w.feed.add(2, "a", "k", 1)
	w.mustPut("shop", s.URL, 10)
	storetest.Eventually(t, soon, "what happened meanwhile", func() bool { return s.count() == quiet+1 })

	storetest.Must(t, w.Delete(t.Context(), "shop", api.Match{}))
	storetest.Eventually(t, soon, "no lane is owned", w.free)
}

// H4: a change of a webhook has its effect within three seconds.
func TestH4_AChangeHasItsEffectInTime(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	_, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	w.start(poster(s))
	turn := func(state api.WebhookState) {
		t.Helper()
		_, _, err := w.Put(t.Context(), "shop", &api.WebhookRequest{URL: s.URL, Types: []string{"a"}, Max: new(int64(10)), State: state}, api.Match{})
		storetest.Must(t, err)
	}
	storetest.InTime(t, 3*time.Second, "a webhook that is turned on gets a fact", func(n int) time.Duration {
		turn(api.WebhookOff)
		storetest.Eventually(t, soon, "no lane is owned", w.free)
		w.feed.add(0, "a", "k", 1)
		began := time.Now()
		turn(api.WebhookOn)
		storetest.Eventually(t, soon, "the fact", func() bool { return s.count() == n+1 })
		return time.Since(began)
	})
}

// H4: a change has its effect in time although the receiver does not answer the request that is under way.
func TestH4_AChangeDoesNotWaitForAReceiverThatHangs(t *testing.T) {
	t.Parallel()
	hangs := func(_ http.ResponseWriter, _ int, r *request) { <-r.hang }
	for name, change := range map[string]func(w *world, other string) error{
		"Changed": func(w *world, other string) error {
			_, _, err := w.Put(w.t.Context(), "shop", &api.WebhookRequest{URL: other, Types: []string{"a"}, Max: new(int64(10))}, api.Match{})
			return err
		},
		"Off": func(w *world, other string) error {
			_, _, err := w.Put(w.t.Context(), "shop", &api.WebhookRequest{URL: other, Types: []string{"a"}, Max: new(int64(10)), State: api.WebhookOff}, api.Match{})
			return err
		},
		"Deleted": func(w *world, _ string) error { return w.Delete(w.t.Context(), "shop", api.Match{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 1)
			silent, other := newReceiver(t, hangs), newReceiver(t, nil)
			p := poster(silent)
			p.timeout = time.Minute // it is not what ends the request
			w.start(p, func(o *Options) { o.Locks, o.Drain = NewLocks(w.redis), soon })
			facts := 0
			storetest.InTime(t, 3*time.Second, "the change has its effect", func(n int) time.Duration {
				w.mustPut("shop", silent.URL, 10)
				storetest.Eventually(t, soon, "the request that hangs", func() bool {
					w.feed.add(0, "a", "k", 1) // the other receiver may get the first ones, until the change is known
					facts++
					return len(silent.got()) == n+1
				})
				began := time.Now()
				storetest.Must(t, change(w, other.URL))
				if name == "Changed" {
					storetest.Eventually(t, soon, "the fact at the other receiver", func() bool { return other.count() == facts })
				} else {
					storetest.Eventually(t, soon, "no lane is owned", w.free)
				}
				return time.Since(began)
			})
		})
	}
}

// free reports whether no process owns a lane.
func (w *world) free() bool {
	w.t.Helper()
	for lane := range w.feed.Lanes() {
		a, err := w.sender(w.Store, nil).o.Locks.TryAcquire(w.t.Context(), strconv.Itoa(lane))
		if err != nil || a.Lease == nil {
			return false
		}
		_, err = a.Lease.Release(w.t.Context())
		storetest.Must(w.t, err)
	}
	return true
}

// H4: a process that dies leaves its lanes, and another one goes on when the lease ends.
func TestH4_FailOver(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	_, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	dead, err := w.sender(w.Store, nil).o.Locks.TryAcquire(t.Context(), "0") // it never renews the lease
	if err != nil || dead.Lease == nil {
		t.Fatalf("%+v %v", dead, err)
	}
	w.start(poster(s))
	w.feed.add(0, "a", "k", 5)
	storetest.Eventually(t, soon, "all facts", func() bool { return s.count() == 5 })
	if dead.Lease.Alive() {
		t.Error("the lane had two owners")
	}
}

// H4: a process that stops lets a request that is under way end, and its facts are not sent again. It does so for no longer than Drain: then
// another process sends them again.
func TestH4_AStopLetsARequestEnd(t *testing.T) {
	t.Parallel()
	facts := []string{"0-0-0", "0-1-0", "0-2-0"}
	for name, c := range map[string]struct {
		drain    time.Duration
		position string   // after the stop
		arrive   []string // at the receiver, in the end
	}{
		"Answered": {soon, "3", facts},
		"TooLate":  {time.Millisecond, "0", slices.Concat(facts, facts)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, 1)
			answer := make(chan struct{})
			s := newReceiver(t, func(_ http.ResponseWriter, n int, r *request) {
				if n == 0 {
					select {
					case <-answer:
					case <-r.hang:
					}
				}
			})
			shop, secret := w.mustPut("shop", s.URL, 10)
			s.expect(secret)
			w.feed.add(0, "a", "k", 3)
			p := poster(s)
			p.timeout = time.Minute // it is not what ends the request
			first := w.start(p, func(o *Options) { o.Locks, o.Drain = NewLocks(w.redis), c.drain })
			storetest.Eventually(t, soon, "the request", func() bool { return s.count() == 3 })
			ended := make(chan struct{})
			go func() { defer close(ended); first.stop() }()
			if name == "Answered" {
				storetest.Eventually(t, soon, "the process looks for no more facts", func() bool { return w.feed.listeners() == 0 })
				select {
				case <-ended:
					t.Error("the process has not waited for the answer")
				default:
				}
				close(answer)
			}
			select {
			case <-ended:
			case <-time.After(soon):
				t.Fatal("the process does not end")
			}
			all, err := w.Progress(t.Context(), shop.Series, 0)
			storetest.Must(t, err)
			if all[0].After != c.position || !all[0].FailingSince.IsZero() {
				t.Errorf("after the stop: %+v", all[0])
			}
			w.start(poster(s))
			w.feed.add(0, "a", "k", 1)
			storetest.Eventually(t, soon, "the next fact", func() bool { return s.count() == 4 })
			if want := append(slices.Clone(c.arrive), "0-3-0"); !slices.Equal(s.facts(), want) {
				t.Errorf("%v arrived, not %v", s.facts(), want)
			}
		})
	}
}

// H7: a secret that has ended signs nothing more, also while a webhook is not changed.
func TestH7_AnEndedSecretSignsNoMore(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	_, first := w.mustPut("shop", s.URL, 10)
	_, second, err := w.AddSecret(t.Context(), "shop")
	storetest.Must(t, err)
	s.expect(first, second)
	w.start(poster(s))
	w.feed.add(0, "a", "k", 1)
	storetest.Eventually(t, soon, "a fact that both have signed", func() bool { return s.count() == 1 })
	s.expect(second)
	storetest.ExecSQLite(t, w.url, "UPDATE webhooks SET old_secrets = ?", `[{"secret":"`+first+`","until":1}]`)
	// All webhooks are read again, at the latest after a minute, and now because there is another one.
	_, _, err = w.Put(t.Context(), "other", &api.WebhookRequest{URL: s.URL, Types: []string{"a"}, State: api.WebhookOff}, api.Match{})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "a fact that only the new one has signed", func() bool {
		w.feed.add(0, "a", "k", 1)
		got := s.got()
		return strings.Count(got[len(got)-1].header.Get("webhook-signature"), "v1,") == 1
	})
}

// H4: a receiver that is away holds up its own webhook alone.
func TestH4_OneReceiverIsAway(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	away := newReceiver(t, func(_ http.ResponseWriter, _ int, r *request) { <-r.hang })
	s := newReceiver(t, nil)
	p := poster(s)
	_, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	w.mustPut("away", away.URL, 10)
	w.start(p)
	w.feed.add(0, "a", "k", 1)
	storetest.Eventually(t, soon, "the first fact", func() bool { return s.count() == 1 })
	for i := range 20 {
		w.feed.add(i%2, "a", "k", 1)
		began := time.Now()
		storetest.Eventually(t, soon, "the next fact", func() bool { return s.count() == i+2 })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	}
}

// H4: whatever receivers answer and whichever processes stop, each fact arrives, in the order of its lane.
func TestH4_Chaos(t *testing.T) {
	t.Parallel()
	const lanes, facts = 4, 500
	w := setup(t, lanes)
	s := newReceiver(t, func(rw http.ResponseWriter, n int, _ *request) {
		switch r := rand.IntN(20); {
		case n%50 > 40: // mostly well, so that backoffs stay short
		case r == 0:
			rw.WriteHeader(500)
		case r == 1:
			panic(http.ErrAbortHandler) // it has the facts, and says nothing
		case r == 2:
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(429)
		case r == 3:
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) //nolint:forbidigo // the receiver is late
		}
	})
	_, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			p := w.start(poster(s))
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(700)) * time.Millisecond):
				p.stop()
			}
		}
	})
	w.start(poster(s))
	for range facts / 10 {
		for lane := range lanes {
			w.feed.add(lane, "a", "k", 10)
		}
		<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	storetest.Eventually(t, 2*time.Minute, "all facts", func() bool { return s.count() == lanes*facts })
	close(stop)
	all.Wait()
	s.mustHaveAll(lanes, facts)
	if len(w.buried) > 0 {
		t.Errorf("buried %v", w.buried)
	}
}

// H9: while Redis is away nothing is lost, and sending goes on by itself.
func TestH9_RedisAway(t *testing.T) {
	t.Parallel()
	w := setup(t, 2)
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	w.redis = storetest.Open(t, url)
	w.Store = w.store()
	s := newReceiver(t, nil)
	_, secret := w.mustPut("shop", s.URL, 10)
	s.expect(secret)
	w.start(poster(s))
	add := func() {
		for lane := range 2 {
			w.feed.add(lane, "a", "k", 50)
		}
	}
	add()
	storetest.Eventually(t, soon, "the first facts", func() bool { return s.count() == 100 })
	proxy.Cut()
	add()
	storetest.Eventually(t, soon, "Redis is away", func() bool {
		_, err := w.Progress(t.Context(), "s", 0)
		return api.Passing(err)
	})
	proxy.Mend()
	add()
	storetest.Eventually(t, time.Minute, "all facts", func() bool { return s.count() == 300 })
	s.mustHaveAll(2, 150)
}

// Webhooks with nothing to send cost a look at the end of each lane, however many they are, and hear of a new fact at once.
func TestManyWebhooksAtRest(t *testing.T) {
	t.Parallel()
	const lanes, hooks, seconds = 2, 30, 6
	w := setup(t, lanes)
	s := newReceiver(t, nil)
	for n := range hooks {
		w.mustPut(fmt.Sprint("hook", n), s.URL, 10)
	}
	w.start(poster(s), func(o *Options) { o.Locks = NewLocks(w.redis) }) // lanes stay where they are, also on a busy machine
	storetest.Eventually(t, soon, "all read", func() bool { reads, _ := w.feed.calls(); return reads >= lanes*hooks })
	reads, looks := w.feed.calls()
	storetest.Eventually(t, soon, "some seconds are over", func() bool { _, now := w.feed.calls(); return now >= looks+lanes*seconds })
	if now, _ := w.feed.calls(); now-reads > lanes*hooks*seconds*2/3 {
		t.Errorf("%d webhooks at rest read %d times while the ends of %d lanes were looked at %d times", hooks, now-reads, lanes, seconds)
	}
	w.feed.add(1, "a", "k", 1)
	storetest.Eventually(t, soon, "all are told", func() bool {
		told := map[string]bool{}
		for _, r := range s.got() {
			told[r.Webhook] = true
		}
		return len(told) == hooks
	})
}
