package targeting_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustCancel cancels an event in another process, and returns when that was answered.
func (p *pipeline) mustCancel(id string) time.Time {
	p.Helper()
	f := p.first
	other := events.New(events.Options{DB: p.db, Queue: f.queueOfEvents, Notifications: f.queueOfNotes, Record: p.rec})
	r, made, err := other.Cancel(p.Context(), id)
	if err != nil || !made || r.State != api.EventCancelled {
		p.Fatalf("%+v, %t, %v", r, made, err)
	}
	return time.Now()
}

// mustSettle waits until nothing is left to do, and returns the report of a cancelled event, of which each
// notification has ended once.
func (p *pipeline) mustSettle(id string) *api.EventReport {
	p.Helper()
	storetest.Eventually(p, soon, "nothing is left to do", func() bool {
		for _, q := range []*queue.Queue{p.first.queueOfEvents, p.first.queueOfNotes} {
			if s, err := q.Stats(p.Context()); err != nil || s.Depth+s.Blocked+s.Scheduled+s.InFlight+s.Parked > 0 {
				return false
			}
		}
		return true
	})
	r := p.mustReport(id)
	if r.State != api.EventCancelled || r.Delivered+r.Failed+r.Expired+r.Cancelled != r.Notifications || r.Retrying != 0 {
		p.Errorf("report %+v", r)
	}
	if r.Notifications > 0 && r.Platforms[api.PlatformAPNs] != r.PlatformCounts {
		p.Errorf("APNs' part of %+v", r)
	}
	return r
}

// mustBeOld waits until a time is over a second ago.
func (p *pipeline) mustBeOld(at time.Time) {
	p.Helper()
	storetest.Eventually(p, soon, "a second", func() bool { return time.Since(at) > 1100*time.Millisecond })
}

// N11: nothing is made of an event that is cancelled before it is targeted, whether it is scheduled or waits.
func TestN11_BeforeTargeting(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		for _, name := range []string{"Scheduled", "Waiting", "Large"} {
			t.Run(fmt.Sprint(name, "/", waits), func(t *testing.T) {
				t.Parallel()
				p := setup(t, options{idle: true, waits: waits})
				p.mustManyDevices(300)
				users := []string{"fan000001"}
				if name == "Large" {
					users = nil
					for n := range 300 {
						users = append(users, fmt.Sprintf("fan%06d", n))
					}
				}
				r := hello(users...)
				if name == "Scheduled" {
					at := api.At(time.Now().Add(3 * time.Second))
					r.SendAt = &at
				}
				id, other := p.mustPost(r), p.mustPost(hello("fan000002"))
				at := p.mustCancel(id)
				if name != "Scheduled" {
					p.mustBeOld(at)
				}
				p.first.start()
				p.mustCounts(p.mustEnd(other, api.EventDone), counts{1, 1, 1, 0, 0})
				p.mustCounts(p.mustSettle(id), counts{})
				if n := p.apns.Total(); n != 1 {
					t.Errorf("%d requests, want that of the other event", n)
				}
			})
		}
	}
}

// N11: a large audience is cancelled while its pages are split and its parts are sent. No further page and part
// begins, and nothing is written a second later.
func TestN11_InTheMiddleOfAFanOut(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			t.Parallel()
			eachFanOut(t, func(t *testing.T, f fanOut) {
				s, sender := watching()
				p := setup(t, options{sender: sender, waits: waits})
				const fans = 3000
				p.mustManyDevices(fans)
				p.apns.SetLatency(200*time.Millisecond, 0)
				id := p.mustPost(f.event())
				storetest.Must(t, p.apns.WaitTotal(20, soon))
				at := p.mustCancel(id)
				r := p.mustSettle(id)
				if r.Delivered == 0 || r.Failed+r.Expired > 0 || int64(p.apns.Total()) != r.Delivered {
					t.Errorf("report %+v, %d requests", r, p.apns.Total())
				}
				t.Logf("%d delivered, %d cancelled, of %d fans", r.Delivered, r.Cancelled, fans)
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, written := range s.written {
					if late := written.Sub(at); late > time.Second {
						t.Errorf("written %v after the cancel", late)
					}
				}
			})
		})
	}
}

// N11: notifications to a slow device are cancelled while they wait in the process, one behind the other.
func TestN11_NothingIsWrittenLater(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			t.Parallel()
			s, sender := watching()
			p := setup(t, options{sender: sender, waits: waits})
			p.apns.SetLatency(time.Second, 0)
			p.mustDevice("bob", 1)
			var ids []string
			var gone []time.Time
			for range 6 {
				ids = append(ids, p.mustPost(hello("bob")))
			}
			storetest.Must(t, p.apns.WaitTotal(1, soon))
			for _, id := range ids {
				_, _, err := p.first.events.Cancel(t.Context(), id)
				if gone = append(gone, time.Now()); api.CodeOf(err) == api.CodeTooLate {
					continue
				}
				storetest.Must(t, err)
			}
			var delivered int64
			for _, id := range ids[1:] {
				if r := p.mustReport(id); r.State == api.EventCancelled {
					r = p.mustSettle(id)
					delivered += r.Delivered
				}
			}
			if delivered > 1 {
				t.Errorf("%d were delivered after the first", delivered)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for i, id := range ids {
				if at, written := s.written[events.NotificationID(id, token(1))]; written && at.Sub(gone[i]) > time.Second {
					t.Errorf("written %v after the cancel", at.Sub(gone[i]))
				}
			}
		})
	}
}

// N11: notifications that wait for their app, for a device that backs off, or for another try, count as cancelled
// and are not tried.
func TestN11_WhileNotificationsWait(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]apnstest.Answer{
		"Paused":   apnstest.Fail(403, "InvalidProviderToken"),
		"Backoff":  {Status: 429, Reason: "TooManyRequests", RetryAfter: "2"},
		"Retrying": {Status: 500, Reason: "InternalServerError", RetryAfter: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = 2 * time.Second }})
			p.mustDeviceOf("bob", token(1), badTopic)
			p.mustDeviceOf("bob", token(2), goodTopic)
			p.apns.ScriptTopic(badTopic, answer)
			id := p.mustPost(hello("bob"))
			storetest.Eventually(t, soon, "one waits", func() bool { r := p.mustReport(id); return r.Retrying == 1 && r.Delivered == 1 })
			p.mustCancel(id)
			tried := p.requests(badTopic)
			if r := p.mustSettle(id); r.Delivered != 1 || r.Cancelled != 1 {
				t.Errorf("report %+v", r)
			}
			if n := p.requests(badTopic); n > tried+1 { // one may have been written within the second
				t.Errorf("%d requests after the cancel", n-tried)
			}
		})
	}
}

// N11: a notification that is a dead letter has failed. If it is tried again it is not sent, and counts as cancelled.
func TestN11_ADeadLetterIsTriedAgain(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.mustDeviceOf("bob", token(2), badTopic)
	p.apns.ScriptTopic(badTopic, apnstest.Answer{Status: 429, Reason: "TooManyRequests", RetryAfter: "1"})
	p.apns.Script(token(1), apnstest.Fail(400, "BadMessageId"))
	id := p.mustPost(hello("bob"))
	storetest.Eventually(t, soon, "it is dead", func() bool { return p.mustReport(id).Failed == 1 })
	p.mustCancel(id)
	if r := p.mustSettle(id); r.Failed != 1 || r.Cancelled != 1 {
		t.Errorf("report %+v", r)
	}
	dead, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
	if err != nil || len(dead.Items) != 1 {
		t.Fatalf("%+v, %v", dead, err)
	}
	_, _, err = p.first.queueOfNotes.RetryDead(t.Context(), dead.Items[0].ID, queue.Once{})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "it is tried again", func() bool { r := p.mustReport(id); return r.Cancelled == 2 && r.Failed == 0 })
}

// N11: a process dies with one notification of a cancelled event under way, whether of the event, or of a part. Those
// that have ended are counted as what they were, and the one that another process takes over as cancelled.
func TestN11_TakenOver(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]int{"AtOnce": 50, "Parts": 150} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, queue: func(o *queue.Options) { o.Lease = 6 * time.Second }})
			p.mustManyDevices(many)
			p.apns.Script(token(1_000_003), apnstest.Failing(apnstest.Hang), apnstest.OK())
			own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
			storetest.Must(t, err)
			p.processOn(own).start()
			id := p.mustPost(hello(fans(many)...))
			storetest.Eventually(t, soon, "all ends but one to be on record", func() bool {
				marks := p.mustKeys("ff:{q:events:*}:marks:*")
				return len(marks) == 1 && int(p.db.Client().HLen(t.Context(), marks[0]).Val())+int(p.mustReport(id).Delivered)/50*50 >= many-1
			})
			p.mustCancel(id)
			storetest.Must(t, own.Close()) // from now on this process does not reach Redis
			p.process().start()
			if r := p.mustSettle(id); r.Notifications != int64(many) || r.Delivered != int64(many)-1 || r.Cancelled != 1 {
				t.Errorf("report %+v", r)
			}
			if n := p.apns.Total(); n != many {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// N11: a process that cannot read which events are cancelled sends nothing that is older than a second. An event that
// it has just accepted itself costs no reading, unless it comes back to it out of the queue, as some do under load.
func TestN11_ReadingWhatIsCancelled(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.URL())
	var cut atomic.Bool
	var reads atomic.Int64
	p := setup(t, options{events: func(e *events.Options) {
		readings := func(c redis.Cmder) string {
			if c.Name() == "xrange" && strings.HasSuffix(fmt.Sprint(c.Args()[1]), ":cancelled") {
				return c.Name()
			}
			return ""
		}
		e.DB = storetest.FaultyBy(t, db, readings, func(_ string, answered bool) error {
			if answered {
				return nil
			}
			if reads.Add(1); cut.Load() {
				return storetest.ErrCut
			}
			return nil
		})
	}})
	p.mustDevice("bob", 1)
	quick, looked := 0, 0
	for range 20 {
		began := time.Now()
		p.mustCounts(p.mustEnd(p.mustPost(hello("bob")), api.EventDone), counts{1, 1, 1, 0, 0})
		if n := reads.Swap(0); time.Since(began) < time.Second {
			quick++
			looked += min(1, int(n))
		}
	}
	if looked > quick/4 {
		t.Errorf("%d of %d new events were looked up", looked, quick)
	}
	cut.Store(true)
	r := hello("bob")
	at := api.At(time.Now().Add(2 * time.Second))
	r.SendAt = &at
	sent, id := p.apns.Total(), p.mustPost(r)
	storetest.Eventually(t, soon, "the event to wait", func() bool { return reads.Load() > 3 })
	if n := p.apns.Total(); n != sent {
		t.Errorf("%d requests while it is not known", n-sent)
	}
	cut.Store(false)
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
}
