package targeting_test

import (
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// TestA15_TheLastEndIsRecordedWhenTheEventGoesOn: one notification of an event cannot be stored, so
// that the event is tried again. The other notification ends after that, as the last one, and is
// not sent again.
func TestA15_TheLastEndIsRecordedWhenTheEventGoesOn(t *testing.T) {
	t.Parallel()
	server, refused := storetest.Redis(t), make(chan bool)
	var s *scripted
	s = &scripted{answer: func(n *transport.Notification) transport.Answer {
		switch n.Token {
		case token(2):
			<-refused
		case token(1):
			if len(s.sent()) <= 2 { // it has to wait, as a job of its own
				return transport.Answer{Outcome: transport.RetryUncounted, Status: 503}
			}
		}
		return transport.Answer{Outcome: transport.Delivered, Status: 200}
	}}
	p := setup(t, options{db: storetest.Open(t, server.URL()), sender: func(*pipeline) transport.Sender { return s }})
	p.mustDevice("bob", 1)
	p.mustDevice("bob", 2)
	later := p.prefixOf(token(1)) + "later"
	storetest.Must(t, p.db.Client().Set(t.Context(), later, "no set", 0).Err())
	storetest.Must(t, server.Client().ConfigResetStat(t.Context()).Err())
	id := p.mustPost(hello("bob"))
	storetest.Eventually(t, soon, "the other to be sent", func() bool { return len(s.sent()) == 2 })
	storetest.Eventually(t, soon, "one not to be stored", func() bool {
		errors, err := server.Client().Info(t.Context(), "errorstats").Result()
		return err == nil && strings.Contains(errors, "WRONGTYPE")
	})
	storetest.Must(t, p.db.Client().Del(t.Context(), later).Err())
	close(refused)
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 2, 2, 0, 0})
	sent := map[string]int{}
	for _, n := range s.sent() {
		sent[n.Token]++
	}
	if sent[token(1)] != 2 || sent[token(2)] != 1 {
		t.Errorf("sent %v", sent)
	}
}
