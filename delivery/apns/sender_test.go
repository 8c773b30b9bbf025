package apns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// world is a stand-in and a sender to it.
type world struct {
	*apnstest.Server
	t      testing.TB
	sender *Sender
}

// setup starts a stand-in, and a sender that signs for every topic. Changes are
// made to the sender's options before it starts.
func setup(t testing.TB, o apnstest.Options, changes ...func(*Options)) *world {
	t.Helper()
	s := apnstest.Start(t, o)
	so := optionsFor(s)
	for _, change := range changes {
		change(&so)
	}
	return &world{Server: s, t: t, sender: mustNew(t, so)}
}

func optionsFor(s *apnstest.Server) Options {
	return Options{
		URL: s.URL(), ManageURL: s.ManageURL(), CAFile: s.CAFile(), KeyFile: s.KeyFile(), KeyID: s.KeyID(), TeamID: s.TeamID(),
		Settings: exchange.Settings{Timeout: 30 * time.Second},
	}
}

func mustNew(t testing.TB, o Options, appsFile ...string) *Sender {
	t.Helper()
	a := New(o)
	t.Cleanup(func() { _ = a.Close() })
	storetest.Must(t, configure(a, strings.Join(appsFile, "")))
	return a
}

// configure lets a sender read its configuration again, with this apps file unless it is "".
func configure(a *Sender, appsFile string) error {
	return transport.Configure(a, "FANFARE_APPS_FILE", appsFile)
}

// deviceToken is the i-th device token.
func deviceToken(i int) string { return fmt.Sprintf("%064x", i+1) }

// testNote is a valid notification for the i-th device.
func testNote(i int) *transport.Notification {
	return &transport.Notification{
		ID:    uuid.NewSHA1(uuid.Nil, []byte(deviceToken(i))).String(),
		Token: deviceToken(i), Topic: apnstest.DefaultTopic, Environment: api.EnvProduction,
		PushType: api.PushAlert, Priority: 10, CollapseID: "c", Payload: []byte(`{"aps":{"alert":{"title":"hi"}}}`),
	}
}

func (w *world) send(n *transport.Notification) transport.Answer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return transport.Await(ctx, w.sender, n)
}

// mustDeliver sends a notification that must be delivered.
func (w *world) mustDeliver(n *transport.Notification) {
	w.t.Helper()
	if a := w.send(n); a.Outcome != transport.Delivered {
		w.t.Fatalf("got %s %d %s: %v", a.Outcome, a.Status, a.Reason, a.Err)
	}
}

// sendMany sends to n devices at once, from device first on.
func (w *world) sendMany(first, n int) []transport.Answer {
	w.t.Helper()
	out := make([]transport.Answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i] = w.send(testNote(first + i)) })
	}
	wg.Wait()
	return out
}

// outcomesOf counts outcomes.
func outcomesOf(answers []transport.Answer) map[transport.Outcome]int {
	out := make(map[transport.Outcome]int)
	for _, a := range answers {
		out[a.Outcome]++
	}
	return out
}

func TestA1_HTTP2OverTLS(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.mustDeliver(testNote(1))
	w.MustWait(t, 1, time.Second)
	r := w.Of(deviceToken(1))[0]
	if r.Topic != apnstest.DefaultTopic || r.PushType != "alert" || r.Priority != "10" || r.CollapseID != "c" ||
		r.ID != testNote(1).ID || r.Bearer == "" || string(r.Payload) != string(testNote(1).Payload) {
		t.Fatalf("got %+v", r)
	}
}

func TestSendMany(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{TrackIDs: true})
	got := outcomesOf(w.sendMany(0, 5000))
	if got[transport.Delivered] != 5000 {
		t.Fatalf("got %v", got)
	}
	if n, again := w.IDs(); n != 5000 || again != 0 {
		t.Fatalf("%d ids, %d again", n, again)
	}
	if v := w.Violations(); len(v) > 0 {
		t.Fatal(v)
	}
	t.Logf("peak %d on %d connections", w.PeakStreams(), w.Accepted())
}

// MaySend is called right before the request is written, on every try.
func TestAliveIsAskedBeforeTheWrite(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	n := testNote(1)
	n.MaySend = func() bool { return false }
	if a := w.send(n); a.Outcome != transport.NotSent || !errors.Is(a.Err, transport.ErrMayNotSend) {
		t.Fatalf("got %s %v", a.Outcome, a.Err)
	}
	w.mustDeliver(testNote(0))
	w.Script(deviceToken(2), apnstest.Failing(apnstest.Refuse))
	tries := 0
	n = testNote(2)
	n.MaySend = func() bool { tries++; return tries < 2 }
	if a := w.send(n); a.Outcome != transport.NotSent || !errors.Is(a.Err, transport.ErrMayNotSend) || tries != 2 {
		t.Fatalf("got %s %v after %d tries", a.Outcome, a.Err, tries)
	}
	if got := w.Of(deviceToken(1)); len(got) != 0 {
		t.Fatalf("without a lease arrived %+v", got)
	}
}

// MaySend is called again if the body had to wait for a flow-control window, because the lease
// may have ended in the meantime.
func TestLeaseIsAskedAfterFlowControl(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{true, false} {
		t.Run(fmt.Sprint(alive), func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{Window: 10})
			w.mustDeliver(testNote(0)) // the peer's settings are known from here on
			w.HoldWindows(true)
			var may atomic.Bool
			may.Store(true)
			n, done := testNote(1), make(chan transport.Answer, 1)
			n.MaySend = may.Load
			w.sender.Start(t.Context(), n, func(a transport.Answer) { done <- a })
			// The stand-in also holds back a second request, so that only the first one gets this
			// far.
			w.sender.Start(t.Context(), testNote(2), func(transport.Answer) {})
			storetest.Eventually(t, 20*time.Second, "both to wait for their windows", func() bool { return w.PeakStreams() == 2 })
			may.Store(alive)
			w.HoldWindows(false)
			a := <-done
			if delivered := a.Outcome == transport.Delivered; delivered != alive {
				t.Fatalf("got %s %v", a.Outcome, a.Err)
			}
			if !alive && (a.Outcome != transport.NotSent || !errors.Is(a.Err, transport.ErrMayNotSend)) {
				t.Fatalf("got %s %v", a.Outcome, a.Err)
			}
			w.mustDeliver(testNote(3))
			if arrived := len(w.Of(deviceToken(1))) > 0; arrived != alive {
				t.Fatalf("it arrived: %v", arrived)
			}
		})
	}
}

func TestSmallWindows(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{Window: 10, TrackIDs: true})
	if got := outcomesOf(w.sendMany(0, 1000)); got[transport.Delivered] != 1000 {
		t.Fatalf("got %v", got)
	}
	if n, again := w.IDs(); n != 1000 || again != 0 {
		t.Fatalf("%d ids, %d again", n, again)
	}
}

// Start sends without a goroutine for each notification, and there is one answer for each.
func TestStart(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{TrackIDs: true})
	const count = 5000
	answers := make(chan transport.Answer, 2*count)
	for i := range count {
		w.sender.Start(t.Context(), testNote(i), func(a transport.Answer) { answers <- a })
	}
	for i := range count {
		if a := <-answers; a.Outcome != transport.Delivered {
			t.Fatalf("%d: got %s %v", i, a.Outcome, a.Err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.ScriptAll(apnstest.Failing(apnstest.Hang))
	w.sender.Start(ctx, testNote(0), func(a transport.Answer) { answers <- a })
	if a := <-answers; a.Outcome != transport.NotSent && a.Outcome != transport.UnknownOutcome {
		t.Fatalf("after its context: %s", a.Outcome)
	}
	if n, again := w.IDs(); n != count || again > 1 || len(answers) > 0 {
		t.Fatalf("%d ids, %d again, %d answers too many", n, again, len(answers))
	}
}

// The end of a context leads to NotSent while the request waits, and to UnknownOutcome once it was
// written.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.ScriptAll(apnstest.Failing(apnstest.Hang))
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan transport.Answer, 1), make(chan transport.Answer, 1)
	go func() { first <- transport.Await(ctx, w.sender, testNote(0)) }()
	if err := w.WaitTotal(1, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	go func() { second <- transport.Await(ctx, w.sender, testNote(1)) }() // it waits, because only one request is allowed until the first answer
	storetest.Eventually(t, 20*time.Second, "both are under way", func() bool { return w.inFlight() == 2 })
	cancel()
	if a := <-first; a.Outcome != transport.UnknownOutcome {
		t.Errorf("the written one: %s %v", a.Outcome, a.Err)
	}
	if a := <-second; a.Outcome != transport.NotSent {
		t.Errorf("the waiting one: %s %v", a.Outcome, a.Err)
	}
	w.ScriptAll(apnstest.OK())
	w.mustDeliver(testNote(2))
}

func (w *world) inFlight() int {
	n, _ := w.app().limiter.State()
	return n
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.mustDeliver(testNote(0))
	w.Script(deviceToken(1), apnstest.After(100*time.Millisecond))
	done := make(chan transport.Answer, 1)
	go func() { done <- w.send(testNote(1)) }()
	if err := w.WaitTotal(2, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := w.sender.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.Outcome != transport.Delivered {
		t.Fatalf("what was under way: %s %v", a.Outcome, a.Err)
	}
	if a := w.send(testNote(2)); a.Outcome != transport.NotSent {
		t.Fatalf("after the close: %s", a.Outcome)
	}
	storetest.Eventually(t, 20*time.Second, "the connection is closed", func() bool { return w.Connections() == 0 })
	storetest.Must(t, configure(w.sender, "")) // it stays closed
	if a := w.send(testNote(3)); a.Outcome != transport.NotSent {
		t.Fatalf("configured again after the close: %s", a.Outcome)
	}
}
