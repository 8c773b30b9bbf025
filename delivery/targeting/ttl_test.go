package targeting_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/targeting"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustBrief makes an event type whose notifications live for some seconds, and an event of this
// type to bob.
func (p *pipeline) mustBrief(seconds int64) *api.EventRequest {
	p.Helper()
	p.mustType("brief", api.EventTypeRequest{Title: "T", TTLSeconds: &seconds})
	return &api.EventRequest{Type: "brief", Audience: api.Audience{Users: []string{"bob"}}}
}

// TestP8_TTLCountsByRedisClock: a time to live begins when Redis has the event, independent of the
// clock of the server that accepted it.
func TestP8_TTLCountsByRedisClock(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"Slow": -2 * time.Minute, "Fast": 2 * time.Minute} {
		for _, hops := range []string{"AtOnce", "Waits"} {
			t.Run(name+"/"+hops, func(t *testing.T) {
				t.Parallel()
				p := setup(t, options{db: storetest.Open(t, ""), waits: hops == "Waits", events: func(o *events.Options) {
					o.Now = func() time.Time { return time.Now().Add(wrong) }
				}})
				p.mustDevice("bob", 1)
				began := time.Now()
				p.mustCounts(p.mustEnd(p.mustPost(p.mustBrief(60)), api.EventDone), counts{1, 1, 1, 0, 0})
				at, err := strconv.ParseInt(p.apns.Of(token(1))[0].Expiration, 10, 64)
				if end := time.Unix(at, 0); err != nil || end.Before(began.Add(58*time.Second)) || end.After(time.Now().Add(62*time.Second)) {
					t.Errorf("APNs was told %v, %v: not a minute after %v", end, err, began)
				}
			})
		}
	}
}

// TestP8_TTLGoesOnAcrossADeadLetter: an event that failed and is tried again keeps its first
// expiry.
func TestP8_TTLGoesOnAcrossADeadLetter(t *testing.T) {
	t.Parallel()
	p := setup(t, options{
		queue: func(o *queue.Options) { o.MaxAttempts, o.RetryBase, o.RetryMax = 2, time.Millisecond, time.Millisecond },
		target: func(o *targeting.Options) {
			o.Pagers[events.KindContactsOf] = func(context.Context, string, string, int) ([]string, error) {
				return nil, errors.New("broken")
			}
		},
	})
	e := p.mustBrief(2)
	e.Audience = api.Audience{ContactsOf: "bob"}
	id, posted := p.mustPost(e), time.Now()
	var dead string
	storetest.Eventually(t, soon, "the dead letter", func() bool {
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfEvents)
		if err != nil || len(list.Items) != 1 {
			return false
		}
		dead = list.Items[0].ID
		return true
	})
	storetest.Eventually(t, soon, "the event's time to be over", func() bool { return time.Since(posted) > 2*time.Second })
	if _, _, err := p.first.queueOfEvents.RetryDead(t.Context(), dead, queue.Once{}); err != nil {
		t.Fatal(err)
	}
	p.mustEnd(id, api.EventExpired)
}
