package targeting_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/targeting"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustManyDevices writes devices directly into SQLite, one for each user fan000000 and so on. All of
// them have `star` as a contact and are in the topic `star`.
func (p *pipeline) mustManyDevices(n int) {
	p.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(p.o.sql, "sqlite:"))
	if err != nil {
		p.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(p.Context(), nil)
	if err != nil {
		p.Fatal(err)
	}
	var contacts []record.Contact
	for i := range n {
		user := fmt.Sprintf("fan%06d", i)
		_, err := tx.ExecContext(p.Context(), `INSERT INTO devices (token, user_id, platform, topic, environment, state, reason, registered_at, dropped_at)
			VALUES (?, ?, 'apns', ?, 'production', 'active', '', 1, NULL)`, token(1_000_000+i), user, apnstest.DefaultTopic)
		if err != nil {
			p.Fatal(err)
		}
		if _, err := tx.ExecContext(p.Context(), "INSERT INTO topic_members (topic, user_id, joined_at) VALUES ('star', ?, 1)", user); err != nil {
			p.Fatal(err)
		}
		contacts = append(contacts, record.Contact{Owner: user, Contact: "star", Relationship: "contact"})
	}
	if err := tx.Commit(); err != nil {
		p.Fatal(err)
	}
	for part := range slices.Chunk(contacts, 250) { // a slow machine has five seconds for each
		if err := p.rec.PutContacts(p.Context(), part...); err != nil {
			p.Fatal(err)
		}
	}
}

func TestP3_EachSuppressedUserCountsOnceInOrder(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		p := setup(t, options{db: storetest.Open(t, ""), sql: url})
		d := p.first.devices
		// Each user has every later reason for suppression as well.
		for n, user := range []string{"actor", "out", "muted", "fine"} {
			p.mustDevice(user, n)
		}
		for _, user := range []string{"actor", "out", "out-without"} {
			if err := d.PutOptOut(t.Context(), user, "hello"); err != nil {
				t.Fatal(err)
			}
		}
		for _, user := range []string{"actor", "out", "muted", "muted-without"} {
			if err := d.PutMute(t.Context(), user, "o:1", &api.MuteRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		e := hello("actor", "out", "out-without", "muted", "muted-without", "without", "fine")
		e.Actor, e.Object = "actor", "o:1"
		r := p.mustEnd(p.mustPost(e), api.EventDone)
		p.mustCounts(r, counts{7, 1, 1, 0, 0})
		want := api.SuppressedCounts{IsActor: 1, OptedOut: 2, Muted: 2, NoDevice: 1}
		if r.Suppressed != want {
			t.Errorf("suppressed %+v, want %+v", r.Suppressed, want)
		}
	})
}

func TestP4_SettingsAreReadAtTargeting(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	p.mustDevice("bob", 1)
	p.mustDevice("eve", 2)
	id := p.mustPost(hello("bob", "eve"))
	if err := p.first.devices.PutOptOut(t.Context(), "bob", "hello"); err != nil {
		t.Fatal(err)
	}
	p.mustDevice("eve", 3) // registered after the post
	p.first.start()
	r := p.mustEnd(id, api.EventDone)
	p.mustCounts(r, counts{2, 2, 2, 0, 0})
}

func TestP6_PagesOfUsers(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		n := storetest.Sized(2500, 1250) // more than a page, and not a multiple of the size of a part
		p := setup(t, options{db: db})
		p.mustManyDevices(n)
		var users []string
		for i := range n {
			users = append(users, fmt.Sprintf("fan%06d", i))
		}
		r := p.mustEnd(p.mustPost(hello(users...)), api.EventDone)
		p.mustCounts(r, counts{int64(n), int64(n), int64(n), 0, 0})
		if sent := p.apns.Total(); sent != n {
			t.Errorf("%d requests, want %d", sent, n)
		}
	})
}

func TestP6_PagesByName(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		var mu sync.Mutex
		var cursors []string
		p := setup(t, options{target: readingBy(func(ctx context.Context, id, after string, limit int, read targeting.Pager) ([]string, error) {
			mu.Lock()
			cursors = append(cursors, fmt.Sprintf("%s>%s/%d", id, after, limit))
			mu.Unlock()
			return read(ctx, id, after, limit)
		})})
		p.mustManyDevices(2000)
		r := p.mustEnd(p.mustPost(f.event()), api.EventDone)
		p.mustCounts(r, counts{2000, 2000, 2000, 0, 0})
		mu.Lock()
		defer mu.Unlock()
		name := f.audience.Name()
		want := []string{name + ">/1000", name + ">fan000999/1000", name + ">fan001999/1000"}
		if got := slices.Compact(cursors); !slices.Equal(got, want) {
			t.Errorf("pages %v, want %v", got, want)
		}
	})
}

// A worker dies between storing the parts of a page and moving the cursor. The next worker reads
// the page again, perhaps with other users, stores nothing, and continues where the first read
// ended. In the meantime the report never shows more than the true counts, and counts never go
// back.
func TestP9_RedoingAPageCountsNothingTwice(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		var died atomic.Bool
		p := setup(t, options{idle: true, target: readingBy(func(ctx context.Context, id, after string, limit int, read targeting.Pager) ([]string, error) {
			if after == "fan000899" && died.CompareAndSwap(false, true) {
				return nil, api.Errorf(api.CodeUnavailable, "cut off in the middle")
			}
			return read(ctx, id, after, limit)
		})})
		p.mustManyDevices(1500)
		id := p.mustPost(f.event())
		users := fans(900) // as many as there were then
		if next, n, err := events.Split(t.Context(), p.first.queueOfEvents, id, f.job(), users, "fan000899", time.Hour); next != "fan000899" || n != 9 || err != nil {
			t.Fatal(next, n, err)
		}
		p.first.start()
		want := counts{1500, 1500, 1500, 0, 0}
		r := p.mustEndTrue(id, want)
		p.mustCounts(r, want)
		if n := p.apns.Total(); n != 1500 || !died.Load() {
			t.Errorf("%d requests, want 1500; died %v", n, died.Load())
		}
	})
}

// TestP9_AnAudienceThatGrowsGoesOnAsItBegan: an event was small when it was sent, and is large when
// another process takes it over. Recorded notifications are not sent again, and their counts are
// not lost.
func TestP9_AnAudienceThatGrowsGoesOnAsItBegan(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		server := storetest.Redis(t)
		var reads atomic.Int64
		p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, apns: apnstest.Options{TrackIDs: true},
			queue: func(o *queue.Options) { o.Lease = time.Second },
			target: readingBy(func(ctx context.Context, id, after string, limit int, read targeting.Pager) ([]string, error) {
				users, err := read(ctx, id, after, limit)
				if reads.Add(1) == 1 && err == nil {
					users = users[:100]
				}
				return users, err
			})})
		p.mustManyDevices(120)
		p.apns.Script(token(1_000_007), apnstest.Failing(apnstest.Hang), apnstest.OK())
		own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		p.processOn(own).start()
		id := p.mustPost(f.event())
		storetest.Eventually(t, soon, "all but one to be on record", func() bool { return p.mustReport(id).Delivered == 99 })
		if err := own.Close(); err != nil { // from now on nothing of it reaches Redis
			t.Fatal(err)
		}
		p.process().start()
		want := counts{120, 120, 120, 0, 0}
		p.mustCounts(p.mustEndTrue(id, want), want)
		if n := p.apns.Total(); n != 121 {
			t.Errorf("%d requests, want 121", n)
		}
	})
}

// TestP9_AnAudienceThatShrinksGoesOnAsItBegan: an event was split, and then its audience
// is small.
func TestP9_AnAudienceThatShrinksGoesOnAsItBegan(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		p := setup(t, options{idle: true})
		p.mustManyDevices(100)
		id := p.mustPost(f.event())
		release := p.mustHold() // by a process that splits it and dies
		if _, n, err := events.Split(t.Context(), p.first.queueOfEvents, id, f.job(), fans(101), "", time.Hour); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		release()
		p.first.start()
		r := p.mustEndTrue(id, counts{101, 100, 100, 0, 0})
		p.mustCounts(r, counts{101, 100, 100, 0, 0})
		if n := p.apns.Total(); n != 100 || r.Suppressed.NoDevice != 1 {
			t.Errorf("%d requests, want 100; report %+v", n, r)
		}
	})
}

// TestP9_PartsThatComeLateAreThoseThatWereSent: a process claims a large audience and stalls. Its
// writes to Redis arrive late, after another process has targeted the event. They change nothing:
// the other process split the page as well, because the event had not been sent as a whole.
func TestP9_PartsThatComeLateAreThoseThatWereSent(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		const many = 150
		p := setup(t, options{idle: true})
		p.mustManyDevices(many)
		id := p.mustPost(f.event())
		p.mustHold()()
		p.first.start()
		want := counts{many, many, many, 0, 0}
		p.mustCounts(p.mustEndTrue(id, want), want)
		if _, n, err := events.Split(t.Context(), p.first.queueOfEvents, id, f.job(), fans(many), "", time.Hour); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		p.mustPost(hello("nobody")) // what is behind the late parts
		storetest.Eventually(t, soon, "nothing to wait", func() bool { return p.first.queueOfEvents.Depth(0) == 0 })
		p.mustCounts(p.mustReport(id), want)
		if n := p.apns.Total(); n != many {
			t.Errorf("%d requests, want %d", n, many)
		}
	})
}

// TestP9_WhoWasStoredIsNotSuppressed: a process stored an event's notification and died. When another process
// takes the event over, the user gets nothing any more. The event is done only when the stored notification is, and
// the user is counted with it alone. Only a user whose device is gone counts as no_device as well.
func TestP9_WhoWasStoredIsNotSuppressed(t *testing.T) {
	t.Parallel()
	const live = "live:"
	want, none := counts{1, 1, 1, 0, 0}, api.SuppressedCounts{}
	for name, c := range map[string]struct {
		change     func(context.Context, *pipeline) error
		want       counts
		suppressed api.SuppressedCounts
	}{
		"OptedOut": {func(ctx context.Context, p *pipeline) error { return p.first.devices.PutOptOut(ctx, "bob", "hello") }, want, none},
		"Muted": {func(ctx context.Context, p *pipeline) error {
			return p.first.devices.PutMute(ctx, "bob", "song", &api.MuteRequest{})
		}, want, none},
		"Live": {func(ctx context.Context, p *pipeline) error {
			return p.db.Client().Set(ctx, live+"bob", 1, 0).Err()
		}, want, none},
		"NoDevice": {func(ctx context.Context, p *pipeline) error {
			return p.first.devices.DeleteDevice(ctx, "bob", token(1))
		},
			counts{1, 1, 0, 1, 0}, api.SuppressedCounts{NoDevice: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{idle: true, target: func(o *targeting.Options) {
				o.LiveKey = func(user string) string { return live + user }
				o.Pagers[events.KindChat] = func(context.Context, string, string, int) ([]string, error) { return []string{"bob"}, nil }
			}})
			p.mustDevice("bob", 1)
			r := hello()
			r.Object, r.Audience = "song", api.Audience{Chat: "team"}
			id := p.mustPost(r)
			release := p.mustHold()
			_, err := p.first.queueOfNotes.Enqueue(t.Context(), p.stored(id, "bob", p.device("bob", 1)))
			storetest.Must(t, err)
			storetest.Must(t, c.change(t.Context(), p))
			release()
			p.first.start()
			got := p.mustEndTrue(id, c.want)
			p.mustCounts(got, c.want)
			if got.Suppressed != c.suppressed {
				t.Errorf("suppressed %+v, want %+v", got.Suppressed, c.suppressed)
			}
		})
	}
}

// mustEndTrue waits until an event is done. It compares every report in between with the previous
// report and with the final counts.
func (p *pipeline) mustEndTrue(id string, most counts) *api.EventReport {
	p.Helper()
	var r *api.EventReport
	var before counts
	storetest.Eventually(p, soon, "the event to be done", func() bool {
		var err error
		if r, err = p.first.events.Report(p.Context(), id); err != nil {
			return false
		}
		now := countsOf(r)
		if now.exceeds(most) || before.exceeds(now) || now.delivered > now.notifications {
			p.Fatalf("a report shows %+v after %+v, at most %+v is true", now, before, most)
		}
		before = now
		return r.State == api.EventDone
	})
	return r
}

// exceeds reports whether any of the counts is larger than another's.
func (c counts) exceeds(o counts) bool {
	return c.recipients > o.recipients || c.notifications > o.notifications || c.delivered > o.delivered || c.failed > o.failed || c.expired > o.expired
}

// note is a notification in the form of targeting.
func (p *pipeline) note(event, user, token string) queue.Job {
	note := p.stored(event, user, &api.Device{Token: token, Topic: apnstest.DefaultTopic, Environment: api.EnvProduction, RegisteredAt: api.AtMillis(1)})
	note.ID, note.Guard = events.NotificationID(event, token), token
	return note
}

// The contract has a fan-out to 1,000,000. The number of notifications that may be before that of
// another event matters, and it does not depend on the size of the fan-out.
//
//nolint:paralleltest // a promise about time: it runs before the parallel tests, alone
func TestP6_OneUserEventDuringFanOutArrivesWithinASecond(t *testing.T) {
	fans := 20_000
	if raceEnabled || testing.Short() {
		fans = 3_000
	}
	var mu sync.Mutex
	arrived := map[string]time.Time{}
	p := setup(t, options{apns: apnstest.Options{CountsOnly: true, OnRequest: func(r *apnstest.Request) {
		if r.Token == token(1) {
			mu.Lock()
			arrived[r.ID] = time.Now()
			mu.Unlock()
		}
	}}})
	p.mustManyDevices(fans)
	p.mustDevice("bob", 1)
	fan := p.mustPost(contactsOf("star"))
	var took []time.Duration
	began := time.Now()
	for p.mustReport(fan).State != api.EventDone && time.Since(began) < 2*time.Minute {
		posted := time.Now()
		id := events.NotificationID(p.mustPost(hello("bob")), token(1))
		storetest.Eventually(t, soon, "the one-user event to arrive", func() bool {
			mu.Lock()
			defer mu.Unlock()
			at, ok := arrived[id]
			if ok {
				took = append(took, at.Sub(posted))
			}
			return ok
		})
	}
	r := p.mustEnd(fan, api.EventDone)
	p.mustCounts(r, counts{int64(fans), int64(fans), int64(fans), 0, 0})
	t.Logf("%d fans in %v; %d one-user events: most within %v, worst %v", fans, time.Since(began), len(took), most(took), slices.Max(took))
	if d := most(took); d > aSecond {
		t.Errorf("one-user events took %v", d)
	}
	if len(took) < 2 {
		t.Errorf("only %d events were posted during the fan-out", len(took))
	}
}

// most is the time within which nine of ten arrived; one may be delayed by other work of the
// machine.
func most(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*9/10]
}

func TestP8_ExpiredBeforeTargeting(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	p.mustDevice("bob", 1)
	end := api.At(time.Now().Add(300 * time.Millisecond))
	e := hello("bob")
	e.ExpiresAt = &end
	id := p.mustPost(e)
	storetest.Eventually(t, soon, "the event's time to be over", func() bool { return time.Now().After(end.Time) })
	p.first.start()
	r := p.mustEnd(id, api.EventExpired)
	p.mustCounts(r, counts{})
	if p.apns.Total() != 0 {
		t.Error("an expired event was sent")
	}
}

func TestP8_NotificationsFoundLateCountAsExpired(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.apns.ScriptAll(apnstest.Fail(503, "ServiceUnavailable"))
	end := api.At(time.Now().Add(1500 * time.Millisecond))
	e := hello("bob")
	e.ExpiresAt = &end
	r := p.mustEnd(p.mustPost(e), api.EventDone)
	p.mustCounts(r, counts{1, 1, 0, 0, 1})
}

// TestP6_SQLAwayCachedUsersGoOn: SQL is away. Cached users are sent to at once, and the others wait and follow later.
func TestP6_SQLAwayCachedUsersGoOn(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	p.mustDevice("cached", 1)
	p.mustDevice("cold", 2)
	p.mustDevice("gone", 3)
	// A process that loses its record, and one that does not.
	warm := p.process()
	warm.start()
	p.mustEnd(p.mustPost(hello("cached", "gone")), api.EventDone)
	warm.stop()
	p.apns.Script(token(3), apnstest.Answer{Status: 400, Reason: "PayloadTooLarge"})
	id := p.mustPost(hello("cached", "cold", "gone"))
	cut := p.mustProcessWithoutSQL()
	cut.start()
	want := counts{2, 2, 1, 1, 0}
	storetest.Eventually(t, soon, "the event to wait for the user who is not known", func() bool {
		r := p.mustReport(id)
		if countsOf(r).exceeds(want) {
			t.Fatalf("report without SQL %+v", r)
		}
		return r.State == api.EventTargeting && countsOf(r) == want
	})
	if keys := p.mustKeysOf("jobs"); len(keys) > 0 {
		t.Errorf("stored between targeting and sending: %v", keys)
	}
	cut.stop()
	p.process().start()
	r := p.mustEndTrue(id, counts{3, 3, 2, 1, 0})
	if p.mustCounts(r, counts{3, 3, 2, 1, 0}); r.FailedBy["PayloadTooLarge"] != 1 {
		t.Errorf("failed by %v", r.FailedBy)
	}
	if n := p.apns.Total(); n != 5 {
		t.Errorf("%d requests, want 5", n)
	}
}

// mustProcessWithoutSQL makes a process whose database went away after start.
func (p *pipeline) mustProcessWithoutSQL() *process {
	p.Helper()
	rec, err := record.Open(p.Context(), record.Options{URL: p.o.sql})
	if err != nil {
		p.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		p.Fatal(err)
	}
	whole := p.rec
	p.rec = rec
	defer func() { p.rec = whole }()
	return p.process()
}

func TestUnknownAudienceKindBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	id := p.mustPost(&api.EventRequest{Type: "hello", Audience: api.Audience{Chat: "c"}, Alert: &api.Alert{Title: "T"}})
	storetest.Eventually(t, soon, "the dead letter", func() bool {
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfEvents)
		return err == nil && len(list.Items) == 1 && strings.HasSuffix(list.Items[0].ID, id) &&
			list.Items[0].Reason == "unknown_audience" && list.Items[0].Type == "hello" // N14
	})
}
