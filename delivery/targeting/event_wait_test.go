package targeting_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/targeting"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// underWay is how many notifications of slowApp are under way in a world of hung.
const underWay = 100

// hung is a world with fans of two apps, of which slowApp does not answer before release is called, and has all under way
// that an app may have that hangs.
func hung(t *testing.T, fans int, o options) (p *pipeline, s *scripted, release func()) {
	t.Helper()
	answers := make(chan bool)
	release = sync.OnceFunc(func() { close(answers) })
	p, s = twoApps(t, fans, o, func(*transport.Notification) transport.Answer {
		<-answers
		return transport.Answer{Outcome: transport.Delivered, Status: 200, Took: time.Millisecond}
	})
	t.Cleanup(release) // before the process is stopped
	for i := range underWay / api.MaxDevices {
		user := fmt.Sprint("first", i)
		for n := range api.MaxDevices {
			p.mustDeviceOf(user, token(i*api.MaxDevices+n), slowApp)
		}
		p.mustPost(hello(user))
	}
	storetest.Eventually(t, soon, "the app to have much under way", func() bool { return len(s.sent()) == underWay })
	began := time.Now()
	storetest.Eventually(t, soon, "the app to count as one that hangs", func() bool { return time.Since(began) > 2500*time.Millisecond })
	return p, s, release
}

// mustWait waits until most of so many events wait in their queue, and checks that nothing waits in that of notifications.
func (p *pipeline) mustWait(events int64) {
	p.Helper()
	storetest.Eventually(p, soon, "the events to wait", func() bool {
		stats, err := p.first.queueOfEvents.Stats(p.Context())
		return err == nil && stats.Scheduled > events*9/10
	})
	if stats, err := p.first.queueOfNotes.Stats(p.Context()); err != nil || stats.Depth+stats.Scheduled > 0 {
		p.Errorf("%+v, %v: notifications are stored", stats, err)
	}
}

// P5: an app hangs, and each event of a burst has many devices of it. The devices of the other app get their events at once.
// The others wait as one job for each event, and take no memory of Redis for each device. When the app answers again
// they get their events, each once.
func TestP5_AnEventWithoutRoomWaitsAsOne(t *testing.T) {
	t.Parallel()
	const each, posts, mostBytes = 100, 100, 10 << 10
	p, s, release := hung(t, each, options{sqlTime: time.Minute, noFacts: true})
	for _, user := range fans(each) {
		p.mustCache(user)
	}
	before, began := storetest.UsedMemory(t, p.db), time.Now()
	var ids []string
	for range posts {
		ids = append(ids, p.mustPost(hello(fans(each)...)))
	}
	storetest.Eventually(t, soon, "the devices of the app that is well to get all events", func() bool { return len(s.sent()) == underWay+posts*each/2 })
	t.Logf("the other app's devices had their events after %v", time.Since(began))
	p.mustWait(posts)
	if grown := (storetest.UsedMemory(t, p.db) - before) / posts; grown > mostBytes {
		t.Errorf("an event takes %d bytes of Redis while its app hangs, at most %d", grown, mostBytes)
	} else {
		t.Logf("%d bytes for each event", grown)
	}
	for _, id := range ids {
		if r := p.mustReport(id); r.State != api.EventTargeting || r.Notifications != each/2 || r.Delivered != each/2 {
			t.Fatalf("while the others wait: %+v", r)
		}
	}
	release()
	for _, id := range ids {
		p.mustCounts(p.mustEndTrue(id, counts{each, each, each, 0, 0}), counts{each, each, each, 0, 0})
	}
	got := map[string]int{}
	for _, n := range s.sent() {
		got[n.ID]++
	}
	if len(got) != underWay+posts*each || len(s.sent()) != len(got) {
		t.Errorf("%d notifications were sent %d times, want %d", len(got), len(s.sent()), underWay+posts*each)
	}
}

// P5: few devices of an event that have no room are jobs of their own, so that it can be told what they wait for (N10).
func TestN10_FewDevicesWithoutRoomTellWhy(t *testing.T) {
	t.Parallel()
	p, _, release := hung(t, 8, options{})
	id := p.mustPost(hello(fans(8)...))
	storetest.Eventually(t, soon, "one to wait", func() bool {
		e := p.mustUserEvent(id, "fan000001")
		return len(e.Notifications) == 1 && e.Notifications[0].State == api.NotificationWaiting
	})
	if e := p.mustUserEvent(id, "fan000001"); !strings.HasPrefix(delivery.WindowFull, e.Notifications[0].Reason) || e.Notifications[0].Reason == "" {
		t.Errorf("%+v", e.Notifications)
	}
	release()
	p.mustCounts(p.mustEndTrue(id, counts{8, 8, 8, 0, 0}), counts{8, 8, 8, 0, 0})
}

// Q10, P8: notifications of an event, or of a part, that waits for room expire with it, without becoming jobs. There is no
// dead letter.
func TestP8_AnEventThatWaitsForRoomExpires(t *testing.T) {
	t.Parallel()
	for name, users := range map[string]int{"Event": 60, "Parts": 160} {
		for how, age := range map[string]time.Duration{"MaxAge": 6 * time.Second, "ExpiresAt": time.Hour} {
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				p, s, _ := hung(t, users, options{maxAge: age})
				e := hello(fans(users)...)
				if how == "ExpiresAt" {
					e.ExpiresAt = new(api.At(time.Now().Add(6 * time.Second)))
				}
				id, half := p.mustPost(e), int64(users/2)
				storetest.Eventually(t, soon, "the devices of the app that is well to get it", func() bool { return len(s.sent()) == underWay+int(half) })
				want := counts{int64(users), int64(users), half, 0, half}
				p.mustCounts(p.mustEndTrue(id, want), want)
				if n := p.storedOf(id); n > 0 {
					t.Errorf("%d notifications became jobs", n)
				}
				if slices.ContainsFunc(s.sent()[underWay:], func(n transport.Notification) bool { return n.Topic == slowApp }) {
					t.Error("the app that hangs was sent to")
				}
			})
		}
	}
}

// mustHaveNoDeadLetter fails if an event or a part has become a dead letter.
func (p *pipeline) mustHaveNoDeadLetter() {
	p.Helper()
	list, err := queue.DeadLetters(p.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfEvents)
	storetest.Must(p, err)
	if len(list.Items) > 0 {
		p.Errorf("%d dead letters, the first %+v", len(list.Items), list.Items[0])
	}
}

// P8: more parts than ask SQL at a time wait for room until they are too old, and all come to their end together. All expire.
func TestP8_ManyPartsEndTogether(t *testing.T) {
	t.Parallel()
	const users, age = 2500, 8 * time.Second
	p, s, _ := hung(t, users, options{maxAge: age, sqlTime: time.Minute, slowFans: "1", target: func(o *targeting.Options) { o.InFlight = 40 }})
	id, want := p.mustPost(hello(fans(users)...)), counts{users, users, 0, 0, users}
	p.mustCounts(p.mustEndTrue(id, want), want)
	p.mustHaveNoDeadLetter()
	if n := len(s.sent()); n != underWay {
		t.Errorf("%d notifications were sent", n)
	}
}

// P8: the audience of an event that waits for room cannot be read when the event is too old. The event waits until it can be
// read, and its notifications expire.
func TestP8_AnEventExpiresWhenItsAudienceIsReadAgain(t *testing.T) {
	t.Parallel()
	const users, age = 60, 6 * time.Second
	var away atomic.Bool
	var asked atomic.Int64
	p, s, _ := hung(t, users, options{maxAge: age, slowFans: "1", target: func(o *targeting.Options) {
		o.Pagers = map[string]targeting.Pager{events.KindContactsOf: func(context.Context, string, string, int) ([]string, error) {
			asked.Add(1)
			if away.Load() {
				return nil, api.Errorf(api.CodeUnavailable, "SQL is away")
			}
			return fans(users), nil
		}}
	}})
	id := p.mustPost(contactsOf("star"))
	p.mustWait(1)
	away.Store(true)
	before := asked.Load()
	storetest.Eventually(t, soon, "its end to be tried again and again", func() bool { return asked.Load() > before+2 })
	away.Store(false)
	want := counts{users, users, 0, 0, users}
	p.mustCounts(p.mustEndTrue(id, want), want)
	p.mustHaveNoDeadLetter()
	if n := len(s.sent()); n != underWay {
		t.Errorf("%d notifications were sent", n)
	}
}

// P8, H1: SQL is away for so long that a part is given up. Its event is over, and that is told. When the part's dead letter is tried again,
// its users get the event.
func TestP8_APartThatIsGivenUpForItsAgeIsOver(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
	p := setup(t, options{sql: url, sqlTime: time.Minute, queue: func(o *queue.Options) { o.MaxAge, o.RetryMax = 2*time.Second, 200*time.Millisecond }})
	p.mustDevice("fan000000", 0)
	p.mustType("hello", api.EventTypeRequest{Title: "Hello"}) // events of a type that is not known need SQL
	storetest.Must(t, p.db.Client().Del(t.Context(), "ff:{u:fan000000}:settings").Err())
	proxy.Cut()
	id := p.mustPost(hello(fans(101)...))
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{})
	storetest.Eventually(t, soon, "that to be told", func() bool {
		return slices.ContainsFunc(p.mustFacts(t.Context())[id], func(f api.Fact) bool { return f.Type == api.FactEventDone })
	})
	proxy.Mend()
	list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfEvents)
	storetest.Must(t, err)
	for _, l := range list.Items {
		if l.Reason != "max_age" {
			t.Errorf("%+v", l)
		}
		_, _, err := p.first.queueOfEvents.RetryDead(t.Context(), l.ID, queue.Once{})
		storetest.Must(t, err)
	}
	storetest.Eventually(t, soon, "the part to be sent", func() bool { return p.mustReport(id).Delivered == 1 })
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{101, 1, 1, 0, 0})
}

// W17: some users of an event cannot be read while others lack room. Those get it as soon as they can be read, although the
// app of the others still hangs.
func TestW17_WhoCouldNotBeReadWaitsForNoOtherApp(t *testing.T) {
	t.Parallel()
	for name, users := range map[string][]string{"NothingBegun": {"slow", "late"}, "SomeBegun": {"slow", "well", "late"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
			p, s, release := hung(t, 0, options{sql: url, sqlTime: time.Minute})
			for n := range 10 {
				p.mustDeviceOf("slow", token(10_000+n), slowApp)
			}
			p.mustDevice("well", 20_000)
			p.mustDevice("late", 30_000)
			p.mustCache("slow")
			p.mustCache("well")
			p.mustType("hello", api.EventTypeRequest{Title: "Hello"}) // events of a type that is not known need SQL
			storetest.Must(t, p.db.Client().Del(t.Context(), "ff:{u:late}:settings").Err())
			proxy.Cut()
			id := p.mustPost(hello(users...))
			p.mustWait(1)
			proxy.Mend()
			got := func(token string) (n int) {
				for _, one := range s.sentAfter(underWay) {
					if one.Token == token {
						n++
					}
				}
				return n
			}
			storetest.Eventually(t, soon, "the user who could not be read to get it", func() bool { return got(token(30_000)) == 1 })
			release()
			n := int64(9 + len(users))
			want := counts{int64(len(users)), n, n, 0, 0}
			p.mustCounts(p.mustEndTrue(id, want), want)
			if got(token(30_000)) != 1 || got(token(20_000)) != len(users)-2 {
				t.Errorf("%+v", s.sentAfter(underWay))
			}
		})
	}
}

// G3: parts of an update wait for an app that hangs when a newer update of the object begins. They end without waiting any longer.
func TestG3_APartThatWaitsForRoomIsSuperseded(t *testing.T) {
	t.Parallel()
	const users = 160
	answers := make(chan bool)
	p, s := twoApps(t, 0, options{sqlTime: time.Minute}, func(*transport.Notification) transport.Answer {
		<-answers
		return transport.Answer{Outcome: transport.Delivered, Status: 200, Took: time.Millisecond}
	})
	t.Cleanup(func() { close(answers) }) // before the process is stopped
	update := func(object string, n int) *api.EventRequest {
		e := score(n)
		e.Audience.ActivitiesOf = object
		return e
	}
	for n := range 2 * users {
		p.mustActivity(fmt.Sprint("fan", n), n, func(r *api.ActivityRequest) { r.Topic, r.Object = slowApp, fmt.Sprint("match:", n%2) })
	}
	p.mustPost(update("match:0", 1))
	storetest.Eventually(t, soon, "much to be under way", func() bool { return len(s.sent()) >= underWay })
	began := time.Now()
	storetest.Eventually(t, soon, "the app to count as one that hangs", func() bool { return time.Since(began) > 2500*time.Millisecond })
	sent := len(s.sent()) // all of the first, unless the machine is so busy that the app hung before
	first := p.mustPost(update("match:1", 1))
	p.mustWait(2)
	p.mustPost(update("match:1", 2))
	if r := p.mustEnd(first, api.EventDone); r.Superseded != users || r.Notifications != users {
		t.Errorf("%+v", r)
	}
	if n := len(s.sent()); n != sent {
		t.Errorf("%d were sent, want %d", n, sent)
	}
}

// P5: an app is at its limit, and newer events come as fast as it takes them. An older event to many devices, of which more wait than
// the app takes within the patience of one that waits, gets its turn.
func TestP5_AnEventThatWaitsIsNotOvertakenForEver(t *testing.T) {
	t.Parallel()
	const inFlight, answer, devices, others = 120, time.Second, api.MaxDevices, 100
	s := &scripted{answer: func(*transport.Notification) transport.Answer {
		took := rand.N(answer) + answer
		<-time.After(took)
		return transport.Answer{Outcome: transport.Delivered, Status: 200, Took: took}
	}}
	p := setup(t, options{sender: func(*pipeline) transport.Sender { return s }, delivery: func(o *delivery.Options) { o.InFlight = inFlight }, noFacts: true})
	for n := range devices {
		p.mustDevice("old", n)
	}
	p.mustCache("old")
	var newer []api.EventRequest
	for n := range others {
		user := fmt.Sprint("new", n)
		p.mustDevice(user, devices+n)
		p.mustCache(user)
		newer = append(newer, *hello(user))
	}
	const aBatch, every = 20, 100 * time.Millisecond // twice as many as the app takes
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			from := n * aBatch % others
			p.mustPostBatch(newer[from : from+aBatch]...)
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
		}
	}()
	end := sync.OnceFunc(func() { close(stop); <-stopped })
	t.Cleanup(end)
	storetest.Eventually(t, soon, "the app to be at its limit", func() bool {
		stats, err := p.first.queueOfNotes.Stats(t.Context())
		return err == nil && stats.Scheduled > 2*inFlight
	})
	before, began := len(s.sent()), time.Now()
	id := p.mustPost(hello("old"))
	storetest.Eventually(t, 45*time.Second, "the older event to have begun while newer ones come", func() bool {
		return p.mustReport(id).Notifications == devices
	})
	t.Logf("after %v and %d newer notifications", time.Since(began), len(s.sent())-before)
	end()
	p.mustEnd(id, api.EventDone)
}

// P6: while SQL hangs, an event waits for room whose audience is in SQL. It does not wait for SQL: it ends in its time.
func TestP6_WhatLacksRoomDoesNotWaitForSQL(t *testing.T) {
	t.Parallel()
	const users = 60
	reading, hang := make(chan bool), make(chan bool)
	p, _, _ := hung(t, users, options{slowFans: "1", queue: func(o *queue.Options) { o.Shards = 1 }, target: func(o *targeting.Options) {
		o.Pagers = map[string]targeting.Pager{events.KindContactsOf: func(_ context.Context, id, _ string, _ int) ([]string, error) {
			if id == "nobody" {
				close(reading)
				<-hang
				return nil, nil
			}
			return fans(users), nil
		}}
	}})
	t.Cleanup(sync.OnceFunc(func() { close(hang) })) // before the process is stopped
	e := contactsOf("star")
	e.ExpiresAt = new(api.At(time.Now().Add(8 * time.Second)))
	id := p.mustPost(e)
	p.mustWait(1)
	p.mustPost(contactsOf("nobody"))
	<-reading
	p.mustEnd(id, api.EventExpired)
}

// N10: an event that waits as one job for room tells nothing of its devices, and the metric says which app has no room.
func TestN10_AnEventThatWaitsForRoom(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	p, _, release := hung(t, 60, options{slowFans: "1", delivery: func(o *delivery.Options) { o.Metrics = delivery.NewMetrics(registry, nil) }})
	id := p.mustPost(hello(fans(60)...))
	p.mustWait(1)
	if e := p.mustUserEvent(id, "fan000001"); e.State != api.EventQueued || len(e.Notifications) > 0 || !e.OutcomesKept {
		t.Errorf("%+v", e)
	}
	families, err := registry.Gather()
	storetest.Must(t, err)
	var app string
	for _, f := range families {
		if f.GetName() == "fanfare_apns_no_room_total" {
			app = f.GetMetric()[0].GetLabel()[0].GetValue()
			if n := f.GetMetric()[0].GetCounter().GetValue(); n < 1 {
				t.Errorf("%v times without room", n)
			}
		}
	}
	if !strings.Contains(app, slowApp) {
		t.Errorf("the app %q has no room", app)
	}
	release()
	p.mustCounts(p.mustEndTrue(id, counts{60, 60, 60, 0, 0}), counts{60, 60, 60, 0, 0})
}
