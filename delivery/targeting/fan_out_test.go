package targeting_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/targeting"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// fanOut is an audience that SQL knows. In a world of mustManyDevices it means all fans.
type fanOut struct{ audience events.Audience }

var fanOuts = []fanOut{{events.Audience{ContactsOf: "star"}}, {events.Audience{Topic: "star"}}, {events.Audience{All: true}}}

// eachFanOut runs a test with each such audience.
func eachFanOut(t *testing.T, fn func(t *testing.T, f fanOut)) {
	t.Helper()
	for _, f := range fanOuts {
		t.Run(f.audience.Kind(), func(t *testing.T) {
			t.Parallel()
			fn(t, f)
		})
	}
}

// event is an event to the audience.
func (f fanOut) event() *api.EventRequest {
	a := &f.audience
	return &api.EventRequest{
		Type: "hello", Audience: api.Audience{ContactsOf: a.ContactsOf, Topic: a.Topic, All: a.All}, Alert: &api.Alert{Title: "Hello"},
	}
}

func contactsOf(user string) *api.EventRequest {
	return fanOut{events.Audience{ContactsOf: user}}.event()
}

// job is the event as another process has it in the queue.
func (f fanOut) job() *events.Job {
	return &events.Job{Type: "hello", Audience: f.audience, AcceptedAt: time.Now().UnixMilli(),
		Push: render.Push{Payload: []byte(`{"aps":{"alert":"x"}}`), PushType: "alert", Priority: 10}}
}

// readingBy lets a test come between targeting and the pagers of a process.
func readingBy(by func(ctx context.Context, id, after string, limit int, read targeting.Pager) ([]string, error)) func(*targeting.Options) {
	return func(o *targeting.Options) {
		whole := o.Pagers
		o.Pagers = map[string]targeting.Pager{}
		for kind, read := range whole {
			o.Pagers[kind] = func(ctx context.Context, id, after string, limit int) ([]string, error) {
				return by(ctx, id, after, limit, read)
			}
		}
	}
}

// TestP12_ATopicWithoutMembers: nobody gets the event, and its report says so.
func TestP12_ATopicWithoutMembers(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		p := setup(t, options{sql: url})
		for name, event := range map[string]*api.EventRequest{
			"a topic without members": fanOut{events.Audience{Topic: "nobody"}}.event(),
			"all, of none":            fanOut{events.Audience{All: true}}.event(),
		} {
			r := p.mustEnd(p.mustPost(event), api.EventDone)
			p.mustCounts(r, counts{})
			if r.Suppressed != (api.SuppressedCounts{}) {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
}

// TestP12_WhoGetsAnEventToATopic: the actor, opt-outs, mutes and users without a device are left
// out as for any audience, and nobody counts twice. All users are those with a device.
func TestP12_WhoGetsAnEventToATopic(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		p := setup(t, options{sql: url})
		for n, user := range []string{"actor", "out", "muted", "fine", "stranger"} {
			p.mustDevice(user, n)
		}
		p.mustDevice("fine", 9)
		for _, user := range []string{"actor", "out", "muted", "fine", "without"} {
			storetest.Must(t, p.rec.JoinTopic(t.Context(), user, "news", false))
		}
		storetest.Must(t, p.first.devices.PutOptOut(t.Context(), "out", "hello"))
		storetest.Must(t, p.first.devices.PutMute(t.Context(), "muted", "o:1", &api.MuteRequest{}))
		for _, c := range []struct {
			audience   events.Audience
			want       counts
			suppressed api.SuppressedCounts
		}{
			{events.Audience{Topic: "news"}, counts{5, 2, 2, 0, 0}, api.SuppressedCounts{IsActor: 1, OptedOut: 1, Muted: 1, NoDevice: 1}},
			{events.Audience{All: true}, counts{5, 3, 3, 0, 0}, api.SuppressedCounts{IsActor: 1, OptedOut: 1, Muted: 1}},
		} {
			e := fanOut{c.audience}.event()
			e.Actor, e.Object = "actor", "o:1"
			r := p.mustEnd(p.mustPost(e), api.EventDone)
			p.mustCounts(r, c.want)
			if r.Suppressed != c.suppressed {
				t.Errorf("%s: %+v, want %+v", c.audience.Kind(), r.Suppressed, c.suppressed)
			}
		}
	})
}

// TestP12_ABatchToATopicAndToAll: events of one batch have audiences of their own.
func TestP12_ABatchToATopicAndToAll(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustManyDevices(150)
	p.mustDevice("stranger", 1)
	topic, all := fanOut{events.Audience{Topic: "star"}}.event(), fanOut{events.Audience{All: true}}.event()
	batch := &api.EventBatchRequest{Events: []api.EventRequest{*topic, *hello("stranger"), *all, *contactsOf("star")}}
	posted, _, err := p.first.events.AcceptBatch(t.Context(), batch, api.Idempotency{Scope: p.scope, Key: "batch"})
	storetest.Must(t, err)
	for i, n := range []int64{150, 1, 151, 150} {
		p.mustCounts(p.mustEnd(posted.Items[i].ID, api.EventDone), counts{n, n, n, 0, 0})
	}
}

// TestP12_MembershipIsReadAtTargeting: who joins or leaves after the event was accepted and before
// the page is read counts as the page finds it.
func TestP12_MembershipIsReadAtTargeting(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	for n, user := range []string{"stays", "leaves", "joins"} {
		p.mustDevice(user, n)
	}
	storetest.Must(t, p.rec.JoinTopic(t.Context(), "stays", "news", false))
	storetest.Must(t, p.rec.JoinTopic(t.Context(), "leaves", "news", false))
	id := p.mustPost(fanOut{events.Audience{Topic: "news"}}.event())
	storetest.Must(t, p.rec.LeaveTopic(t.Context(), "leaves", "news"))
	storetest.Must(t, p.rec.JoinTopic(t.Context(), "joins", "news", false))
	p.first.start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{2, 2, 2, 0, 0})
	for n, want := range []int{1, 0, 1} {
		if got := len(p.apns.Of(token(n))); got != want {
			t.Errorf("device %d got %d notifications, want %d", n, got, want)
		}
	}
}

// TestP12_JoiningAndLeavingDuringAFanOut: members who stay get the event once, whoever joins and
// leaves meanwhile, on pages that were read and on pages that were not. Of the others, who joined
// before their page was read gets it, and who joined behind the cursor does not.
func TestP12_JoiningAndLeavingDuringAFanOut(t *testing.T) {
	t.Parallel()
	const stay = 2500
	second, goOn := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	p := setup(t, options{apns: apnstest.Options{TrackIDs: true}, target: readingBy(func(ctx context.Context, id, after string, limit int, read targeting.Pager) ([]string, error) {
		if after != "" && held.CompareAndSwap(false, true) {
			close(second)
			<-goOn
		}
		return read(ctx, id, after, limit)
	})})
	p.mustManyDevices(stay)
	for n, user := range []string{"a-joins", "z-joins", "z-leaves"} {
		p.mustDevice(user, n)
	}
	storetest.Must(t, p.rec.JoinTopic(t.Context(), "z-leaves", "star", false))
	id := p.mustPost(fanOut{events.Audience{Topic: "star"}}.event())
	<-second
	for _, user := range []string{"a-joins", "z-joins"} {
		storetest.Must(t, p.rec.JoinTopic(t.Context(), user, "star", false))
	}
	storetest.Must(t, p.rec.LeaveTopic(t.Context(), "z-leaves", "star"))
	close(goOn)
	var storm sync.WaitGroup
	for n := range 4 {
		storm.Go(func() {
			for i := range 25 {
				guest := fmt.Sprintf("fan%06d-guest%d", 100*i, n)
				if err := errors.Join(p.rec.JoinTopic(t.Context(), guest, "star", false), p.rec.LeaveTopic(t.Context(), guest, "star")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r := p.mustEnd(id, api.EventDone)
	storm.Wait()
	if got := *r.Recipients - r.Suppressed.NoDevice; got != stay+1 || r.Notifications != stay+1 || r.Delivered != stay+1 {
		t.Errorf("report %+v: %d users with a device, want %d", r, got, stay+1)
	}
	if distinct, repeats := p.apns.IDs(); distinct != stay+1 || repeats != 0 {
		t.Errorf("%d notifications were sent, %d of them again", distinct, repeats)
	}
	for n, want := range []int{0, 1, 0} {
		if got := len(p.apns.Of(token(n))); got != want {
			t.Errorf("device %d got %d notifications, want %d", n, got, want)
		}
	}
}

// TestAnAudienceOfALaterVersionIsNotMistaken: a process that does not know the kind of an audience
// takes it neither for nobody nor for somebody. It gives the event back, and in the end it is a
// dead letter, which the later version can retry.
func TestAnAudienceOfALaterVersionIsNotMistaken(t *testing.T) {
	t.Parallel()
	p := setup(t, options{queue: func(o *queue.Options) { o.MaxAttempts, o.RetryBase, o.RetryMax = 2, time.Millisecond, time.Millisecond }})
	p.mustDevice("bob", 1)
	for _, cursor := range []string{"", "0", "bob"} {
		job := fanOut{events.Audience{Topic: "news"}}.job()
		job.Cursor = cursor
		text := strings.Replace(string(job.Encode()), "topic", "later", 1)
		id := queue.NewID(0, time.Now())
		_, err := p.first.queueOfEvents.Enqueue(t.Context(), queue.Job{ID: id, Fresh: true, Report: "Qhello", Payload: []byte(text)})
		storetest.Must(t, err)
		storetest.Eventually(t, soon, "the dead letter", func() bool {
			list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfEvents)
			return err == nil && len(list.Items) > 0 && strings.HasSuffix(list.Items[0].ID, id) && strings.Contains(list.Items[0].LastError, "read")
		})
	}
	if n := p.apns.Total(); n != 0 {
		t.Errorf("%d requests", n)
	}
}
