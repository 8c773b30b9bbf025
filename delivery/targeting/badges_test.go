package targeting_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/targeting"
	"fanfare/delivery/transport"
	"fanfare/store/badges"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustBadgeType makes event types that raise the badge, and that show it.
func (p *pipeline) mustBadgeTypes() {
	p.Helper()
	for _, mode := range []api.BadgeMode{api.BadgeAdd, api.BadgeCount} {
		p.mustType(string(mode), api.EventTypeRequest{Title: "T", Badge: mode})
	}
}

// mustPostOf posts an event of a type to users.
func (p *pipeline) mustPostOf(typ string, users ...string) string {
	p.Helper()
	return p.mustPost(&api.EventRequest{Type: typ, Audience: api.Audience{Users: users}})
}

// badgeIn is the number in a payload for APNs, -1 for none.
func badgeIn(t testing.TB, payload []byte) int {
	t.Helper()
	read := struct{ APS struct{ Badge *int } }{}
	storetest.Must(t, json.Unmarshal(payload, &read))
	if read.APS.Badge == nil {
		return -1
	}
	return *read.APS.Badge
}

// mustShow compares the numbers that the devices with these tokens were sent, in the order of the sends.
func (p *pipeline) mustShow(want map[int][]int) {
	p.Helper()
	for n, numbers := range want {
		var got []int
		for _, r := range p.apns.Of(token(n)) {
			got = append(got, badgeIn(p, r.Payload))
		}
		if !slices.Equal(got, numbers) {
			p.Errorf("device %d was sent the numbers %v, want %v", n, got, numbers)
		}
	}
}

func (p *pipeline) mustBadge(user string, want int64) {
	p.Helper()
	b, err := p.badges().Get(p.Context(), user)
	if err != nil || b.Count != want {
		p.Errorf("the badge of %s is %+v, %v; want %d", user, b, err, want)
	}
}

// badges are those of the set-up, for the test itself: a busy machine may keep Redis from answering in time.
func (p *pipeline) badges() *badges.Store {
	p.Helper()
	if p.shown == nil {
		p.shown = badges.New(storetest.Faulty(p, p.db, func(string, bool) error { return nil }), badges.Options{})
	}
	return p.shown
}

// B1: an event raises the badge of each user who is sent to once, whatever the number of devices, and all of them show the
// same number. It raises none of users who are left out.
func TestB1_ThreeDevicesRaiseItOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p := setup(t, options{db: db})
		p.mustBadgeTypes()
		for n, user := range []string{"bob", "bob", "bob", "eve", "out"} {
			p.mustDevice(user, n)
		}
		storetest.Must(t, p.first.devices.PutOptOut(t.Context(), "out", "add"))
		_, _, err := p.badges().Set(t.Context(), "eve", 10, false)
		storetest.Must(t, err)
		for range 2 {
			p.mustCounts(p.mustEnd(p.mustPostOf("add", "bob", "eve", "out", "none"), api.EventDone), counts{4, 4, 4, 0, 0})
		}
		p.mustEnd(p.mustPostOf("count", "bob", "eve"), api.EventDone)
		p.mustShow(map[int][]int{0: {1, 2, 2}, 1: {1, 2, 2}, 2: {1, 2, 2}, 3: {11, 12, 12}})
		for user, want := range map[string]int64{"bob": 2, "eve": 12, "out": 0, "none": 0} {
			p.mustBadge(user, want)
		}
	})
}

// B1: so does an event with a large audience, in parts, and the events of a batch raise a badge one after the other.
func TestB1_PartsAndBatches(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustBadgeTypes()
	const many = 250
	p.mustManyDevices(many)
	p.mustEnd(p.mustPostOf("add", fans(many)...), api.EventDone)
	for _, r := range p.apns.Requests() {
		if n := badgeIn(t, r.Payload); n != 1 {
			t.Errorf("%s was sent %d", r.Token, n)
		}
	}
	p.mustDevice("bob", 1)
	const events = 40
	batch := &api.EventBatchRequest{Events: slices.Repeat([]api.EventRequest{{Type: "add", Audience: api.Audience{Users: []string{"bob"}}}}, events)}
	p.mustAccept(func(once api.Idempotency) error {
		_, _, err := p.first.events.AcceptBatch(t.Context(), batch, once)
		return err
	})
	storetest.Eventually(t, soon, "all to be sent", func() bool { return len(p.apns.Of(token(1))) == events })
	var got []int
	for _, r := range p.apns.Of(token(1)) {
		got = append(got, badgeIn(t, r.Payload))
	}
	slices.Sort(got)
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("the numbers are %v", got)
		}
	}
	p.mustBadge("bob", events)
}

// B1: a notification that is sent again shows the number of its first time, although the badge has risen since: after a
// backoff, and as a dead letter that is tried again.
func TestB1_ARetryShowsTheSameNumber(t *testing.T) {
	t.Parallel()
	t.Run("AfterABackoff", func(t *testing.T) {
		t.Parallel()
		var first atomic.Value
		var open atomic.Bool
		s := &scripted{answer: func(n *transport.Notification) transport.Answer {
			if first.CompareAndSwap(nil, n.ID); first.Load() == n.ID && !open.Load() {
				return transport.Answer{Outcome: transport.Again}
			}
			return transport.Answer{Outcome: transport.Delivered, Status: 200}
		}}
		p := setup(t, options{
			sender:   func(*pipeline) transport.Sender { return s },
			delivery: func(o *delivery.Options) { o.RetryBase, o.RetryMax = 10*time.Millisecond, 100*time.Millisecond },
		})
		p.mustBadgeTypes()
		p.mustDevice("bob", 1)
		slow := p.mustPostOf("add", "bob")
		storetest.Eventually(t, soon, "the first try", func() bool { return first.Load() != nil })
		quick := p.mustPostOf("add", "bob")
		storetest.Eventually(t, soon, "both to be tried", func() bool {
			return slices.ContainsFunc(s.sent(), func(n transport.Notification) bool { return n.ID != first.Load() })
		})
		open.Store(true)
		p.mustEnd(slow, api.EventDone)
		p.mustEnd(quick, api.EventDone)
		for _, n := range s.sent() {
			want := 2
			if n.ID == first.Load() {
				want = 1
			}
			if got := badgeIn(t, n.Payload); got != want {
				t.Errorf("%s shows %d, want %d", n.ID, got, want)
			}
		}
	})
	t.Run("DeadLetter", func(t *testing.T) {
		t.Parallel()
		p := setup(t, options{})
		p.mustBadgeTypes()
		p.mustDevice("bob", 1)
		p.apns.Script(token(1), apnstest.Fail(400, "BadPriority"), apnstest.OK())
		p.mustEnd(p.mustPostOf("add", "bob"), api.EventDone)
		p.mustEnd(p.mustPostOf("add", "bob"), api.EventDone)
		dead, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
		if err != nil || len(dead.Items) != 1 {
			t.Fatalf("%+v, %v", dead, err)
		}
		_, _, err = p.first.queueOfNotes.RetryDead(t.Context(), dead.Items[0].ID, queue.Once{})
		storetest.Must(t, err)
		storetest.Eventually(t, soon, "it is tried again", func() bool { return p.apns.Total() == 3 })
		p.mustShow(map[int][]int{1: {1, 2, 1}})
		p.mustBadge("bob", 2)
	})
}

// B1: a process raises the badges of an event's users, is cut off from Redis and stands still until others have taken the
// event over. They give the numbers of the first time, although the badges have risen since, and the process that goes on
// then sends nothing.
func TestB1_TakenOverBetweenAddAndSend(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]int{"AtOnce": 3, "Parts": 120} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
			storetest.Must(t, err)
			raised, goOn := make(chan struct{}), make(chan struct{})
			resume := sync.OnceFunc(func() { close(goOn) })
			var calls atomic.Int64
			p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, queue: func(o *queue.Options) { o.Lease = time.Second }, target: func(o *targeting.Options) {
				reach := o.Badges
				o.Badges = func(ctx context.Context, asks []badges.Ask) []badges.Reached {
					numbers := reach(ctx, asks)
					if calls.Add(1) == 1 {
						storetest.Must(t, own.Close())
						close(raised)
						<-goOn
					}
					return numbers
				}
			}})
			p.mustBadgeTypes()
			p.mustManyDevices(many)
			stuck := p.processOn(own)
			stuck.start()
			defer resume()
			id := p.mustPostOf("add", fans(many)...)
			<-raised
			p.process().start()
			p.mustEnd(p.mustPostOf("add", fans(many)...), api.EventDone)
			p.mustCounts(p.mustEnd(id, api.EventDone), counts{int64(many), int64(many), int64(many), 0, 0})
			resume()
			stuck.stop()
			of := map[string][]int{} // by device
			for _, r := range p.apns.Requests() {
				of[r.Token] = append(of[r.Token], badgeIn(t, r.Payload))
			}
			for device, numbers := range of {
				if slices.Sort(numbers); !slices.Equal(numbers, []int{1, 2}) {
					t.Errorf("%s was sent %v", device, numbers)
				}
			}
			if len(of) != many {
				t.Errorf("%d devices were sent to", len(of))
			}
			for _, user := range fans(many) {
				p.mustBadge(user, 2)
			}
		})
	}
}

// B1: a command whose answer was lost, or that the client sends twice, raises the badge once. Its user is sent to when
// the number is known, and the others meanwhile: the number cannot be read before the other user's notification has come.
func TestB1_ALostAnswer(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]error{"Lost": storetest.ErrLost, "Twice": storetest.ErrTwice, "Cut": storetest.ErrCut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t, storetest.Redis(t).URL())
			var failed atomic.Int64
			var eveWasSentTo atomic.Bool
			ofBob := func(c redis.Cmder) string {
				if c.Name() == "evalsha" && strings.Contains(fmt.Sprint(c.Args()), "{badge:bob}") {
					return "add"
				}
				return ""
			}
			faulty := storetest.FaultyBy(t, db, ofBob, func(_ string, answered bool) error {
				if answered != (lost == storetest.ErrCut) && (failed.Add(1) <= 3 || !eveWasSentTo.Load()) {
					return lost
				}
				return nil
			})
			p := setup(t, options{db: db, target: func(o *targeting.Options) { o.Badges = badges.New(faulty, badges.Options{}).Reach }})
			p.apns.ScriptFunc(func(r *apnstest.Request) (a apnstest.Answer, ok bool) {
				if r.Token == token(2) {
					eveWasSentTo.Store(true)
				}
				return a, false
			})
			p.mustBadgeTypes()
			p.mustDevice("bob", 1)
			p.mustDevice("eve", 2)
			p.mustCounts(p.mustEnd(p.mustPostOf("add", "bob", "eve"), api.EventDone), counts{2, 2, 2, 0, 0})
			p.mustShow(map[int][]int{1: {1}, 2: {1}})
			p.mustBadge("bob", 1)
			if failed.Load() == 0 {
				t.Error("nothing failed")
			}
		})
	}
}

// B2: an event type without a badge costs no command for it, and neither does an event with a badge of its own in aps.
func TestB2_TypesWithoutABadgeAskNothing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	p := setup(t, options{target: func(o *targeting.Options) {
		reach := o.Badges
		o.Badges = func(ctx context.Context, asks []badges.Ask) []badges.Reached {
			asked.Add(1)
			return reach(ctx, asks)
		}
	}})
	p.mustBadgeTypes()
	p.mustType("none", api.EventTypeRequest{Title: "T", Badge: api.BadgeNone})
	p.mustDevice("bob", 1)
	p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
	p.mustEnd(p.mustPostOf("none", "bob"), api.EventDone)
	own := &api.EventRequest{Type: "add", Audience: api.Audience{Users: []string{"bob"}}, APS: json.RawMessage(`{"badge":7}`)}
	p.mustEnd(p.mustPost(own), api.EventDone)
	p.mustEnd(p.mustPostOf("add", "nobody"), api.EventDone)
	p.mustShow(map[int][]int{1: {-1, -1, 7}})
	if n := asked.Load(); n != 0 {
		t.Errorf("the numbers were asked for %d times", n)
	}
	p.mustBadge("bob", 0)
}

// B2: a number that is shown without a text is that of the moment when it is sent, and one event for each time.
func TestB2_TheNumberIsThatOfTheSend(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	p.mustDevice("bob", 1)
	_, _, err := p.badges().Set(t.Context(), "bob", 5, true)
	storetest.Must(t, err)
	storetest.Must(t, p.first.events.ShowBadge(t.Context(), "bob", time.Time{}))
	_, at, err := p.badges().Set(t.Context(), "bob", 2, true)
	storetest.Must(t, err)
	for range 3 {
		storetest.Must(t, p.first.events.ShowBadge(t.Context(), "bob", at))
	}
	p.first.start()
	storetest.Eventually(t, soon, "the number to be sent", func() bool { return p.apns.Total() == 1 })
	r := p.apns.Of(token(1))[0]
	if !strings.HasPrefix(string(r.Payload), `{"aps":{"badge":2},`) || r.PushType != "alert" || r.Priority != "5" || r.CollapseID != api.BadgeEventType {
		t.Errorf("%s %+v", r.Payload, r)
	}
	stats, err := p.first.queueOfEvents.Stats(t.Context())
	if err != nil || stats.Scheduled != 1 {
		t.Errorf("%+v, %v; want one event for later", stats, err)
	}
}
