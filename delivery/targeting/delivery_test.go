package targeting_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// scripted is a Sender that answers as the test says.
type scripted struct {
	mu     sync.Mutex
	answer func(*transport.Notification) transport.Answer
	seen   []transport.Notification
	at     []time.Time // of each send
}

func (s *scripted) Start(_ context.Context, n *transport.Notification, done func(transport.Answer)) {
	s.mu.Lock()
	s.seen, s.at = append(s.seen, *n), append(s.at, time.Now())
	answer := s.answer
	s.mu.Unlock()
	go func() { done(answer(n)) }()
}

func (s *scripted) Takes(*api.DeviceRequest) bool                { return true }
func (s *scripted) Apps() map[string]error                       { return nil }
func (s *scripted) Reasons() []string                            { return []string{"BadDeviceToken", "Unregistered"} }
func (s *scripted) Prepare([]transport.AppEntry) (func(), error) { return func() {}, nil }
func (s *scripted) Close() error                                 { return nil }

func (s *scripted) sent() []transport.Notification { return s.sentAfter(0) }

// sentAfter is what was sent after the first n.
func (s *scripted) sentAfter(n int) []transport.Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]transport.Notification{}, s.seen[n:]...)
}

// answering makes a set-up whose sender gives these answers. The last answer repeats.
func answering(t *testing.T, o options, answers ...transport.Answer) (*pipeline, *scripted) {
	t.Helper()
	s := &scripted{answer: func(*transport.Notification) transport.Answer {
		a := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return a
	}}
	one := s.answer
	var mu sync.Mutex
	s.answer = func(n *transport.Notification) transport.Answer {
		mu.Lock()
		defer mu.Unlock()
		return one(n)
	}
	o.sender = func(*pipeline) transport.Sender { return s }
	p := setup(t, o)
	p.mustDevice("bob", 1)
	return p, s
}

func TestP4_DeviceIsCheckedAgainAtTheSend(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p := setup(t, options{db: db, idle: true, waits: true})
		for n, user := range []string{"stays", "removed", "moved", "dropped", "again"} {
			p.mustDevice(user, n)
		}
		e := hello("stays", "removed", "moved", "dropped", "again")
		id := p.mustPost(e)
		p.mustTargetAll(id, 5)
		if err := p.first.devices.DeleteDevice(t.Context(), "removed", token(1)); err != nil {
			t.Fatal(err)
		}
		p.mustDevice("another", 2)
		if err := p.first.devices.Drop(t.Context(), token(3), "test", api.Time{}, p.device("dropped", 3).RegisteredAt); err != nil {
			t.Fatal(err)
		}
		p.mustDeviceOf("again", token(4), "com.example.other")
		p.first.start()
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{5, 5, 2, 3, 0})
		if got := p.apns.Of(token(4)); len(got) != 1 || got[0].Topic != "com.example.other" {
			t.Errorf("the token registered again got %+v", got)
		}
		if len(p.apns.Of(token(0))) != 1 || p.apns.Total() != 2 {
			t.Errorf("%d requests, want 2", p.apns.Total())
		}
	})
}

// mustTargetAll runs a process that only targets, until an event is targeted.
func (p *pipeline) mustTargetAll(id string, notifications int64) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	done := make(chan error, 1)
	go func() { done <- p.process().targeting.Run(ctx) }()
	r := p.mustEnd(id, api.EventSending)
	cancel()
	if err := <-done; err != nil || r.Notifications != notifications {
		p.Fatalf("targeted %d, error %v", r.Notifications, err)
	}
}

func TestA10_UnknownOutcome(t *testing.T) {
	t.Parallel()
	unknown := transport.Answer{Outcome: transport.UnknownOutcome}
	t.Run("is sent again with the same ids and recorded", func(t *testing.T) {
		t.Parallel()
		p, s := answering(t, options{}, unknown, unknown, transport.Answer{Outcome: transport.Delivered, Status: 200})
		id := p.mustPost(hello("bob"))
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
		sent := s.sent()
		if len(sent) != 3 || sent[0].ID != sent[2].ID || sent[0].CollapseID != id || sent[2].CollapseID != id {
			t.Errorf("sent %+v", sent)
		}
		got, err := p.first.queueOfNotes.Groups(t.Context(), id)
		if err != nil || got["unknown_outcome"] != 2 {
			t.Errorf("recorded %v, %v", got, err)
		}
	})
	t.Run("ends as failed with retry_unknown false", func(t *testing.T) {
		t.Parallel()
		p, s := answering(t, options{}, unknown)
		no := false
		p.mustType("once", api.EventTypeRequest{Title: "T", RetryUnknown: &no})
		id := p.mustPost(&api.EventRequest{Type: "once", Audience: api.Audience{Users: []string{"bob"}}})
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 0, 1, 0})
		if n := len(s.sent()); n != 1 {
			t.Errorf("sent %d times, want once", n)
		}
	})
	t.Run("on the wire", func(t *testing.T) {
		t.Parallel()
		p := setup(t, options{})
		p.mustDevice("bob", 1)
		p.apns.Script(token(1), apnstest.Failing(apnstest.Drop), apnstest.OK())
		id := p.mustPost(hello("bob"))
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
		got := p.apns.Of(token(1))
		if len(got) != 2 || got[0].ID != got[1].ID || got[0].CollapseID != got[1].CollapseID {
			t.Errorf("requests %+v", got)
		}
	})
}

func TestA14_LogSenderCountsAsDelivered(t *testing.T) {
	t.Parallel()
	p := setup(t, options{sender: func(*pipeline) transport.Sender { return silentSender() }})
	p.mustDevice("bob", 1)
	p.mustCounts(p.mustEnd(p.mustPost(hello("bob")), api.EventDone), counts{1, 1, 1, 0, 0})
}

func TestA15_FiveProcessesExactlyOnce(t *testing.T) {
	t.Parallel()
	n := int64(storetest.Sized(10_000, 3000))
	p := setup(t, options{apns: apnstest.Options{CountsOnly: true, TrackIDs: true}})
	for range 4 {
		p.process().start()
	}
	p.mustManyDevices(int(n))
	id := p.mustPost(contactsOf("star"))
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{n, n, n, 0, 0})
	if distinct, repeats := p.apns.IDs(); int64(distinct) != n || repeats != 0 || int64(p.apns.Total()) != n {
		t.Errorf("%d requests, %d distinct, %d repeats", p.apns.Total(), distinct, repeats)
	}
}

func TestOutcomesEndOrGoOn(t *testing.T) {
	t.Parallel()
	ok := transport.Answer{Outcome: transport.Delivered, Status: 200}
	for _, tt := range []struct {
		outcome transport.Outcome
		answer  transport.Answer
		want    counts // for 1 recipient; `ok` follows the answer
		sends   int
		why     string // of the failed notification
	}{
		{transport.Delivered, ok, counts{1, 1, 1, 0, 0}, 1, ""},
		{transport.FailMessage, transport.Answer{Status: 418}, counts{1, 1, 0, 1, 0}, 1, "other"},
		{transport.SuspectDevice, transport.Answer{Status: 400, Reason: "BadDeviceToken"}, counts{1, 1, 0, 1, 0}, 1, "BadDeviceToken"},
		{transport.DropDevice, transport.Answer{Status: 410, Reason: "Unregistered"}, counts{1, 1, 0, 1, 0}, 1, "Unregistered"},
		{transport.OurBug, transport.Answer{Status: 400, Reason: "PayloadEmpty"}, counts{1, 1, 0, 1, 0}, 1, "PayloadEmpty"},
		{transport.NoApp, transport.Answer{}, counts{1, 1, 0, 1, 0}, 1, "no_app"},
		{transport.Again, transport.Answer{Status: 503, Reason: "Shutdown"}, counts{1, 1, 1, 0, 0}, 2, ""},
		{transport.Retry, transport.Answer{Status: 500}, counts{1, 1, 1, 0, 0}, 2, ""},
		{transport.RetryUncounted, transport.Answer{Status: 503}, counts{1, 1, 1, 0, 0}, 2, ""},
		{transport.BackoffDevice, transport.Answer{Status: 429}, counts{1, 1, 1, 0, 0}, 2, ""},
		{transport.UnknownOutcome, transport.Answer{}, counts{1, 1, 1, 0, 0}, 2, ""},
		{transport.NotSent, transport.Answer{}, counts{1, 1, 1, 0, 0}, 2, ""},
		{transport.PauseApp, transport.Answer{Status: 403, Reason: "Forbidden"}, counts{1, 1, 1, 0, 0}, 2, ""},
	} {
		for _, hops := range []string{"AtOnce", "Waits"} {
			t.Run(tt.outcome.String()+"/"+hops, func(t *testing.T) {
				t.Parallel()
				answer := tt.answer
				answer.Outcome = tt.outcome
				p, s := answering(t, options{db: storetest.Open(t, ""), waits: hops == "Waits"}, answer, ok)
				r := p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
				p.mustCounts(r, tt.want)
				if n := len(s.sent()); n != tt.sends || r.Retrying != 0 {
					t.Errorf("%d sends, want %d; retrying %d", n, tt.sends, r.Retrying)
				}
				if len(r.FailedBy) != int(tt.want.failed) || r.FailedBy[tt.why] != tt.want.failed {
					t.Errorf("failed by %v, want %q", r.FailedBy, tt.why)
				}
			})
		}
	}
}

// Q10: a push service that wants no repeat before some time gets none, whether the notification was
// sent with its event or claimed, and the attempts count as usual.
func TestQ10_ALeastBackoff(t *testing.T) {
	t.Parallel()
	const least = 700 * time.Millisecond
	again := transport.Answer{Outcome: transport.Retry, Status: 500, Least: least}
	quick := func(o *queue.Options) { o.RetryBase, o.RetryMax = time.Millisecond, 2*time.Millisecond }
	p, s := answering(t, options{queue: quick}, again, again, transport.Answer{Outcome: transport.Delivered})
	p.mustCounts(p.mustEnd(p.mustPost(hello("bob")), api.EventDone), counts{1, 1, 1, 0, 0})
	s.mu.Lock()
	defer s.mu.Unlock()
	sends := s.at
	if len(sends) != 3 || sends[1].Sub(sends[0]) < least || sends[2].Sub(sends[1]) < least {
		t.Errorf("sent at %v, not %v apart", sends, least)
	}
}

func TestRetryUsesAttemptsDeferDoesNot(t *testing.T) {
	t.Parallel()
	few := func(o *queue.Options) {
		o.MaxAttempts, o.RetryBase, o.RetryMax = 3, 5*time.Millisecond, 20*time.Millisecond
	}
	t.Run("500 ends in the dead letters", func(t *testing.T) {
		t.Parallel()
		p, s := answering(t, options{queue: few}, transport.Answer{Outcome: transport.Retry, Status: 500, Reason: "InternalServerError"})
		id := p.mustPost(hello("bob"))
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 0, 1, 0})
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
		if err != nil || len(list.Items) != 1 || list.Items[0].Attempts != 3 || list.Items[0].LastError != "500 InternalServerError" || len(s.sent()) != 3 {
			t.Fatalf("dead letters %+v, %v; %d sends", list, err, len(s.sent()))
		}
		if d := list.Items[0]; d.Type != "hello" || d.App != apnstest.DefaultTopic+"/production" { // N14
			t.Errorf("the letter is about %q and %q", d.Type, d.App)
		}
		retrying := func(when string) {
			if got, err := p.first.queueOfNotes.Groups(t.Context(), id); err != nil || got["retrying"] != 0 {
				t.Errorf("counters %v, %v %s: retrying is not back at 0", got, err, when)
			}
		}
		retrying("after the last attempt")
		_, _, err = p.first.queueOfNotes.RetryDead(t.Context(), list.Items[0].ID, queue.Once{})
		storetest.Must(t, err)
		storetest.Eventually(t, soon, "the dead letter is tried again", func() bool { return len(s.sent()) == 6 })
		storetest.Eventually(t, soon, "it is one again", func() bool {
			list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
			return err == nil && len(list.Items) == 1
		})
		retrying("after it was one twice")
		if r := p.mustReport(id); len(r.FailedBy) != 1 || r.FailedBy["max_attempts"] != 1 {
			t.Errorf("failed by %v", r.FailedBy)
		}
	})
	t.Run("one attempt is one", func(t *testing.T) {
		t.Parallel()
		one := func(o *queue.Options) { o.MaxAttempts, o.RetryBase, o.RetryMax = 1, time.Millisecond, time.Millisecond }
		p, s := answering(t, options{queue: one}, transport.Answer{Outcome: transport.Retry, Status: 500, Reason: "InternalServerError"})
		p.mustCounts(p.mustEnd(p.mustPost(hello("bob")), api.EventDone), counts{1, 1, 0, 1, 0})
		if n := len(s.sent()); n != 1 {
			t.Errorf("%d sends", n)
		}
	})
	t.Run("503 goes on beyond any attempts", func(t *testing.T) {
		t.Parallel()
		var down atomic.Bool
		down.Store(true)
		p, s := answering(t, options{queue: few}, transport.Answer{})
		s.answer = func(*transport.Notification) transport.Answer {
			if down.Load() {
				return transport.Answer{Outcome: transport.RetryUncounted, Status: 503, Reason: "ServiceUnavailable"}
			}
			return transport.Answer{Outcome: transport.Delivered, Status: 200}
		}
		id := p.mustPost(hello("bob"))
		storetest.Eventually(t, soon, "more sends than attempts", func() bool { return len(s.sent()) > 5 })
		if r := p.mustReport(id); r.Retrying != 1 || r.State != api.EventSending {
			t.Errorf("report %+v, want one retrying", r)
		}
		down.Store(false)
		r := p.mustEnd(id, api.EventDone)
		p.mustCounts(r, counts{1, 1, 1, 0, 0})
		got, err := p.first.queueOfNotes.Groups(t.Context(), id)
		if err != nil || got["retrying"] != 0 {
			t.Errorf("counters %v, %v: retrying is not back at 0", got, err)
		}
	})
}

func TestWorkOlderThanMaxAgeEndsAsExpired(t *testing.T) {
	t.Parallel()
	age := time.Second
	for name, during := range map[string]bool{"WhileItWaits": false, "WhileItIsSent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := answering(t, options{
				queue:    func(o *queue.Options) { o.MaxAge, o.RetryMax = age, 200*time.Millisecond },
				delivery: func(o *delivery.Options) { o.MaxAge = age },
			}, transport.Answer{})
			var asked atomic.Int64
			s.answer = func(*transport.Notification) transport.Answer {
				if during && asked.Add(1) == 2 { // it was stored as one that is retrying
					<-time.After(2 * age)
				}
				return transport.Answer{Outcome: transport.RetryUncounted, Status: 503}
			}
			id := p.mustPost(hello("bob"))
			p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 0, 0, 1})
			if got, err := p.first.queueOfNotes.Groups(t.Context(), id); err != nil || got["retrying"] != 0 || got["expired"] != 1 {
				t.Errorf("counters %v, %v: one expired, and none is retrying", got, err)
			}
		})
	}
}

// While a send to a device hangs, the process holds no further notifications for the device: they
// are postponed, and arrive once the device answers again.
func TestSlowDeviceKeepsNothingInHand(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.apns.Script(token(1), apnstest.After(8*time.Second), apnstest.OK())
	first := p.mustPost(hello("bob"))
	if err := p.apns.WaitTotal(1, soon); err != nil {
		t.Fatal(err)
	}
	hung := time.Now()
	storetest.Eventually(t, soon, "the device to count as slow", func() bool { return time.Since(hung) > 5*time.Second })
	second := p.mustPost(hello("bob"))
	storetest.Eventually(t, soon, "the second to be postponed", func() bool {
		s, err := p.first.queueOfNotes.Stats(t.Context())
		return err == nil && s.Scheduled == 1
	})
	if n := len(p.apns.Of(token(1))); n != 1 {
		t.Errorf("%d requests while the first hangs", n)
	}
	p.mustCounts(p.mustEnd(first, api.EventDone), counts{1, 1, 1, 0, 0})
	p.mustCounts(p.mustEnd(second, api.EventDone), counts{1, 1, 1, 0, 0})
}

func TestBackoffOfOneDeviceLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("slow", 1)
	p.mustDevice("fast", 2)
	p.apns.Script(token(1), apnstest.Answer{Status: 429, Reason: "TooManyRequests", RetryAfter: "5"}, apnstest.OK())
	slow := p.mustPost(hello("slow"))
	if err := p.apns.WaitTotal(1, soon); err != nil {
		t.Fatal(err)
	}
	second := p.mustPost(hello("slow"))
	p.mustEnd(p.mustPost(hello("fast")), api.EventDone)
	if n := len(p.apns.Of(token(1))); n != 1 {
		t.Errorf("another device waited until the slow one had %d requests", n)
	}
	storetest.Eventually(t, soon, "the first to be deferred", func() bool { return p.mustReport(slow).Retrying == 1 })
	third := p.mustPost(hello("slow")) // no other send is under way
	p.mustEnd(slow, api.EventDone)
	p.mustEnd(second, api.EventDone)
	p.mustEnd(third, api.EventDone)
	got := p.apns.Of(token(1))
	if len(got) != 4 {
		t.Fatalf("%d requests for the slow device, want 4", len(got))
	}
	if d := got[1].At.Sub(got[0].At); d < 4900*time.Millisecond {
		t.Errorf("the device got another request after %v, Retry-After was 5 s", d)
	}
}

func TestAnswersChangeTheDevice(t *testing.T) {
	t.Parallel()
	refused := transport.Answer{Outcome: transport.SuspectDevice, Status: 400, Reason: "BadDeviceToken"}
	t.Run("suspect, dropped at the second refusal, revived by registering", func(t *testing.T) {
		t.Parallel()
		p, _ := answering(t, options{}, refused)
		for _, want := range []api.DeviceState{api.DeviceSuspect, api.DeviceDropped} {
			p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
			storetest.Eventually(t, soon, "the device to be "+string(want), func() bool { return p.device("bob", 1).State == want })
		}
		if d := p.device("bob", 1); d.Reason != "BadDeviceToken" || d.DroppedAt == nil {
			t.Errorf("device %+v", d)
		}
		r := p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
		if r.Suppressed.NoDevice != 1 {
			t.Errorf("a dropped device was targeted: %+v", r)
		}
		p.mustDevice("bob", 1)
		if d := p.device("bob", 1); d.State != api.DeviceActive {
			t.Errorf("device %+v", d)
		}
	})
	for _, tt := range []struct {
		name string
		at   func(registered time.Time) time.Time
		want api.DeviceState
	}{
		{"410 after the registration drops", func(r time.Time) time.Time { return r.Add(time.Minute) }, api.DeviceDropped},
		{"410 without a time drops", func(time.Time) time.Time { return time.Time{} }, api.DeviceDropped},
		{"410 before the registration keeps", func(r time.Time) time.Time { return r.Add(-time.Millisecond) }, api.DeviceSuspect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{})
			p.mustDevice("bob", 1)
			p.apns.Script(token(1), apnstest.Gone("Unregistered", tt.at(p.device("bob", 1).RegisteredAt.Time)))
			p.mustCounts(p.mustEnd(p.mustPost(hello("bob")), api.EventDone), counts{1, 1, 0, 1, 0})
			storetest.Eventually(t, soon, "the device to be "+string(tt.want), func() bool { return p.device("bob", 1).State == tt.want })
			if tt.want == api.DeviceSuspect { // it came by a batch, say, which is no registration of the phone's: the next one drops it
				p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
				storetest.Eventually(t, soon, "the device to be dropped", func() bool { return p.device("bob", 1).State == api.DeviceDropped })
			}
		})
	}
}

func TestStormDropsNoDeviceAndPausesTheApp(t *testing.T) {
	t.Parallel()
	p := setup(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = time.Hour }})
	const n = 80
	var users []string
	for i := range n {
		user := fmt.Sprintf("u%03d", i)
		p.mustDevice(user, i)
		users = append(users, user)
	}
	p.apns.ScriptAll(apnstest.Fail(400, "BadDeviceToken"))
	for range 3 {
		p.mustPost(hello(users...))
	}
	state := apps.New(p.db, apps.Options{})
	storetest.Eventually(t, soon, "the app to be paused", func() bool {
		all, err := state.Apps(t.Context())
		return err == nil && all[transport.AppOf(api.PlatformAPNs, apnstest.DefaultTopic, "production")].State == apps.Paused
	})
	storetest.Eventually(t, soon, "the others to be parked", func() bool {
		stats, err := p.first.queueOfNotes.Stats(t.Context())
		return err == nil && stats.Parked > 0 && stats.Depth == 0
	})
	for i, user := range users {
		if d := p.device(user, i); d.State == api.DeviceDropped {
			t.Fatalf("device %s was dropped in a storm", user)
		}
	}
}

func TestDeadLettersOfOurBugsKeepTheDevice(t *testing.T) {
	t.Parallel()
	p, _ := answering(t, options{}, transport.Answer{Outcome: transport.OurBug, Status: 400, Reason: "BadMessageId"})
	id := p.mustPost(hello("bob"))
	p.mustEnd(id, api.EventDone)
	list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
	if err != nil || len(list.Items) != 1 || list.Items[0].Reason != "BadMessageId" || list.Items[0].LastError != "400 BadMessageId" || list.Items[0].Kind != "notification" {
		t.Errorf("dead letters %+v, %v", list, err)
	}
	if !strings.Contains(string(list.Items[0].Payload), id) {
		t.Errorf("payload %s does not name the event", list.Items[0].Payload)
	}
	if d := p.device("bob", 1); d.State != api.DeviceActive {
		t.Errorf("device %+v", d)
	}
}
