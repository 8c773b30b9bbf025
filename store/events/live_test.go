package events

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// liveWorld has stores of several processes on one Redis.
type liveWorld struct {
	testing.TB
	db     *redisdb.DB
	stores []*Store
	object string
}

func eachLive(t *testing.T, f func(t *testing.T, w *liveWorld)) {
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := &liveWorld{TB: t, db: db, object: fmt.Sprintf("match:%d", time.Now().UnixNano())}
		for range 4 {
			q := queue.New(db, queue.Options{Name: "events"})
			storetest.Must(t, q.Init(t.Context()))
			n := queue.New(db, queue.Options{Name: "notifications"})
			storetest.Must(t, n.Init(t.Context()))
			w.stores = append(w.stores, New(Options{DB: db, Queue: q, Notifications: n}))
		}
		f(t, w)
	})
}

// mustJob is a live event that was accepted now.
func (w *liveWorld) mustJob(action api.LiveAction) (id string, j *Job) {
	w.Helper()
	return w.mustJobFor(action, &Audience{ActivitiesOf: w.object}, nil, 0)
}

// mustJobFor is one to an audience, for apps with these topics, which is due at a time in ms.
func (w *liveWorld) mustJobFor(action api.LiveAction, to *Audience, topics []string, sendAt int64) (id string, j *Job) {
	w.Helper()
	e := &api.EventRequest{Type: "t", Object: w.object, Live: &api.Live{Action: action, ContentState: json.RawMessage(`{}`)}, Alert: &api.Alert{Title: "x"}}
	if action == api.LiveEnd {
		e.Alert = nil
	}
	push, err := render.LiveTemplateSet().Render("e", e)
	storetest.Must(w, err)
	j = &Job{Type: "t", Object: w.object, Audience: *to, Push: *push, SendAt: sendAt, Live: liveOf(e, to, topics)}
	jobs := []queue.Job{{Value: j}}
	storetest.Must(w, w.stores[0].order(w.Context(), jobs))
	if again, err := DecodeJob(jobs[0].Payload); err != nil || again.Live.Place != j.Live.Place || j.Live.Place == 0 {
		w.Fatalf("the entry has %+v, %v", again, err)
	}
	return queue.NewID(0, time.Now()), j
}

// mustBegin begins an event, waiting as long as it is told to.
func (w *liveWorld) mustBegin(s *Store, id string, j *Job) (superseded bool) {
	w.Helper()
	storetest.Eventually(w, time.Minute, "the event to begin", func() bool {
		b, err := s.BeginLive(w.Context(), id, j)
		storetest.Must(w, err)
		superseded = b.Superseded
		return b.Wait == 0
	})
	return superseded
}

// put sets what Redis has of the object's activities.
func (w *liveWorld) put(fields ...any) {
	w.Helper()
	args := []any{"hset", keyLive(w.object)}
	for i := 0; i < len(fields); i += 2 {
		args = append(args, fmt.Sprint(fields[i], " ", KindActivities), fields[i+1])
	}
	storetest.Must(w, w.db.Client().Do(context.WithoutCancel(w.Context()), args...).Err())
}

// mustRun is an event that is being targeted.
func (w *liveWorld) mustRun() (id string) {
	w.Helper()
	id = queue.NewID(0, time.Now())
	_, err := w.stores[0].o.Queue.Enqueue(w.Context(), queue.Job{ID: id, Report: (&Job{Type: "t"}).ReportTargeting(Counts{Recipients: 1}, Sent{}), Payload: []byte("x"), NotBefore: time.Now().Add(time.Hour)})
	storetest.Must(w, err)
	return id
}

// TestG2_TimestampsRise: events of an object that several processes begin at once get timestamps of their own, which rise in
// the order of acceptance of those that are not superseded. At most one begins in a second, and a repeat gets the same one.
func TestG2_TimestampsRise(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const n = 13 // the last is an update
		var ids [n]string
		var jobs [n]*Job
		for i := range n {
			action := api.LiveUpdate
			if i%4 == 3 {
				action = api.LiveEnd
			}
			ids[i], jobs[i] = w.mustJob(action)
			if i > 0 && jobs[i].Live.Place <= jobs[i-1].Live.Place {
				t.Fatalf("place %d after %d", jobs[i].Live.Place, jobs[i-1].Live.Place)
			}
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		begun, superseded := map[int64]*Job{}, 0
		for i := range n {
			all.Go(func() {
				gone := w.mustBegin(w.stores[i%len(w.stores)], ids[i], jobs[i])
				mu.Lock()
				defer mu.Unlock()
				switch l := jobs[i].Live; {
				case !gone && begun[l.Stamp] == nil:
					begun[l.Stamp] = jobs[i]
				case !gone:
					t.Errorf("two events have the timestamp %d", l.Stamp)
				case l.Action == api.LiveEnd || l.Stamp != 0:
					t.Errorf("superseded: %+v", l)
				default:
					superseded++
				}
			})
		}
		all.Wait()
		place := int64(0)
		for _, stamp := range slices.Sorted(maps.Keys(begun)) {
			if l := begun[stamp].Live; l.Action == api.LiveUpdate {
				if l.Place < place {
					t.Errorf("the update of place %d began behind that of %d", l.Place, place)
				}
				place = l.Place
			}
		}
		if len(begun)+superseded != n || len(begun) < n/4 || place != jobs[n-1].Live.Place {
			t.Errorf("%d begun, %d superseded of %d; the last has the place %d", len(begun), superseded, n, place)
		}
	})
}

// TestG2_ARepeatGetsTheSameTimestamp: a process that takes an event over gives it the timestamp that it had, and its payload.
func TestG2_ARepeatGetsTheSameTimestamp(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		id, j := w.mustJob(api.LiveUpdate)
		entry := j.Encode()
		w.mustBegin(w.stores[0], id, j)
		if j.Live.Stamp == 0 || !json.Valid(j.Push.Payload) {
			t.Fatalf("%+v: %s", j.Live, j.Push.Payload)
		}
		for _, s := range w.stores {
			again, err := DecodeJob(entry)
			storetest.Must(t, err)
			b, err := s.BeginLive(t.Context(), id, again)
			if err != nil || b != (Begun{}) || again.Live.Stamp != j.Live.Stamp || string(again.Push.Payload) != string(j.Push.Payload) {
				t.Errorf("%+v, %v: %+v %s, want %+v %s", b, err, again.Live, again.Push.Payload, j.Live, j.Push.Payload)
			}
		}
	})
}

// TestG3_ANewerOneSupersedes: of the updates that wait the newest goes on, and the older ones are superseded when it has begun,
// with their notifications that wait. So is a start when a newer end has begun. An end never is.
func TestG3_ANewerOneSupersedes(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		s := w.stores[0]
		first, one := w.mustJob(api.LiveUpdate)
		w.mustBegin(s, first, one)
		second, two := w.mustJob(api.LiveUpdate)
		third, three := w.mustJob(api.LiveUpdate)
		start, four := w.mustJob(api.LiveStart)
		end, five := w.mustJob(api.LiveEnd)
		w.put("event", w.mustRun(), "at", time.Now().UnixMicro()) // it is being sent
		for name, of := range map[string]struct {
			id string
			j  *Job
		}{"third": {third, three}, "second, behind the third": {second, two}} {
			if b, err := s.BeginLive(t.Context(), of.id, of.j); err != nil || b.Wait <= 0 || b.Superseded {
				t.Errorf("the %s, beside the first: %+v, %v", name, b, err)
			}
		}
		if newer, err := s.Superseded(t.Context(), one.Supersedable()); err != nil || newer {
			t.Errorf("the first is superseded before another has begun: %v", err)
		}
		if b, err := s.BeginLive(t.Context(), start, four); err != nil || b != (Begun{}) || four.Live.Stamp < one.Live.Stamp {
			t.Errorf("a start: %+v, %v, timestamp %d after %d", b, err, four.Live.Stamp, one.Live.Stamp)
		}
		w.put("at", time.Now().Add(-livePatience).UnixMicro())
		if b, err := s.BeginLive(t.Context(), third, three); err == nil && b.Wait > 0 {
			w.mustBegin(s, third, three)
		}
		if three.Live.Stamp <= one.Live.Stamp || three.Live.Stamp < four.Live.Stamp {
			t.Errorf("the third begins as %+v", three.Live)
		}
		if b, err := s.BeginLive(t.Context(), second, two); err != nil || !b.Superseded {
			t.Errorf("the second, when the third has begun: %+v, %v", b, err)
		}
		for name, of := range map[string]struct {
			j    *Job
			want bool
		}{"first": {one, true}, "second": {two, true}, "third": {three, false}, "start": {four, false}} {
			if newer, err := s.Superseded(t.Context(), of.j.Supersedable()); err != nil || newer != of.want {
				t.Errorf("the %s: %v, %v", name, newer, err)
			}
		}
		if five.Supersedable() != (Superseding{}) {
			t.Error("an end is supersedable")
		}
		late, seven := w.mustJob(api.LiveStart)
		last, six := w.mustJob(api.LiveUpdate)
		w.mustBegin(s, last, six)
		if w.mustBegin(s, end, five) || five.Live.Stamp <= six.Live.Stamp {
			t.Errorf("an end that comes late begins as %+v, after %+v", five.Live, six.Live)
		}
		if b, err := s.BeginLive(t.Context(), late, seven); err != nil || b != (Begun{}) {
			t.Errorf("a start behind the end: %+v, %v", b, err)
		}
		if newer, err := s.Superseded(t.Context(), four.Supersedable()); err != nil || !newer {
			t.Errorf("a start that waits when a newer end has begun: %v, %v", newer, err)
		}
		four.Live.Stamp = 0
		if b, err := s.BeginLive(t.Context(), start, four); err != nil || !b.Superseded {
			t.Errorf("a start that comes behind a newer end: %+v, %v", b, err)
		}
		if ttl := w.db.Client().PTTL(t.Context(), keyLive(w.object)).Val(); ttl <= 0 || ttl > s.liveTTL() {
			t.Errorf("it is kept for %v", ttl)
		}
	})
}

// TestG3_OtherPhonesSupersedeNothing: an update is superseded by none that goes to the activities of another app, or to a
// channel, and waits for none of them. Their timestamps never fall.
func TestG3_OtherPhonesSupersedeNothing(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		s := w.stores[0]
		old, one := w.mustJob(api.LiveUpdate)
		stamp := int64(0)
		for name, of := range map[string]struct {
			to     Audience
			topics []string
		}{"an app": {Audience{ActivitiesOf: w.object}, []string{"a", "b"}}, "another": {Audience{ActivitiesOf: w.object}, []string{"a"}}, "a channel": {Audience{Broadcast: w.object}, nil}} {
			id, j := w.mustJobFor(api.LiveUpdate, &of.to, of.topics, 0)
			if b, err := s.BeginLive(t.Context(), id, j); err != nil || b != (Begun{}) || j.Live.Stamp < stamp {
				t.Errorf("%s: %+v, %v, timestamp %d after %d", name, b, err, j.Live.Stamp, stamp)
			}
			stamp = j.Live.Stamp
			if newer, err := s.Superseded(t.Context(), one.Supersedable()); err != nil || newer {
				t.Errorf("%s supersedes: %v", name, err)
			}
		}
		if b, err := s.BeginLive(t.Context(), old, one); err != nil || b != (Begun{}) || one.Live.Stamp < stamp {
			t.Errorf("%+v, %v, timestamp %d after %d", b, err, one.Live.Stamp, stamp)
		}
		if one.Live.Lane != laneOf(KindActivities, nil) || laneOf(KindActivities, []string{"b", "a"}) != laneOf(KindActivities, []string{"a", "b"}) {
			t.Error("the order of topics makes a difference")
		}
		for _, topics := range [][]string{{"a.push-type.liveactivity", "b"}, {"b", "a", "b"}, {"a", "b.push-type.liveactivity", "a.push-type.liveactivity"}} {
			if laneOf(KindActivities, topics) != laneOf(KindActivities, []string{"a", "b"}) {
				t.Errorf("%v are another lane than a and b", topics)
			}
		}
	})
}

// TestG3_OneThatDoesNotAskAgain: an update that waited, and was cancelled or lost, supersedes none, and holds none up.
func TestG3_OneThatDoesNotAskAgain(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		s := w.stores[0]
		first, one := w.mustJob(api.LiveUpdate)
		w.mustBegin(s, first, one)
		second, two := w.mustJob(api.LiveUpdate)
		third, three := w.mustJob(api.LiveUpdate)
		w.put("event", w.mustRun(), "at", time.Now().UnixMicro())
		if b, err := s.BeginLive(t.Context(), third, three); err != nil || b.Wait <= 0 {
			t.Fatalf("the third: %+v, %v", b, err)
		}
		w.put("at", time.Now().Add(-livePatience).UnixMicro(), "waited", time.Now().Add(-3*time.Second).UnixMicro())
		if b, err := s.BeginLive(t.Context(), second, two); err != nil || b != (Begun{}) || two.Live.Stamp == 0 {
			t.Errorf("the second, 3 s later: %+v, %v", b, err)
		}
	})
}

// TestG2_StartsHoldUpNothing: an update begins at once beside any number of starts, with no earlier timestamp.
func TestG2_StartsHoldUpNothing(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		var last *Job
		for range 3 {
			id, j := w.mustJob(api.LiveStart)
			w.mustBegin(w.stores[0], id, j)
			last = j
		}
		id, j := w.mustJob(api.LiveUpdate)
		if b, err := w.stores[1].BeginLive(t.Context(), id, j); err != nil || b != (Begun{}) || j.Live.Stamp < last.Live.Stamp {
			t.Errorf("%+v, %v, timestamp %d after %d", b, err, j.Live.Stamp, last.Live.Stamp)
		}
	})
}

// TestG3_OrderOfSendAt: events that are due at the same time have the order in which they were accepted.
func TestG3_OrderOfSendAt(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		at, last := time.Now().Add(time.Hour).UnixMilli(), int64(0)
		for range 3 {
			_, j := w.mustJobFor(api.LiveUpdate, &Audience{ActivitiesOf: w.object}, nil, at)
			if j.Live.Place <= last || j.Live.Place/1000 != at {
				t.Errorf("place %d behind %d, due at %d", j.Live.Place, last, at)
			}
			last = j.Live.Place
			w.mustJobFor(api.LiveUpdate, &Audience{ActivitiesOf: w.object}, nil, at+1) // another time between them
		}
	})
}

// TestG2_AnEndIsForgottenSooner: behind an end, what the object's events came to is kept no longer than an event may wait.
func TestG2_AnEndIsForgottenSooner(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		s := w.stores[0]
		for action, most := range map[api.LiveAction]time.Duration{api.LiveUpdate: s.liveTTL(), api.LiveEnd: s.o.MaxAge} {
			w.object += "x"
			id, j := w.mustJob(action)
			w.mustBegin(s, id, j)
			if ttl := w.db.Client().PTTL(t.Context(), keyLive(w.object)).Val(); ttl > most || ttl < most-time.Minute {
				t.Errorf("behind %s it is kept for %v, want %v", action, ttl, most)
			}
		}
	})
}

// TestG2_AClockThatFellBack: behind a master with an earlier clock timestamps go on rising, at once, and still at most one
// event begins in a second.
func TestG2_AClockThatFellBack(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ahead := time.Now().Unix() + 3600
		w.put("event", "x", "begun", 1, "at", time.Now().Add(time.Hour).UnixMicro(), "stamp", ahead)
		storetest.Must(t, w.db.Client().HSet(t.Context(), keyLive(w.object), "highest", ahead, "last", time.Now().Add(time.Hour).UnixMicro()).Err())
		var stamps []int64
		var before time.Time // the one before began later than this
		for range 3 {
			id, j := w.mustJob(api.LiveUpdate)
			asked := time.Now()
			b, err := w.stores[0].BeginLive(t.Context(), id, j)
			if err != nil || b.Superseded {
				t.Fatalf("%+v, %v", b, err)
			}
			if b.Wait > 0 && len(stamps) == 0 {
				t.Errorf("it waits %v", b.Wait)
			}
			if b.Wait == 0 && time.Since(before) < time.Second {
				t.Errorf("the next one began within a second, with %d", j.Live.Stamp)
			}
			before = asked
			w.mustBegin(w.stores[1], id, j)
			stamps = append(stamps, j.Live.Stamp)
		}
		if !slices.IsSorted(stamps) || stamps[0] != ahead+1 || stamps[2] != ahead+3 {
			t.Errorf("%v after %d", stamps, ahead)
		}
	})
}

// TestG3_ANewerOneWaitsForTheOlder: an update does not begin while an older one is being sent, for half a minute at most.
func TestG3_ANewerOneWaitsForTheOlder(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		s := w.stores[0]
		older := w.mustRun()
		began := func(ago time.Duration) {
			w.put("event", older, "begun", 1, "at", time.Now().Add(-ago).UnixMicro(), "stamp", time.Now().Add(-ago).Unix()-1)
		}
		id, j := w.mustJob(api.LiveUpdate)
		began(time.Second)
		if b, err := s.BeginLive(t.Context(), id, j); err != nil || b.Wait <= 0 {
			t.Errorf("beside an older one: %+v, %v", b, err)
		}
		began(9 * time.Second) // of a large audience: it asks seldomer
		if b, err := s.BeginLive(t.Context(), id, j); err != nil || b.Wait != time.Second {
			t.Errorf("beside one that takes long: %+v, %v", b, err)
		}
		began(livePatience + time.Second)
		if w.mustBegin(s, id, j) || j.Live.Stamp == 0 {
			t.Errorf("half a minute later: %+v", j.Live)
		}
	})
}

// TestG3_WhatIsTriedForTheFirstTime: an event is over for the next update when each of its notifications, also of its parts, has
// ended or waits for a further try. One that became a job after a kill, and was not tried, is still being sent.
func TestG3_WhatIsTriedForTheFirstTime(t *testing.T) {
	t.Parallel()
	w := func(e progress, apns map[string]int64) *whole {
		e.typ = "t"
		return &whole{id: queue.NewID(0, time.Now()), event: e, sent: append([]map[string]int64{apns}, make([]map[string]int64, len(groupEndings))...)}
	}
	one := progress{state: stateTargeted, sent: Sent{Ends: Ends{Made: 3, Delivered: 1}}}
	parts := progress{state: stateTargeted, parts: 1}
	parts.addParts(PartCounts(Counts{Recipients: 3}, Sent{Ends: Ends{Made: 1, Delivered: 1}}))
	for name, c := range map[string]struct {
		of   *whole
		want bool
	}{
		"one is under way with the event": {w(one, map[string]int64{CountCreated: 1, LabelDelivered: 1}), false},
		"one is a job, and was not tried": {w(one, map[string]int64{CountCreated: 2, LabelDelivered: 1}), false},
		"one will be tried again":         {w(one, map[string]int64{CountCreated: 2, LabelDelivered: 1, CountRetrying: 1}), true},
		"all have ended":                  {w(one, map[string]int64{CountCreated: 2, LabelDelivered: 1, LabelFailed: 1}), true},
		"one of a part was not tried":     {w(parts, map[string]int64{CountCreated: 2, CountRetrying: 1}), false},
		"those of a part were tried":      {w(parts, map[string]int64{CountCreated: 2, CountRetrying: 2}), true},
	} {
		if got := c.of.triedAll(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestG3_SupersededIsReported: notifications that were superseded are part of the sums of their event and of each platform, and
// of those of parts, and it is kept that they were.
func TestG3_SupersededIsReported(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	j := &Job{Type: "t"}
	var sent Sent
	ids := []string{NotificationID("e", "a"), NotificationID("e", "b"), NotificationID("e", "c")}
	for i, mark := range []string{LabelDelivered, MarkOf(api.PlatformFCM, LabelSuperseded), LabelSuperseded} {
		p, _ := platformOf(mark)
		sent.Make(p, 1)
		sent.Count(mark)
		sent.Keep(ids[i], mark, now)
	}
	want := api.PlatformCounts{Notifications: 3, Delivered: 1, Superseded: 2}
	whole := func(p progress) *api.EventReport {
		return (&whole{id: queue.NewID(0, now), event: p, sent: make([]map[string]int64, 1+len(groupEndings))}).report()
	}
	text := j.ReportDone(Counts{Recipients: 3}, sent)
	p, err := parseProgress(text)
	storetest.Must(t, err)
	if r := whole(p); r.PlatformCounts != want || r.State != api.EventDone || r.Platforms[api.PlatformFCM].Superseded != 1 || r.Platforms[api.PlatformAPNs] != (api.PlatformCounts{Notifications: 2, Delivered: 1, Superseded: 1}) {
		t.Errorf("%q: %+v", text, r)
	}
	parts := progress{state: stateTargeted, typ: "t", parts: 1}
	parts.addParts(PartCounts(Counts{Recipients: 3}, sent))
	if r := whole(parts); r.PlatformCounts != want || r.Platforms[api.PlatformFCM].Superseded != 1 {
		t.Errorf("of a part: %+v", r)
	}
	p, err = parseProgress((&Job{Type: "t", Counted: Counts{Recipients: 3}, Sent: sent}).ReportSuperseded())
	storetest.Must(t, err)
	if r := whole(p); r.State != api.EventSuperseded || *r.Recipients != 3 || r.PlatformCounts != want {
		t.Errorf("of an event: %+v", r)
	}
	noted := readNotes(sent.note(), now.Add(time.Hour), ids...)
	for i, state := range []api.NotificationState{api.NotificationDelivered, api.NotificationSuperseded, api.NotificationSuperseded} {
		if o := noted[ids[i]]; o.state != state || !o.at.Equal(now) {
			t.Errorf("notification %d is noted as %+v, want %s", i, o, state)
		}
	}
	sent = Sent{}
	sent.Keep(ids[0], LabelCancelled, now)
	if o := readNotes(sent.note(), now, ids[0])[ids[0]]; o.state != api.NotificationCancelled {
		t.Errorf("one that was cancelled is noted as %+v", o)
	}
	if o, rest, ok := cutOutcome(OutcomeText(LabelSuperseded, now), now); !ok || rest != "" || o.state != api.NotificationSuperseded {
		t.Errorf("%+v", o)
	}
}

// TestG3_AMasterThatIsAway: an event whose predecessor cannot be asked for waits as if that were being sent, and is no failure.
func TestG3_AMasterThatIsAway(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	db := storetest.Open(t, cluster.URL())
	q := queue.New(db, queue.Options{Name: "events"})
	storetest.Must(t, q.Init(t.Context()))
	n := queue.New(db, queue.Options{Name: "notifications"})
	storetest.Must(t, n.Init(t.Context()))
	w := &liveWorld{TB: t, db: db, stores: []*Store{New(Options{DB: db, Queue: q, Notifications: n})}, object: "match:0"}
	away := cluster.MasterOf(t, shard.Prefix("events", 0, q.Shards()))
	for i := 0; cluster.MasterOf(t, keyLive(w.object)) == away; i++ {
		w.object = fmt.Sprintf("match:%d", i)
	}
	before := w.mustRun() // in shard 0
	id, j := w.mustJob(api.LiveUpdate)
	began := func(ago time.Duration) {
		w.put("event", before, "begun", 1, "at", time.Now().Add(-ago).UnixMicro(), "stamp", time.Now().Add(-ago).Unix()-1)
	}
	began(time.Second)
	away.Pause()
	defer away.Resume()
	if b, err := w.stores[0].BeginLive(t.Context(), id, j); err != nil || b.Wait <= 0 || b.Wait > time.Second || b.Superseded {
		t.Errorf("while it cannot be asked for: %+v, %v", b, err)
	}
	began(livePatience + time.Second)
	if b, err := w.stores[0].BeginLive(t.Context(), id, j); err != nil || b != (Begun{}) || j.Live.Stamp == 0 {
		t.Errorf("half a minute later: %+v, %v", b, err)
	}
}
