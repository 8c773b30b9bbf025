package targeting_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/targeting"
	"fanfare/delivery/transport"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// underWay is how many notifications of slowApp are under way in a world of hung.
const underWay = 150

// hung is a world with fans of two apps, of which slowApp does not answer before release is called, and has all under way
// that an app may have that hangs.
func hung(t *testing.T, fans int, o options) (p *pipeline, s *scripted, release func()) {
	t.Helper()
	answers := make(chan bool)
	release = sync.OnceFunc(func() { close(answers) })
	o.delivery = func(d *delivery.Options) { d.MaxAge = o.maxAge }
	o.target = func(to *targeting.Options) { to.MaxAge = o.maxAge }
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
				p, s, _ := hung(t, users, options{maxAge: age, queue: func(o *queue.Options) { o.MaxAge = age }})
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
