package targeting_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/targeting"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustOpenedType makes the event type "seen", which counts who opens its notifications.
func (p *pipeline) mustOpenedType() {
	p.Helper()
	p.mustType("seen", api.EventTypeRequest{Title: "T", Opened: true})
}

// tell tells that a user opened or dismissed a notification. A busy machine may be slower than Redis' time-out.
func (p *pipeline) tell(id string, what events.Opening, user string) (err error) {
	for range 20 {
		if err = p.first.events.CountOpening(p.Context(), id, what, &api.OpenedRequest{User: user}); !api.Passing(err) {
			return err
		}
	}
	return err
}

func (p *pipeline) mustTell(id string, what events.Opening, users ...string) {
	p.Helper()
	for _, user := range users {
		if err := p.tell(id, what, user); err != nil {
			p.Errorf("%s by %s: %v", what, user, err)
		}
	}
}

// mustRefuse tells it of users who do not count.
func (p *pipeline) mustRefuse(code api.Code, id string, users ...string) {
	p.Helper()
	for _, what := range []events.Opening{events.Opened, events.Dismissed} {
		for _, user := range users {
			if err := p.tell(id, what, user); api.CodeOf(err) != code {
				p.Errorf("%s by %s: %v, want %s", what, user, err, code)
			}
		}
	}
}

// mustNote notes users as parts of an event's audience.
func (p *pipeline) mustNote(id string, users ...string) {
	p.Helper()
	for part := range slices.Chunk(users, events.PartSize) {
		for _, err := range p.first.events.NoteRecipients(p.Context(), time.Hour, events.Recipients{Event: id, Part: true, Users: part}) {
			storetest.Must(p, err)
		}
	}
}

func (p *pipeline) mustOpenings(id string, opened, dismissed int64) {
	p.Helper()
	r := p.mustReport(id)
	if r.Opened == nil || r.Dismissed == nil || *r.Opened != opened || *r.Dismissed != dismissed {
		text, _ := json.Marshal(r)
		p.Errorf("the report is %s, want %d opened and %d dismissed", text, opened, dismissed)
	}
}

// O1: each user who got a notification counts once in opened and once in dismissed, whatever the number of devices and calls.
// Nobody else counts.
func TestO1_EachRecipientCountsOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p := setup(t, options{db: db})
		p.mustOpenedType()
		for n, user := range []string{"bob", "bob", "eve", "out", "mute", "amy", "other"} {
			p.mustDevice(user, n)
		}
		storetest.Must(t, p.first.devices.PutOptOut(t.Context(), "out", "seen"))
		storetest.Must(t, p.first.devices.PutMute(t.Context(), "mute", "album", &api.MuteRequest{}))
		id := p.mustPost(&api.EventRequest{Type: "seen", Actor: "amy", Object: "album", Audience: api.Audience{Users: []string{"bob", "eve", "out", "mute", "amy", "none"}}})
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{6, 3, 3, 0, 0})
		p.mustOpenings(id, 0, 0)
		for range 3 {
			p.mustTell(id, events.Opened, "bob")
			p.mustTell(id, events.Dismissed, "bob", "eve")
		}
		p.mustRefuse(api.CodeNotFound, id, "out", "mute", "amy", "none", "other", "nobody")
		p.mustOpenings(id, 1, 2)
		p.mustTell(id, events.Opened, "eve")
		p.mustOpenings(id, 2, 2)
		second := p.mustPostOf("seen", "bob", "other")
		p.mustEnd(second, api.EventDone)
		p.mustTell(second, events.Opened, "other")
		p.mustRefuse(api.CodeNotFound, second, "eve")
		p.mustOpenings(second, 1, 0)
		p.mustOpenings(id, 2, 2)
	})
}

// O1: the same holds for a large audience, whose users call at the same time. Their digests stay small, and are kept for
// longer than the report.
func TestO1_ALargeAudience(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustOpenedType()
	const many = 1200
	p.mustManyDevices(many)
	id := p.mustPostOf("seen", fans(many)...)
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{many, many, many, 0, 0})
	var all sync.WaitGroup
	for at := range 8 {
		all.Go(func() {
			for n, user := range fans(many) {
				if n%8 == at || n%8 == (at+1)%8 { // each user calls twice
					p.mustTell(id, events.Opened, user)
				}
				if n%16 == at {
					p.mustTell(id, events.Dismissed, user)
				}
			}
		})
	}
	all.Wait()
	p.mustRefuse(api.CodeNotFound, id, "nobody")
	p.mustOpenings(id, many, many/2)

	noted, kept := map[string]bool{}, 72*time.Hour // the digest of a user that is noted again may be in two hashes
	for _, key := range p.mustKeys("ff:{q:events:*}:opened:*") {
		for _, user := range p.db.Client().HKeys(t.Context(), key).Val() {
			noted[user] = true
		}
		if left := p.db.Client().PTTL(t.Context(), key).Val(); left < kept-time.Hour || left > kept {
			t.Errorf("%s is kept for %v", key, left)
		}
		if form := p.db.Client().ObjectEncoding(t.Context(), key).Val(); form != "listpack" {
			t.Errorf("%s is a %s", key, form)
		}
	}
	if len(noted) != many+2 {
		t.Errorf("%d users and counts are noted", len(noted))
	}
}

// O1: the digests of recipients take less than 300 bytes for an event with one user, and at most 27 bytes for each of 100 to 100,000, most for some 9,000.
func TestO1_WhatIsNotedIsSmall(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true, noFacts: true})
	p.mustOpenedType()
	for users, most := range map[int]int64{1: 300, 100: 20, 101: 20, 200: 20, 1000: 20, 5000: 20, 9000: 27, 10_000: 27, 100_000: 20} {
		id, of := p.mustPostOf("seen", "bob"), fans(users)
		p.mustNote(id, of...)
		p.mustTell(id, events.Opened, of[users-1], of[users/2], of[0], of[0])
		p.mustOpenings(id, int64(min(users, 3)), 0)
		bytes := int64(0)
		for _, key := range p.mustKeys("ff:{q:events:*}:opened:" + id + "*") {
			bytes += p.db.Client().MemoryUsage(t.Context(), key).Val()
		}
		if bytes == 0 || bytes > most*int64(users) {
			t.Errorf("%d users take %.1f bytes each", users, float64(bytes)/float64(users))
		}
	}
}

// O1: a user is noted before the notification is sent, so that an app which is told at once and calls at once is not refused, also
// if the first tries to note users fail.
func TestO1_WhoIsToldAtOnceCountsAtOnce(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]int{"AtOnce": 3, "Parts": 120} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{idle: true})
			var noted atomic.Int64
			p.processOn(storetest.Faulty(t, p.db, func(script string, answered bool) error {
				if script == "recipients_note" && !answered && noted.Add(1) <= 2 {
					return storetest.ErrCut
				}
				return nil
			})).start()
			p.mustOpenedType()
			p.mustManyDevices(many)
			user := map[string]string{}
			for n, name := range fans(many) {
				user[token(1_000_000+n)] = name
			}
			p.apns.ScriptFunc(func(r *apnstest.Request) (a apnstest.Answer, ok bool) {
				var payload struct {
					Event string `json:"event_id"`
				}
				storetest.Must(t, json.Unmarshal(r.Payload, &payload))
				p.mustTell(payload.Event, events.Opened, user[r.Token])
				return a, false
			})
			id := p.mustPostOf("seen", fans(many)...)
			p.mustEnd(id, api.EventDone)
			p.mustOpenings(id, int64(many), 0)
		})
	}
}

// O1: who counts is who had a notification made, whatever became of it: it failed, it waits, or its event was cancelled.
func TestO1_WhateverBecameOfTheNotification(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustOpenedType()
	p.mustDevice("bob", 1)
	p.mustDevice("eve", 2)
	p.apns.Script(token(1), apnstest.Fail(400, "NotThisOne"))
	p.apns.Script(token(2), apnstest.Answer{Status: 503, Reason: "ServiceUnavailable"})
	id := p.mustPostOf("seen", "bob", "eve")
	storetest.Eventually(t, soon, "one to fail and one to wait", func() bool { r := p.mustReport(id); return r.Failed == 1 && r.Retrying == 1 })
	p.mustTell(id, events.Opened, "bob", "eve")
	p.mustOpenings(id, 2, 0)
	p.mustCancel(id)
	p.mustTell(id, events.Dismissed, "bob", "eve")
	p.mustOpenings(id, 2, 2)
}

// O1: events of types that do not count are refused with a code of their own, and nothing is kept for them: types without the
// option, events without a type, test notifications, badges, Live Activities and broadcasts. An event keeps what its type said
// when it was posted.
func TestO1_OtherEventsCountNothing(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustType("plain", api.EventTypeRequest{Title: "T"})
	p.mustDevice("bob", 1)
	test, _, err := p.first.events.AcceptTest(t.Context(), "bob", token(1), api.Idempotency{})
	storetest.Must(t, err)
	for _, id := range []string{p.mustPostOf("plain", "bob"), p.mustPost(hello("bob")), test.ID} {
		p.mustEnd(id, api.EventDone)
		p.mustRefuse(api.CodeNotCounted, id, "bob", "eve")
		if r := p.mustReport(id); r.Opened != nil || r.Dismissed != nil {
			t.Errorf("the report is %+v", r)
		}
	}
	p.mustBroadcast("match:1", api.KeepNone)
	p.mustActivity("bob", 3, func(*api.ActivityRequest) {})
	for _, e := range []*api.EventRequest{goal("match:1", "1:0"), score(1)} {
		p.mustRefuse(api.CodeNotCounted, p.mustPost(e), "bob")
	}
	if keys := p.mustKeys("ff:{q:events:*}:opened:*"); len(keys) > 0 {
		t.Errorf("there are %v", keys)
	}
	p.mustOpenedType()
	counted := p.mustPostOf("seen", "bob")
	p.mustType("seen", api.EventTypeRequest{Title: "T"})
	other := p.mustPostOf("seen", "bob")
	p.mustEnd(counted, api.EventDone)
	p.mustEnd(other, api.EventDone)
	p.mustTell(counted, events.Opened, "bob")
	p.mustOpenings(counted, 1, 0)
	p.mustRefuse(api.CodeNotCounted, other, "bob")
	for _, id := range []string{"unknown", queue.NewID(0, time.Now()), queue.NewID(9999, time.Now())} {
		p.mustRefuse(api.CodeNotFound, id, "bob")
	}
	if _, _, err := p.first.events.PutEventType(t.Context(), "silent", &api.EventTypeRequest{PushType: api.PushBackground, Opened: true}, api.Match{}); api.CodeOf(err) != api.CodeValidation {
		t.Errorf("a type without an alert: %v", err)
	}
}

// O1: only events of types that count cost a command: one for the event, or one for each part.
func TestO1_OneCommandForAnEventOrAPart(t *testing.T) {
	t.Parallel()
	var noted atomic.Int64
	p := setup(t, options{idle: true})
	p.processOn(storetest.Faulty(t, p.db, func(script string, answered bool) error {
		if answered && script == "recipients_note" {
			noted.Add(1)
		}
		return nil
	})).start()
	p.mustOpenedType()
	p.mustType("plain", api.EventTypeRequest{Title: "T"})
	const many = 250
	p.mustManyDevices(many)
	for _, row := range []struct {
		typ          string
		users, costs int64
	}{{"plain", 1, 0}, {"plain", many, 0}, {"seen", 1, 1}, {"seen", many, 3}} {
		noted.Store(0)
		p.mustEnd(p.mustPostOf(row.typ, fans(int(row.users))...), api.EventDone)
		if n := noted.Load(); n != row.costs {
			t.Errorf("%d users of %s cost %d commands", row.users, row.typ, n)
		}
	}
	p.mustEnd(p.mustPostOf("seen", "nobody"), api.EventDone)
	if n := noted.Load(); n != 3 {
		t.Errorf("an event for nobody cost %d commands", n-3)
	}
}

// O1: events that are targeted together wait for one round trip, which notes the recipients of all, also those of types that do not
// count. Nothing is sent before.
func TestO1_OneTripForEventsThatAreTargetedTogether(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true, queue: func(o *queue.Options) { o.Shards = 1 }}) // what is posted before the start is one batch
	p.mustOpenedType()
	p.mustType("plain", api.EventTypeRequest{Title: "T"})
	const pairs = 8
	var batch []api.EventRequest
	for n := range 2 * pairs {
		user := fmt.Sprint("user", n)
		p.mustDevice(user, n)
		p.mustCache(user)
		batch = append(batch, api.EventRequest{Type: []string{"plain", "seen"}[n%2], Audience: api.Audience{Users: []string{user}}})
	}
	ids := p.mustPostBatch(batch...)
	var mu sync.Mutex
	var notes []bool // of each command that notes recipients, when it is sent and when it is answered: whether it is answered
	early := 0
	p.processOn(storetest.Faulty(t, p.db, func(script string, answered bool) error {
		if script == "recipients_note" {
			mu.Lock()
			defer mu.Unlock()
			notes, early = append(notes, answered), p.apns.Total()
		}
		return nil
	})).start()
	for _, id := range ids {
		p.mustEnd(id, api.EventDone)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := append(slices.Repeat([]bool{false}, pairs), slices.Repeat([]bool{true}, pairs)...); !slices.Equal(notes, want) {
		t.Errorf("recipients were noted in the order %v, want %v", notes, want)
	}
	if early > 0 {
		t.Errorf("%d notifications were sent before the recipients of all events were noted", early)
	}
}

// O1: an event whose posting is repeated under its Idempotency-Key, and one that is targeted again by another process after its
// recipients were noted, or whose step is sent twice or loses its answer, counts each user once.
func TestO1_WorkThatIsRepeated(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"Twice": storetest.ErrTwice, "Lost": storetest.ErrLost, "Cut": storetest.ErrCut} {
		for size, many := range map[string]int{"AtOnce": 3, "Parts": 120} {
			t.Run(name+size, func(t *testing.T) {
				t.Parallel()
				p := setup(t, options{idle: true})
				p.mustOpenedType()
				p.mustManyDevices(many)
				var noted, counted atomic.Int64
				faulty := storetest.Faulty(t, p.db, func(script string, answered bool) error {
					at := map[string]*atomic.Int64{"recipients_note": &noted, "opened_count": &counted}[script]
					if at != nil && answered != (fault == storetest.ErrCut) && at.Add(1)%3 == 1 {
						return fault
					}
					return nil
				})
				worker := p.processOn(faulty)
				worker.start()
				request := &api.EventRequest{Type: "seen", Audience: api.Audience{Users: fans(many)}}
				once := api.Idempotency{Scope: p.scope, Key: "again"}
				a, _, err := worker.events.Accept(t.Context(), request, once)
				storetest.Must(t, err)
				again, replayed, err := worker.events.Accept(t.Context(), request, once)
				if err != nil || !replayed || again.ID != a.ID {
					t.Errorf("%+v, %t, %v", again, replayed, err)
				}
				p.ids = append(p.ids, a.ID)
				p.mustCounts(p.mustEnd(a.ID, api.EventDone), counts{int64(many), int64(many), int64(many), 0, 0})
				for _, user := range fans(many) {
					storetest.Eventually(t, soon, "the call is answered", func() bool {
						err := worker.events.CountOpening(t.Context(), a.ID, events.Opened, &api.OpenedRequest{User: user})
						if err != nil && !api.Passing(err) {
							t.Fatal(err)
						}
						return err == nil
					})
				}
				p.mustOpenings(a.ID, int64(many), 0)
				// As after a take-over that comes late.
				late := events.Recipients{Event: a.ID, Part: many > events.PartSize, Users: fans(many)}
				for _, err := range p.first.events.NoteRecipients(t.Context(), time.Hour, late) {
					storetest.Must(t, err)
				}
				p.mustTell(a.ID, events.Opened, fans(many)...)
				p.mustOpenings(a.ID, int64(many), 0)
				if noted.Load() == 0 || counted.Load() == 0 {
					t.Error("nothing failed")
				}
			})
		}
	}
}

// O1: a dead letter of an event that is tried again finds its users counted, and counts nobody again.
func TestO1_AnEventThatIsRetriedKeepsItsCounts(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustOpenedType()
	p.mustDevice("bob", 1)
	p.apns.Script(token(1), apnstest.Fail(400, "BadPriority"), apnstest.OK())
	id := p.mustPostOf("seen", "bob")
	p.mustEnd(id, api.EventDone)
	p.mustTell(id, events.Opened, "bob")
	dead, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
	if err != nil || len(dead.Items) != 1 {
		t.Fatalf("%+v, %v", dead, err)
	}
	_, _, err = p.first.queueOfNotes.RetryDead(t.Context(), dead.Items[0].ID, queue.Once{})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "it is delivered", func() bool { return p.mustReport(id).Delivered == 1 })
	p.mustTell(id, events.Opened, "bob")
	p.mustOpenings(id, 1, 0)
}

// Failure table: as long as the recipients of parts cannot be noted, because the master of their event is away, parts wait, and
// then go on without. Their users get the event and do not count; those of the other parts do.
func TestO1_PartsOfAnEventThatIsAwayAreSent(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	const many = 350 // parts of 100, and of 50
	p := setup(t, options{idle: true, target: func(o *targeting.Options) { o.NotePatience = 500 * time.Millisecond }})
	p.mustOpenedType()
	p.mustManyDevices(many)
	notes := func(cmd redis.Cmder) string {
		if storetest.NameOf(cmd) != "recipients_note" || len(cmd.Args()) > 2*100 {
			return "" // a part of 100
		}
		return "note"
	}
	faulty := storetest.FaultyBy(t, p.db, notes, func(_ string, answered bool) error {
		if answered {
			return nil
		}
		refused.Add(1)
		return storetest.ErrCut
	})
	id := p.mustPostOf("seen", fans(many)...)
	began := time.Now()
	p.processOn(faulty).start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{many, many, many, 0, 0})
	if took := time.Since(began); took < 500*time.Millisecond || refused.Load() < 2 {
		t.Errorf("it took %v and %d tries", took, refused.Load())
	}
	counted := int64(0)
	for _, user := range fans(many) {
		switch err := p.tell(id, events.Opened, user); {
		case err == nil:
			counted++
		case api.CodeOf(err) != api.CodeNotFound:
			t.Error(err)
		}
	}
	if counted != many-50 {
		t.Errorf("%d users count", counted)
	}
	p.mustOpenings(id, counted, 0)
}

// Failure table: a part waits for NotePatience from the first failure to note its recipients on, however old it is by then. So one
// failure keeps nobody from counting.
func TestO1_APartThatIsOldWaitsAsWell(t *testing.T) {
	t.Parallel()
	var failed sync.Map // by the command
	const many = 250
	p := setup(t, options{idle: true, target: func(o *targeting.Options) { o.NotePatience = time.Nanosecond }})
	p.mustOpenedType()
	p.mustManyDevices(many)
	notes := func(cmd redis.Cmder) string {
		if storetest.NameOf(cmd) != "recipients_note" {
			return ""
		}
		return fmt.Sprint(cmd.Args()[3:]...)
	}
	faulty := storetest.FaultyBy(t, p.db, notes, func(note string, answered bool) error {
		if _, again := failed.LoadOrStore(note, true); again || answered {
			return nil
		}
		return storetest.ErrCut
	})
	id := p.mustPostOf("seen", fans(many)...)
	p.processOn(faulty).start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{many, many, many, 0, 0})
	p.mustTell(id, events.Opened, fans(many)...)
	p.mustOpenings(id, many, 0)
}

// O1: a Redis whose memory is full notes the recipients of events that were accepted, and counts.
func TestO1_AFullRedis(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true, noFacts: true})
	p.mustOpenedType()
	p.mustDevice("bob", 1)
	id := p.mustPostOf("seen", "bob")
	storetest.Must(t, p.db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	if err := p.db.Client().Set(t.Context(), "more", "x", 0).Err(); err == nil {
		t.Fatal("Redis has room")
	}
	blind := p.processOn(storetest.Faulty(t, p.db, func(string, bool) error { return nil })).events // nothing reads its Redis' memory
	for _, err := range blind.NoteRecipients(t.Context(), time.Hour, events.Recipients{Event: id, Users: []string{"bob", "eve"}}) {
		storetest.Must(t, err)
	}
	for _, user := range []string{"bob", "eve"} {
		storetest.Must(t, blind.CountOpening(t.Context(), id, events.Opened, &api.OpenedRequest{User: user}))
	}
	p.mustOpenings(id, 2, 0)
}

// O1: while Redis is nearly full, the recipients of parts are not noted. They are sent at once, which is logged once.
func TestO1_PartsWithANearlyFullRedis(t *testing.T) {
	t.Parallel()
	var log storetest.Lines
	const many = 350
	p := setup(t, options{idle: true, target: func(o *targeting.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }})
	p.mustOpenedType()
	p.mustManyDevices(many)
	id, small := p.mustPostOf("seen", fans(many)...), p.mustPostOf("seen", fans(1)...)
	storetest.Must(t, p.db.Client().SetRange(t.Context(), "filler", 50<<20, "x").Err())
	used := regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(p.db.Client().Info(t.Context(), "memory").Val())
	bytes, err := strconv.Atoi(used[1])
	storetest.Must(t, err)
	storetest.Must(t, p.db.Client().ConfigSet(t.Context(), "maxmemory", strconv.Itoa(bytes*100/93)).Err())
	storetest.Eventually(t, soon, "Redis is nearly full", func() bool { return p.db.Overloaded() != nil })
	p.first.start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{many, many, many, 0, 0})
	p.mustCounts(p.mustEnd(small, api.EventDone), counts{1, 1, 1, 0, 0})
	if r := p.mustReport(id); r.Opened != nil || r.Dismissed != nil {
		t.Errorf("%d opened and %d dismissed an event of which nobody is noted", *r.Opened, *r.Dismissed)
	}
	if n := strings.Count(log.String(), "not noted while Redis is nearly full"); n != 1 {
		t.Errorf("it is logged %d times: %s", n, log.String())
	}
	storetest.Must(t, p.db.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	storetest.Eventually(t, soon, "Redis has room", func() bool { return p.db.Overloaded() == nil })
	p.mustRefuse(api.CodeNotFound, id, fans(many)[0])
	p.mustTell(small, events.Opened, fans(1)...)
	p.mustOpenings(small, 1, 0)
}

// O1: recipients are kept as long as the hash with the event's report, which other events may prolong. If they are forgotten all
// the same, the report has no numbers, rather than zeros.
func TestO1_NumbersThatAreNoLongerKept(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true, noFacts: true})
	p.mustOpenedType()
	p.mustDevice("bob", 1)
	id := p.mustPostOf("seen", "bob")
	keys := p.mustKeys("ff:{q:events:*}:report:" + id[:6])
	if len(keys) != 1 {
		t.Fatalf("the report is in %v", keys)
	}
	const far = 200 * time.Hour
	storetest.Must(t, p.db.Client().PExpire(t.Context(), keys[0], far).Err())
	p.mustOpenings(id, 0, 0) // it is queued
	p.first.start()
	p.mustEnd(id, api.EventDone)
	p.mustTell(id, events.Opened, "bob")
	p.mustOpenings(id, 1, 0)
	noted := p.mustKeys("ff:{q:events:*}:opened:" + id + "*")
	for _, key := range noted {
		if left := p.db.Client().PTTL(t.Context(), key).Val(); left < far-time.Hour {
			t.Errorf("%s is kept for %v", key, left)
		}
	}
	storetest.Must(t, p.db.Client().Del(t.Context(), noted...).Err())
	if r := p.mustReport(id); r.Opened != nil || r.Dismissed != nil {
		t.Errorf("the report has %d opened and %d dismissed", *r.Opened, *r.Dismissed)
	}
	p.mustRefuse(api.CodeNotFound, id, "bob")
}

// O1: parts of events that do not count wait for no note.
func TestO1_OtherPartsDoNotWait(t *testing.T) {
	t.Parallel()
	const many, pairs = 300, 3
	ended := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(ended) })
	defer goOn()
	p := setup(t, options{idle: true})
	p.mustOpenedType()
	p.mustType("plain", api.EventTypeRequest{Title: "T"})
	p.mustManyDevices(many)
	var blocked atomic.Int64
	faulty := storetest.Faulty(t, p.db, func(script string, answered bool) error {
		if script == "recipients_note" && !answered {
			blocked.Add(1)
			<-ended
		}
		return nil
	})
	var plain, seen []string
	for range pairs {
		seen, plain = append(seen, p.mustPostOf("seen", fans(many)...)), append(plain, p.mustPostOf("plain", fans(many)...))
	}
	p.processOn(faulty).start()
	for _, id := range plain {
		p.mustEnd(id, api.EventDone)
	}
	if blocked.Load() == 0 {
		t.Error("no part was being noted")
	}
	goOn()
	for _, id := range seen {
		p.mustEnd(id, api.EventDone)
		p.mustTell(id, events.Opened, fans(many)...)
	}
}

// O2: each user who counts is told once, in the order in which it happened, also if the step is sent twice; and nothing is told
// while the type is off. Metrics count the calls that were answered as counted.
func TestO2_EachCountIsAFact(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	var opened, dismissed atomic.Int64
	p := setup(t, options{events: func(o *events.Options) {
		o.OnOpened = func(what string) {
			map[string]*atomic.Int64{"opened": &opened, "dismissed": &dismissed}[what].Add(1)
		}
		o.Tells = func(typ string) bool {
			return on.Load() || typ != api.FactNotificationOpened && typ != api.FactNotificationDismissed
		}
	}})
	p.mustOpenedType()
	for n, user := range []string{"bob", "eve", "zoe"} {
		p.mustDevice(user, n)
	}
	id := p.mustPostOf("seen", "bob", "eve", "zoe")
	p.mustEnd(id, api.EventDone)
	facts := func() (told []string) {
		for _, one := range p.mustFacts(t.Context())[id] {
			if one.Type != api.FactEventDone {
				told = append(told, one.Type+" "+string(one.Data))
			}
		}
		return told
	}
	p.mustTell(id, events.Opened, "bob")
	if told := facts(); len(told) > 0 {
		t.Errorf("told %q while the types are off", told)
	}
	on.Store(true)
	p.mustTell(id, events.Opened, "bob", "eve", "eve")
	twice := p.processOn(storetest.Faulty(t, p.db, func(script string, answered bool) error {
		if script == "opened_count" && answered {
			return storetest.ErrTwice
		}
		return nil
	}))
	storetest.Must(t, twice.events.CountOpening(t.Context(), id, events.Dismissed, &api.OpenedRequest{User: "zoe", Token: token(2)}))
	p.mustRefuse(api.CodeNotFound, id, "nobody")
	want := []string{
		`notification.opened {"type":"seen","event":"` + id + `","user":"eve"}`,
		`notification.dismissed {"type":"seen","event":"` + id + `","user":"zoe","device":"` + token(2)[:8] + `"}`,
	}
	if told := facts(); strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("told %q, want %q", told, want)
	}
	p.mustOpenings(id, 2, 1)
	if opened.Load() != 2 || dismissed.Load() != 0 { // the answer that counted zoe was lost
		t.Errorf("metrics count %d opened and %d dismissed, want 2 and 0", opened.Load(), dismissed.Load())
	}
	p.o.noFacts = true // this test has told less than was counted
}

// E6: an erasure forgets that the user got events which were accepted before, and what was counted stays.
func TestE6_RecipientsAreErased(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p := setup(t, options{db: db, idle: true, noFacts: true})
		p.mustOpenedType()
		p.mustDevice("zoe", 1)
		p.mustDevice("bob", 2)
		var ids []string
		for _, others := range [][]string{nil, fans(500), fans(8000)} { // so zoe is in each kind of hash
			id := p.mustPostOf("seen", "zoe", "bob")
			p.mustNote(id, others...)
			ids = append(ids, id)
		}
		p.first.start()
		for _, id := range ids {
			p.mustEnd(id, api.EventDone)
			p.mustTell(id, events.Opened, "zoe")
		}
		erase := func(since time.Time, want int64) {
			t.Helper()
			keys := storetest.KeysWith(t, p.db, "}:opened:")
			if n, err := p.first.events.EraseRecipients(t.Context(), "zoe", since, keys); err != nil || n != want {
				t.Errorf("%d notes of the user are forgotten, %v; want %d", n, err, want)
			}
		}
		erase(time.Now().Add(-time.Hour), 0)
		for _, id := range ids {
			p.mustTell(id, events.Dismissed, "zoe")
		}
		erase(time.Now().Add(time.Second), int64(len(ids)))
		for _, id := range ids {
			p.mustRefuse(api.CodeNotFound, id, "zoe")
			p.mustTell(id, events.Opened, "bob")
			p.mustNote(id, "bob") // there is room again
			p.mustTell(id, events.Opened, "bob")
			p.mustOpenings(id, 2, 1)
		}
	})
}

// Failure table: while a slot moves, a user is counted once or the call is refused, whatever part of the event's keys has moved.
func TestO1_ASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	p := setup(t, options{db: storetest.Open(t, cluster.URL()), idle: true})
	p.mustOpenedType()
	id := p.mustPostOf("seen", "bob")
	shard := p.first.queueOfEvents.LaneOf(id)
	users := []string{"a", "b", "c", "d", "e", "f"}
	note := func() error {
		return errors.Join(p.first.events.NoteRecipients(t.Context(), time.Hour, events.Recipients{Event: id, Users: users})...)
	}
	storetest.Must(t, note())
	counted := map[string]bool{}
	for _, early := range []string{"", ":report:", ":opened:", ":facts"} {
		m := storetest.BeginMove(t, cluster, p.first.queueOfEvents.KeyBeside(shard, "jobs"))
		for _, key := range m.Rest() {
			if early != "" && strings.Contains(key, early) {
				m.Move(key)
			}
		}
		for _, user := range users {
			switch err := p.first.events.CountOpening(t.Context(), id, events.Opened, &api.OpenedRequest{User: user}); {
			case err == nil:
				counted[user] = true
			case api.CodeOf(err) != api.CodeUnavailable:
				t.Errorf("with %q moved: %v", early, err)
			}
		}
		m.Finish()
	}
	for _, user := range users {
		storetest.Eventually(t, soon, "the slot has moved", func() bool { return p.tell(id, events.Opened, user) == nil })
	}
	p.mustOpenings(id, int64(len(users)), 0)
	p.first.start()
	p.mustEnd(id, api.EventDone)
}
