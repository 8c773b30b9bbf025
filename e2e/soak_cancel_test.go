package e2e

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// cancelledEvent is an event that was accepted, and then cancelled.
type cancelledEvent struct {
	soakEvent
	status   int       // of the cancel
	answered time.Time // the cancel
}

// schedule makes the posting's only event due up to 5 s later.
func (it *posting) schedule(r *rand.Rand, event map[string]any) {
	due := time.Now().Add(time.Duration(r.IntN(5000)) * time.Millisecond).Truncate(time.Millisecond)
	event["send_at"], it.events[0].due = due.UTC().Format("2006-01-02T15:04:05.000Z"), due
}

// cancel posts an event to steady users, half of them for later, and cancels it a moment after.
func (p *pushTraffic) cancel(r *rand.Rand, i int) {
	key, it := fmt.Sprint("c", i), &posting{}
	body := it.event(key, numbers(soakFleeting, 1+r.IntN(150)*r.IntN(2)), nil)
	if r.IntN(2) == 0 {
		it.schedule(r, body)
	}
	got, ids := p.ids(r, p.s.insist, "/v1/events", body, key)
	if got.outcome != answered || got.status != 202 {
		p.s.failf("post %s: %d %s", key, got.status, got.text)
		return
	}
	<-time.After(time.Duration(r.IntN(200)) * time.Millisecond)
	if got = p.s.insist(r, nil, "POST", "/v1/events/"+ids[0]+"/cancel", nil); got.outcome != answered {
		return
	}
	p.s.count(fmt.Sprint("cancels answered with ", got.status), 1)
	it.events[0].id = ids[0]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancelled = append(p.cancelled, cancelledEvent{it.events[0], got.status, time.Now()})
}

// checkCancelled compares the cancelled events with what reached the devices and with the reports: each
// notification has ended once, nothing was sent later, and nothing at all of an event that was not due then.
func (p *pushTraffic) checkCancelled() {
	s, there := p.s, p.s.sendings()
	for _, e := range p.cancelled {
		r, got := rand.New(rand.NewPCG(1, 1)), cancelReport{}
		want := map[int]string{200: "cancelled", 409: "done"}[e.status]
		s.eventually(3*time.Minute, e.key+" is over", func() bool {
			got = cancelReport{}
			s.want(r, &got, []int{200}, "GET", "/v1/events/"+e.id, nil)
			return got.State == want && got.Delivered+got.Failed+got.Expired+got.Cancelled == got.Notifications
		})
		before := e.due.Sub(e.answered) > time.Second
		if got.State != want || got.Delivered+got.Cancelled != got.Notifications || got.Notifications > len(e.users) || before && got.Notifications > 0 {
			s.failf("%s (%s) to %d users, due %s, cancelled at %s: %d, report %+v", e.key, e.id, len(e.users), clock(e.due), clock(e.answered), e.status, got)
		}
		for _, user := range e.users {
			for _, sent := range there[pushKey(e.key, deviceToken(user))] {
				late := sent.At.Sub(e.answered) > 11*time.Second && s.faultsAround(e.answered, sent.At) == "" // 10 s for a slow machine
				if e.status == 200 && (late || before) || sent.At.Before(e.due) {
					s.failf("%s was due %s and cancelled at %s, and sent at %s", e.key, clock(e.due), clock(e.answered), clock(sent.At))
				}
			}
		}
	}
}
