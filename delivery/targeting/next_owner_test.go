package targeting_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/storetest"
)

// watched records, for each request, when MaySend was last called before it was written.
type watched struct {
	transport.Sender
	mu      sync.Mutex
	begun   map[string]int       // tries by token
	written map[string]time.Time // by notification
}

// watching gives a process the sender to APNs, wrapped in watched.
func watching() (*watched, func(*pipeline) transport.Sender) {
	s := &watched{begun: map[string]int{}, written: map[string]time.Time{}}
	return s, func(p *pipeline) transport.Sender {
		s.Sender = p.mustAPNs()
		return s
	}
}

func (s *watched) watch(n *transport.Notification) *transport.Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[n.Token]++
	seen := *n
	seen.MaySend = func() bool {
		at := time.Now()
		if !n.MaySend() {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.written[n.ID] = at
		return true
	}
	return &seen
}

func (s *watched) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	s.Sender.Start(ctx, s.watch(n), done)
}

func (s *watched) tries(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[token]
}

// mustChangeHands gives alice's device to bob and returns the time of the answer.
func (p *pipeline) mustChangeHands() time.Time {
	p.Helper()
	storetest.Must(p, p.first.devices.DeleteDevice(p.Context(), "alice", token(1)))
	at := time.Now()
	p.mustDevice("bob", 1)
	return at
}

// mustStayPrivate waits until alice's events have ended, and makes sure that nothing of them was
// written to the device after it became bob's, and nothing twice.
func (p *pipeline) mustStayPrivate(s *watched, ids []string, gone time.Time) {
	p.Helper()
	for _, id := range ids {
		r := p.mustEnd(id, api.EventDone)
		// One may be targeted after the removal.
		if r.Delivered+r.FailedBy["device_gone"]+r.Suppressed.NoDevice != 1 || r.Delivered+r.Failed != r.Notifications || r.Retrying != 0 {
			p.Errorf("report %+v", r)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	late, latest := 0, time.Duration(0)
	for _, id := range ids {
		at, written := s.written[events.NotificationID(id, token(1))]
		if after := at.Sub(gone); written && after > latest {
			latest = after
		}
		if written && at.Sub(gone) > 2*time.Second {
			late++
		}
	}
	if late > 0 {
		p.Errorf("%d of alice's %d texts were written too late, the last %v after her device was gone", late, len(ids), latest)
	}
	p.Logf("the last of alice's texts was written %v after her device was gone", latest)
	times := map[string]int{}
	for _, r := range p.apns.Of(token(1)) {
		if times[r.ID]++; times[r.ID] > 1 {
			p.Errorf("%s was sent %d times", r.ID, times[r.ID])
		}
	}
}

// TestP4_NothingGoesToTheNextOwner: APNs is slow, and eight texts for alice wait one after the
// other when her device becomes bob's.
func TestP4_NothingGoesToTheNextOwner(t *testing.T) {
	t.Parallel()
	slow := []time.Duration{time.Second, 3 * time.Second, 5 * time.Second}
	if storetest.Full() {
		slow = append(slow, 20*time.Second)
	}
	for _, took := range slow {
		for _, hops := range []string{"AtOnce", "Waits"} {
			t.Run(took.String()+"/"+hops, func(t *testing.T) {
				t.Parallel()
				server := storetest.Redis(t)
				s, sender := watching()
				p := setup(t, options{db: storetest.Open(t, server.URL()), sender: sender, waits: hops == "Waits"})
				p.apns.SetLatency(took, 0)
				p.mustDevice("alice", 1)
				var ids []string
				began := time.Now()
				for range 8 {
					ids = append(ids, p.mustPost(hello("alice")))
				}
				under := 1
				if hops == "AtOnce" && took <= 5*time.Second {
					under = 2 // the others have become separate jobs and are claimed
				}
				storetest.Must(t, p.apns.WaitTotal(under, soon+20*time.Second))
				p.mustStayPrivate(s, ids, p.mustChangeHands())
				lasted := time.Since(began)
				deferred := storetest.Calls(t, server.Client(), "rpush")
				if most := len(ids) * (2 + int(lasted/time.Second)); deferred > most {
					t.Errorf("%d times something was given back in %v, at most %d expected", deferred, lasted, most)
				}
				p.apns.SetLatency(0, 0)
				p.mustCounts(p.mustEnd(p.mustPost(hello("bob")), api.EventDone), counts{1, 1, 1, 0, 0})
			})
		}
	}
}

// TestP4_NothingGoesToTheNextOwnerAfterA503: APNs asked to slow down, and the notifications for
// alice wait until fewer requests are under way.
func TestP4_NothingGoesToTheNextOwnerAfterA503(t *testing.T) {
	t.Parallel()
	s, sender := watching()
	p := setup(t, options{sender: sender, waits: true})
	p.mustDevice("alice", 1)
	var others []string
	for n := 2; n < 10; n++ {
		p.mustDevice(user(n), n)
		p.apns.Script(token(n), apnstest.After(4*time.Second), apnstest.OK())
	}
	p.apns.Script(token(2), apnstest.Answer{Status: 503, Reason: "ServiceUnavailable", Delay: 500 * time.Millisecond}, apnstest.OK())
	for n := 2; n < 10; n++ {
		others = append(others, p.mustPost(hello(user(n))))
	}
	storetest.Eventually(t, soon, "fewer to be under way", func() bool { return p.mustReport(others[0]).Retrying == 1 })
	var ids []string
	for range 8 {
		ids = append(ids, p.mustPost(hello("alice")))
	}
	storetest.Eventually(t, soon, "alice's to wait", func() bool { return s.tries(token(1)) > 0 })
	p.mustStayPrivate(s, ids, p.mustChangeHands())
	for _, id := range append(others, p.mustPost(hello("bob"))) {
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
	}
}

// TestP13_NothingGoesToTheNextOwner: the same, when a batch gives the device to bob.
func TestP13_NothingGoesToTheNextOwner(t *testing.T) {
	t.Parallel()
	for _, hops := range []string{"AtOnce", "Waits"} {
		t.Run(hops, func(t *testing.T) {
			t.Parallel()
			s, sender := watching()
			p := setup(t, options{db: storetest.Open(t, storetest.Redis(t).URL()), sender: sender, waits: hops == "Waits"})
			p.apns.SetLatency(time.Second, 0)
			p.mustDevice("alice", 1)
			var ids []string
			for range 8 {
				ids = append(ids, p.mustPost(hello("alice")))
			}
			storetest.Must(t, p.apns.WaitTotal(1, soon))
			var batch []api.DeviceEntry
			for n, user := range []string{"carl", "bob", "amy"} {
				batch = append(batch, api.DeviceEntry{User: user, Token: token(n), Platform: "apns", Topic: apnstest.DefaultTopic, Environment: api.EnvProduction})
			}
			_, err := p.first.devices.PutDevices(t.Context(), batch, api.Idempotency{})
			storetest.Must(t, err)
			p.mustStayPrivate(s, ids, time.Now())
			p.apns.SetLatency(0, 0)
			for _, user := range []string{"carl", "bob", "amy"} {
				p.mustCounts(p.mustEnd(p.mustPost(hello(user)), api.EventDone), counts{1, 1, 1, 0, 0})
			}
		})
	}
}
