package targeting_test

import (
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustFailed goes through all pages of the notifications of an event that failed.
func (p *pipeline) mustFailed(id string, limit int) (all []api.EventNotification, complete bool) {
	p.Helper()
	for after, pages := "", 0; ; pages++ {
		list, err := p.first.events.FailedNotifications(p.Context(), id, after, limit)
		storetest.Must(p, err)
		all = append(all, list.Items...)
		if after = list.Next; after == "" {
			return all, list.Complete
		}
		if len(list.Items) > limit || pages > 1000 {
			p.Fatalf("a page of %d, page %d", len(list.Items), pages)
		}
	}
}

// N21: who failed is told with reason, device and time, and who got the notification is not.
func TestN21_WhoFailed(t *testing.T) {
	t.Parallel()
	eachHop(t, func(t *testing.T, o options) {
		p := setup(t, o)
		p.mustDevice("bob", 1)
		p.mustDevice("eve", 2)
		p.mustDevice("amy", 3)
		p.apns.Script(token(1), apnstest.Gone("Unregistered", time.Now().Add(time.Hour)))
		p.apns.Script(token(3), apnstest.Fail(400, "BadDeviceToken"))
		before := time.Now().Add(-time.Second)
		for _, r := range []*api.EventRequest{hello("bob"), hello("bob", "eve", "amy")} {
			p.mustDevice("bob", 1) // an event has dropped it
			p.apns.Script(token(1), apnstest.Gone("Unregistered", time.Now().Add(time.Hour)))
			id := p.mustPost(r)
			report := p.mustEnd(id, api.EventDone)
			all, complete := p.mustFailed(id, 1)
			if !complete || int64(len(all)) != report.Failed {
				t.Fatalf("%+v, complete %v, of %+v", all, complete, report)
			}
			for _, n := range all {
				want := map[string]string{"bob": "Unregistered", "amy": "BadDeviceToken"}[n.User]
				if n.Reason != want || n.State != api.NotificationFailed || n.Topic != "com.example.app" || n.Environment != api.EnvProduction ||
					n.Platform != api.PlatformAPNs || n.Attempts != 1 || n.DeadLetter != "" || n.At.Before(before) || n.At.After(time.Now().Add(time.Second)) {
					t.Errorf("%+v", n)
				}
				if number := map[string]int{"bob": 1, "amy": 3}[n.User]; n.Token != token(number)[:8] {
					t.Errorf("%s has the device %s", n.User, n.Token)
				}
			}
		}
		if keys := p.mustKeys("ff:{q:*}:failed:*"); len(keys) == 0 || p.db.Client().PTTL(p.Context(), keys[0]).Val() < time.Hour {
			t.Errorf("%v do not live as long as the report", keys)
		}
	})
}

// N21: a dead letter is a failure until it is retried or deleted.
func TestN21_DeadLetters(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.apns.Script(token(1), apnstest.Fail(400, "BadPriority"), apnstest.OK())
	id := p.mustPost(hello("bob"))
	p.mustEnd(id, api.EventDone)
	all, complete := p.mustFailed(id, 50)
	q := p.first.queueOfNotes
	letter := q.DeadID(q.Route(token(1)), events.NotificationJob(id, token(1)))
	if len(all) != 1 || !complete || all[0].User != "bob" || all[0].Reason != "BadPriority" || all[0].DeadLetter != letter || all[0].Token != token(1)[:8] {
		t.Fatalf("%+v, complete %v", all, complete)
	}
	_, _, err := q.RetryDead(t.Context(), letter, queue.Once{})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "the letter to be sent", func() bool { return p.mustReport(id).Delivered == 1 })
	if all, _ := p.mustFailed(id, 50); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// N21: so is who failed among many, in parts on several shards, each once.
func TestN21_Many(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	many := 2*events.PageSize + 250
	p.mustManyDevices(many)
	var want []string
	for i := 0; i < many; i += 90 {
		p.apns.Script(token(1_000_000+i), apnstest.Gone("Unregistered", time.Now().Add(time.Hour)))
		want = append(want, fans(many)[i])
	}
	id := p.mustPost(fanOut{events.Audience{Topic: "star"}}.event())
	p.mustEnd(id, api.EventDone)
	all, complete := p.mustFailed(id, 7)
	var got []string
	for _, n := range all {
		got = append(got, n.User)
	}
	slices.Sort(got)
	if !complete || !slices.Equal(got, want) {
		t.Errorf("complete %v, failed %v, want %v", complete, got, want)
	}
}

// N21, E7: nothing that says who failed names a user who was erased, and others stay.
func TestN21_Erased(t *testing.T) {
	t.Parallel()
	eachHop(t, func(t *testing.T, o options) {
		p := setup(t, o)
		p.mustDevice(erasedUser, 1)
		p.mustDevice("bob", 2)
		for _, n := range []int{1, 2} {
			p.apns.Script(token(n), apnstest.Gone("Unregistered", time.Now().Add(time.Hour)))
		}
		id := p.mustPost(hello(erasedUser, "bob"))
		p.mustEnd(id, api.EventDone)
		op := p.mustErase(erasedUser)
		n, err := p.first.events.EraseFailures(t.Context(), op.Subject, time.UnixMilli(op.Since), p.mustKeys("ff:*"))
		if all, _ := p.mustFailed(id, 50); err != nil || n != 1 || len(all) != 1 || all[0].User != "bob" {
			t.Errorf("%d, %v, %+v", n, err, all)
		}
		if keys := p.mustKeys("ff:{q:*}:failed:*"); len(keys) == 0 {
			t.Error("nothing is kept")
		}
	})
}
