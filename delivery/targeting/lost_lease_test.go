package targeting_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/targeting"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// TestWhoLostAnEventStoresNothingOfIt: a process is cut off while it reads an audience, until
// another process has targeted the event and the tombstones of its notifications have expired. When
// it is back, it knows that its lease is over and stores nothing.
func TestWhoLostAnEventStoresNothingOfIt(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		reading, goOn := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		server := storetest.Redis(t)
		p := setup(t, options{
			db: storetest.Open(t, server.URL()), idle: true,
			queue: func(o *queue.Options) { o.Lease, o.Retention = time.Second, time.Millisecond },
			target: readingBy(func(ctx context.Context, id, after string, limit int, read targeting.Pager) ([]string, error) {
				users, err := read(context.WithoutCancel(ctx), id, after, limit)
				if held.CompareAndSwap(false, true) {
					close(reading)
					<-goOn
				}
				return users, err
			}),
		})
		p.mustManyDevices(5)
		proxy, url := storetest.ProxyTo(t, server.URL())
		victim := p.processOn(storetest.Open(t, url))
		id := p.mustPost(f.event())
		p.mustHold()() // so that its notifications become jobs
		victim.start()
		<-reading
		proxy.Cut()
		other := p.process()
		other.start()
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{5, 5, 5, 0, 0})
		proxy.Mend()
		storetest.Eventually(t, soon, "the process that was cut off to be back", func() bool {
			return victim.db.Client().Ping(t.Context()).Err() == nil
		})
		close(goOn)
		victim.stop() // when it is done with the event
		other.mustDrain()
		if n := p.apns.Total(); n != 5 {
			t.Errorf("%d requests to 5 devices", n)
		}
		p.mustCounts(p.mustReport(id), counts{5, 5, 5, 0, 0})
	})
}

// mustDrain waits until no notification waits or is sent.
func (s *process) mustDrain() {
	s.Helper()
	storetest.Eventually(s, soon, "all notifications to end", func() bool {
		stats, err := s.queueOfNotes.Stats(s.Context())
		return err == nil && stats.Depth+stats.InFlight+stats.Scheduled == 0
	})
}
