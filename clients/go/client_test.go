package fanfare_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	fanfare "fanfare/clients/go"
)

// Every named method makes a call that the server takes, and reads its answer.
func TestEveryMethod(t *testing.T) {
	t.Parallel()
	c, ctx := setup(t).client(fanfare.Options{}), within(t, time.Minute)

	must(t, c.PutEventType(ctx, "photo", fanfare.EventType{Title: "New photo", Opened: true, Localized: map[string]fanfare.Alert{"de": {Title: "Neues Foto"}}}, fanfare.IfAbsent()))
	if err := c.PutEventType(ctx, "photo", fanfare.EventType{Title: "Other"}, fanfare.IfAbsent()); fanfare.CodeOf(err) != "version_mismatch" {
		t.Errorf("made twice: %v", err)
	}
	token := strings.Repeat("60", 32)
	device, err := c.RegisterDevice(ctx, "bob", token, fanfare.Device{Platform: "apns", Topic: "com.example.app", Environment: "sandbox", Locale: "de"})
	must(t, err)
	browser, err := c.RegisterBrowser(ctx, "bob", fanfare.Browser{Topic: "shop", Subscription: []byte(`{"endpoint": "https://fcm.googleapis.com/fcm/send/go",
		"keys": {"p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "auth": "BTBZMqHH6r4Tts7J_aSIgg"}}`)})
	must(t, err)
	if device.State != "active" || browser.Origin != "https://fcm.googleapis.com" {
		t.Errorf("registered %+v, %+v", device, browser)
	}
	must(t, c.RemoveDevice(ctx, "bob", browser.Token))
	id, err := c.SendEvent(ctx, fanfare.Event{Type: "photo", Actor: "alice", Audience: fanfare.Audience{Users: []string{"alice", "bob"}}, ExpiresAt: time.Now().Add(time.Hour)})
	must(t, err)
	ids, err := c.SendEvents(ctx, []fanfare.Event{{Type: "photo", Audience: fanfare.Audience{Users: []string{"bob"}}}, {Type: "photo", Audience: fanfare.Audience{Users: []string{"carol"}}}})
	if err != nil || len(ids) != 2 || ids[0] == ids[1] {
		t.Errorf("sent %v: %v", ids, err)
	}
	until(t, "the event is done", func() bool {
		report, err := c.GetEvent(ctx, id)
		must(t, err)
		return report.State == "done" && report.Delivered == 1 && report.Suppressed["is_actor"] == 1 && *report.Opened == 0
	})
	must(t, c.MarkOpened(ctx, id, "bob", token))
	must(t, c.MarkDismissed(ctx, id, "bob", ""))
	for _, mark := range []func(context.Context, string, string, string, ...fanfare.Setting) error{c.MarkOpened, c.MarkDismissed} {
		if err := mark(ctx, id, "bob", "no token"); fanfare.CodeOf(err) != "validation_failed" {
			t.Errorf("on a device without a token: %v", err)
		}
	}
	if err := c.MarkOpened(ctx, id, "alice", ""); fanfare.CodeOf(err) != "not_found" {
		t.Errorf("the actor opened it: %v", err)
	}
	if report, err := c.GetEvent(ctx, id); err != nil || *report.Opened != 1 || *report.Dismissed != 1 {
		t.Errorf("%+v: %v", report, err)
	}

	badge, err := c.SetBadge(ctx, "bob", 3, true)
	must(t, err)
	added, err := c.AddBadge(ctx, "bob", -1)
	must(t, err)
	read, err := c.GetBadge(ctx, "bob")
	if err != nil || added.Count != 2 || read != added || !read.Since.Equal(badge.Since) || read.Version <= badge.Version {
		t.Errorf("badges %+v, %+v, %+v: %v", badge, added, read, err)
	}

	mustLive(t, c)

	hello := "hello"
	chat, err := c.CreateChat(ctx, fanfare.NewChat{Creator: "alice", Members: []string{"bob"}, Message: &hello})
	must(t, err)
	must(t, c.JoinChat(ctx, chat.ID, "carol"))
	must(t, c.JoinChatFromStart(ctx, chat.ID, "dave"))
	sent, err := c.PostMessage(ctx, chat.ID, fanfare.NewMessage{Sender: "alice", Text: "look", Data: map[string]string{"picture": "p1"}})
	must(t, err)
	page, err := c.ListMessages(ctx, chat.ID, fanfare.MessageQuery{User: "bob", After: 1, Limit: 10})
	if err != nil || sent.ID != 2 || len(page.Items) != 1 || page.Items[0].Data["picture"] != "p1" || page.LastID != 2 {
		t.Errorf("%+v: %v", page, err)
	}
	acks, err := c.AckMessages(ctx, "bob", map[string]int64{chat.ID: 2})
	if err != nil || acks.Acked[chat.ID] != 2 {
		t.Errorf("%+v: %v", acks, err)
	}
	must(t, c.LeaveChat(ctx, chat.ID, "carol"))

	two := int64(2)
	sale, err := c.PutSale(ctx, "spring", fanfare.NewSale{Items: []fanfare.Stock{{SKU: "shoe:42", Stock: 3}}, StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour), PerUserLimit: &two})
	must(t, err)
	lines := []fanfare.Line{{SKU: "shoe:42", Quantity: 2}}
	first, err := c.Reserve(ctx, "spring", "alice", lines)
	must(t, err)
	_, err = c.Reserve(ctx, "spring", "bob", lines)
	var problem *fanfare.Problem
	var left struct{ Available map[string]int64 }
	if !errors.As(err, &problem) || problem.Code != "sold_out" || !problem.Retryable || problem.Decode(&left) != nil || left.Available["shoe:42"] != 1 || problem.RequestID == "" {
		t.Errorf("sold out: %v, %v", err, left)
	}
	second, err := c.Reserve(ctx, "spring", "bob", []fanfare.Line{{SKU: "shoe:42", Quantity: 1}})
	must(t, err)
	sold, err := c.ConfirmReservation(ctx, "spring", first.ID)
	must(t, err)
	released, err := c.ReleaseReservation(ctx, "spring", second.ID)
	must(t, err)
	if sold.State != "sold" || released.State != "released" || *sale.PerUserLimit != 2 {
		t.Errorf("%+v, %+v, %+v", sold, released, sale)
	}
	if sale, err = c.GetSale(ctx, "spring"); err != nil || sale.Items[0] != (fanfare.SaleStock{SKU: "shoe:42", Total: 3, Available: 1, Sold: 2}) {
		t.Errorf("%+v: %v", sale, err)
	}

	job, err := c.EnqueueJob(ctx, "mail", fanfare.NewJob{Type: "welcome", Payload: map[string]string{"to": "alice"}, Unique: "a", RunAt: time.Now().Add(time.Hour)})
	if err != nil || !job.New {
		t.Errorf("%+v: %v", job, err)
	}
	jobs, err := c.EnqueueJobs(ctx, "mail", []fanfare.NewJob{{Type: "welcome", Unique: "a"}, {Type: "welcome"}})
	if err != nil || len(jobs) != 2 || jobs[0].New || jobs[0].ID != job.ID || !jobs[1].New {
		t.Errorf("%+v: %v", jobs, err)
	}
	must(t, c.CancelJob(ctx, job.ID))

	version, err := c.PutValue(ctx, "flag", map[string]bool{"on": true}, time.Hour, fanfare.IfAbsent())
	must(t, err)
	_, err = c.PutValue(ctx, "flag", 7, 0, fanfare.IfVersion(version))
	must(t, err)
	if _, err = c.PutValue(ctx, "flag", 8, 0, fanfare.IfVersion(version)); fanfare.CodeOf(err) != "version_mismatch" {
		t.Errorf("set twice: %v", err)
	}
	if v, err := c.GetValue(ctx, "flag"); err != nil || string(v.Value) != "7" {
		t.Errorf("%+v: %v", v, err)
	}
	_, err = c.PutCounter(ctx, "seats", fanfare.NewCounter{Value: 0, Max: &two})
	must(t, err)
	_, err = c.AddToCounter(ctx, "seats", 3)
	change, err2 := c.AddSaturating(ctx, "seats", 3)
	if counter, err3 := c.GetCounter(ctx, "seats"); fanfare.CodeOf(err) != "bounds" || err2 != nil || change != (fanfare.CounterChange{Value: 2, Applied: 2}) || err3 != nil || counter.Value != 2 {
		t.Errorf("%v, %+v, %v", err, change, err2)
	}

	for i, end := range []func(context.Context, string, string, ...fanfare.Setting) error{c.ReleaseLock, c.FailLock, c.FinishLock} {
		hold, err := c.AcquireLock(ctx, "night", fanfare.LockOptions{Lease: time.Minute, Wait: time.Second})
		must(t, err)
		hold, err = c.RenewLock(ctx, "night", hold.Token)
		must(t, err)
		if _, err := c.AcquireLock(ctx, "night", fanfare.LockOptions{}); fanfare.CodeOf(err) != "lock_held" || hold.LeaseMS != 60_000 {
			t.Errorf("%d: held by %+v: %v", i, hold, err)
		}
		must(t, end(ctx, "night", hold.Token))
	}
	if _, err := c.AcquireLock(ctx, "night", fanfare.LockOptions{}); fanfare.CodeOf(err) != "lock_done" {
		t.Errorf("after the work: %v", err)
	}
	must(t, c.RevokeUserTokens(ctx, "bob"))
}

// Answers are lost, the first three of each call: every call has one effect, because its repeat has the same key.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), within(t, time.Minute)
	c := s.client(fanfare.Options{MinBackoff: time.Millisecond})
	chat, err := c.CreateChat(ctx, fanfare.NewChat{Creator: "alice"})
	must(t, err)
	_, err = c.PutCounter(ctx, "n", fanfare.NewCounter{})
	must(t, err)
	var seen sync.Map
	s.losing(func(r *http.Request, _ int) bool {
		n, _ := seen.LoadOrStore(r.Header.Get("Idempotency-Key"), new(atomic.Int64))
		return r.Method == http.MethodPost && n.(*atomic.Int64).Add(1) <= 3 // net/http repeats some by itself
	})
	for i := range 20 {
		sent, err := c.PostMessage(ctx, chat.ID, fanfare.NewMessage{Sender: "alice", Text: "x"})
		must(t, err)
		change, err := c.AddToCounter(ctx, "n", 1)
		must(t, err)
		if want := int64(i + 1); sent.ID != want || change.Value != want {
			t.Fatalf("message %d and count %d, want %d", sent.ID, change.Value, want)
		}
	}
}

// What could have two effects is not repeated after an answer was lost, and says that it may have happened.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), within(t, time.Minute)
	c := s.client(fanfare.Options{MinBackoff: time.Millisecond})
	s.losing(func(*http.Request, int) bool { return true })
	var failed *fanfare.CallError
	_, err := c.PutValue(ctx, "v", 1, 0, fanfare.IfAbsent())
	if !errors.As(err, &failed) || !failed.Unknown || failed.Attempts != 1 {
		t.Errorf("a condition: %+v", failed)
	}
	_, err = c.CreateUserToken(ctx, "bob", []string{"chat"}, 0)
	if !errors.As(err, &failed) || !failed.Unknown || failed.Attempts != 1 || failed.IdempotencyKey != "" {
		t.Errorf("a secret: %+v", failed)
	}
	_, err = c.EnqueueJob(ctx, "q", fanfare.NewJob{Type: "a"}, fanfare.IdempotencyKey("mine"), fanfare.Attempts(3))
	if !errors.As(err, &failed) || !failed.Unknown || failed.Attempts != 3 || failed.IdempotencyKey != "mine" {
		t.Errorf("a job: %+v", failed)
	}
	s.losing(func(*http.Request, int) bool { return false })
	job, err := c.EnqueueJob(ctx, "q", fanfare.NewJob{Type: "a"}, fanfare.IdempotencyKey("mine"))
	if queue := (struct{ Depth int }{}); err != nil || c.Call(ctx, "GET", "/v1/queues/q", nil, &queue) != nil || queue.Depth != 1 {
		t.Errorf("%+v: %v, %+v", job, err, queue)
	}
}

// An answerer plays a server that refuses.
func answerer(t *testing.T, answer http.HandlerFunc) (*fanfare.Client, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := fanfare.New(server.URL, fanfare.Options{MinBackoff: time.Millisecond, MaxRetryAfter: 2 * time.Second})
	must(t, err)
	return c, &calls
}

// Which answers are repeated, and which mean that something may have happened.
func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, code string // no code: a proxy's answer
		status       int
		retryable    bool
		header       string // Retry-After
		calls        int64
		unknown      bool
	}{
		{"POST", "overloaded", 503, true, "", 3, false},
		{"POST", "unavailable", 503, true, "", 3, false},
		{"POST", "unknown_outcome", 503, true, "", 3, true},
		{"POST", "internal", 500, true, "", 3, true},
		{"POST", "rate_limited", 429, true, "", 3, false},
		{"POST", "rate_limited", 429, true, "3600", 1, false},
		{"POST", "sold_out", 409, true, "", 1, false},
		{"POST", "validation_failed", 422, false, "", 1, false},
		{"POST", "unauthorized", 401, false, "", 1, false},
		{"GET", "internal", 500, true, "", 3, false},
		{"PUT", "", 502, false, "", 3, true},
		{"POST", "", 404, false, "", 1, false},
	} {
		t.Run(fmt.Sprint(test.method, test.status, test.code, test.header), func(t *testing.T) {
			t.Parallel()
			c, calls := answerer(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				if test.code != "" {
					w.Header().Set("Content-Type", "application/problem+json")
				}
				w.WriteHeader(test.status)
				_, _ = fmt.Fprintf(w, `{"code": %q, "retryable": %t, "status": %d}`, test.code, test.retryable, test.status)
			})
			err := c.Call(context.Background(), test.method, "/v1/events", nil, nil, fanfare.Attempts(3))
			var failed *fanfare.CallError
			if !errors.As(err, &failed) || failed.Unknown != test.unknown || calls.Load() != test.calls || fanfare.CodeOf(err) != test.code {
				t.Errorf("%d calls: %+v", calls.Load(), failed)
			}
		})
	}
}

// Retry-After is waited for, a wait that would pass the deadline is not begun, and an attempt that hangs is ended.
func TestWaits(t *testing.T) {
	t.Parallel()
	var first atomic.Bool
	c, calls := answerer(t, func(w http.ResponseWriter, _ *http.Request) {
		if !first.Swap(true) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code": "overloaded", "retryable": true}`))
		}
	})
	began := time.Now()
	short, cancel := context.WithTimeout(context.Background(), 900*time.Millisecond)
	defer cancel()
	if err := c.Call(short, "GET", "/", nil, nil); fanfare.CodeOf(err) != "overloaded" || short.Err() != nil {
		t.Errorf("it waited past the deadline: %v", err)
	}
	first.Store(false)
	began = time.Now()
	if err := c.Call(context.Background(), "GET", "/", nil, nil); err != nil || time.Since(began) < time.Second || calls.Load() != 3 {
		t.Errorf("after %v and %d calls: %v", time.Since(began), calls.Load(), err)
	}
	hang, calls := answerer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if err := hang.Call(context.Background(), "GET", "/", nil, nil, fanfare.Timeout(20*time.Millisecond), fanfare.Attempts(2)); !errors.Is(err, context.DeadlineExceeded) || calls.Load() != 2 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
}

// A user token is fetched once for all calls, and again when it has ended.
func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), within(t, time.Minute)
	backend := s.client(fanfare.Options{})
	_, err := backend.CreateChat(ctx, fanfare.NewChat{ID: "team", Creator: "bob"})
	must(t, err)
	var fetched atomic.Int64
	c := s.client(fanfare.Options{Token: func(ctx context.Context) (string, error) {
		if fetched.Add(1) == 1 {
			return "a.token.that-has-ended", nil
		}
		made, err := backend.CreateUserToken(ctx, "bob", []string{"chat"}, time.Hour)
		return made.Token, err
	}})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := c.PostMessage(ctx, "team", fanfare.NewMessage{Text: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := c.CreateTicket(ctx, "bob"); err != nil || fetched.Load() != 2 {
		t.Errorf("%d tokens: %v", fetched.Load(), err)
	}
}
