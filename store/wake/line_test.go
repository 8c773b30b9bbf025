package wake_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"fanfare/store/storetest"
	"fanfare/store/wake"
)

// No goroutine that a test started runs after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every waiter of a channel is woken when it may look first, at each message, and after the connection was lost. The
// connection is open only while somebody waits.
func TestLine(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	line := wake.NewLine(db.Blocking())
	join := func(channel string) (woken func(what string), leave func()) {
		told := line.Join(t.Context(), channel)
		return func(what string) {
				t.Helper()
				select {
				case <-told:
				case <-time.After(20 * time.Second):
					t.Errorf("not woken: %s", what)
				}
			}, func() {
				line.Leave(channel, told)
			}
	}
	first, leaveFirst := join("a")
	first("it listens")
	second, leaveSecond := join("a")
	second("it listens")
	other, leaveOther := join("b")
	other("it listens")
	if n := line.Waiting("a"); n != 2 {
		t.Errorf("%d wait", n)
	}
	storetest.Must(t, db.Client().Publish(t.Context(), "a", "x").Err())
	first("a message")
	second("a message")
	leaveSecond()
	storetest.Must(t, db.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	first("the connection was lost")
	other("the connection was lost")
	leaveOther()
	leaveFirst()
	if n := line.Waiting("a"); n != 0 {
		t.Errorf("%d wait in the end", n)
	}
	storetest.Eventually(t, 20*time.Second, "the connection is closed", func() bool {
		return len(db.Client().PubSubChannels(t.Context(), "*").Val()) == 0
	})
}
