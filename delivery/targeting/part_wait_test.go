package targeting_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/transport"
	"fanfare/store/queue/shard"
	"fanfare/store/storetest"
)

// TestWhatWaitsForRoomReadsNoSettings: while the app of events or of parts has no room they wait, and the settings of their
// users are not read at each try.
func TestWhatWaitsForRoomReadsNoSettings(t *testing.T) {
	t.Parallel()
	for name, users := range map[string]int{"Events": 100, "Parts": 400} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustReadOnce(t, users)
		})
	}
}

// mustReadOnce posts events to so many users each, all of them to 400.
func mustReadOnce(t *testing.T, users int) {
	t.Helper()
	server, answers := storetest.Redis(t), make(chan bool)
	release := sync.OnceFunc(func() { close(answers) })
	defer release()
	sender := &scripted{answer: func(*transport.Notification) transport.Answer {
		<-answers // the app has no room until then
		return transport.Answer{Outcome: transport.Delivered, Status: 200}
	}}
	p := setup(t, options{
		db: storetest.Open(t, server.URL()), sqlTime: time.Minute, idle: true, noFacts: true,
		sender:   func(*pipeline) transport.Sender { return sender },
		delivery: func(o *delivery.Options) { o.InFlight = 200 },
	})
	const all, most = 400, 100 // four events or parts, of which one has room
	p.mustManyDevices(all)
	for _, user := range fans(all) {
		p.mustCache(user)
	}
	var ids []string
	for some := range slices.Chunk(fans(all), users) {
		ids = append(ids, p.mustPost(hello(some...)))
	}
	storetest.Must(t, server.Client().ConfigResetStat(t.Context()).Err())
	p.first.start()
	const tries = 9 // of three events or parts
	waits := map[string]bool{}
	storetest.Eventually(t, soon, "all to be tried again and again", func() bool {
		p.mustNoteWaits(waits)
		return len(waits) >= tries
	})
	if n := len(sender.sent()); n != most {
		t.Errorf("%d notifications are under way, want %d", n, most)
	}
	// Each reads the settings once, to be sent or to be refused. Scripts that run again and again call the same command, but far
	// less often than one that reads its settings once more.
	if n := storetest.Calls(t, server.Client(), "hmget"); n < 2*most || n >= all+most {
		t.Errorf("the settings of %d users were read %d times while three of four waited %d times", all, n, len(waits))
	}
	release()
	for _, id := range ids {
		n := int64(users)
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{n, n, n, 0, 0})
	}
}

// mustNoteWaits notes the times for which jobs of the queue of events wait.
func (p *pipeline) mustNoteWaits(waits map[string]bool) {
	p.Helper()
	q := p.first.queueOfEvents
	for n := range q.Shards() {
		times, err := p.db.Client().ZRange(p.Context(), shard.Prefix(q.Name(), n, q.Shards())+"later", 0, -1).Result()
		storetest.Must(p, err)
		for _, at := range times {
			waits[fmt.Sprint(n, " ", at)] = true
		}
	}
}
