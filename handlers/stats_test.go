package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/series"
	"fanfare/store/storetest"
)

// N18: the series has the minutes that are over.
func TestN18_Series(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	counted := series.Counts{}
	counted.Accepted(3)
	counted.Retried(1)
	counted.Opened(7)
	counted.Delivered("fcm", 2)
	counted.Failed("apns", 1)
	counted.Superseded("apns", 5)
	counted.Alarms("storm", 1)
	counted.Latency(.1, .2, 4)
	minutes := series.New(db, series.Options{Minute: time.Second, Totals: func() series.Counts { return counted }})
	w := setupOn(t, db, func(o *handlers.Options) { o.Series = minutes })
	w.get("/v1/stats/series").wants(t, 200, `{"items":[]}`)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	storetest.Must(t, minutes.Run(stopped)) // which writes the rest
	storetest.Eventually(t, soon, "the minute is over", func() bool { return strings.Contains(w.get("/v1/stats/series?minutes=1440").body, "accepted") })
	w.get("/v1/stats/series?minutes=1440").wants(t, 200, `{"items":[{"at":"*","accepted":3,"delivered":2,"failed":1,"superseded":5,"opened":7,"retried":1,"p50_ms":150,"p99_ms":199,
		"alarms":{"storm":1},"platforms":{"apns":{"delivered":0,"failed":1,"superseded":5},"fcm":{"delivered":2,"failed":0,"superseded":0}}}]}`)
}

func TestN18_BadMinutes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	run(t, w, []bad{
		{"none", get("/v1/stats/series?minutes=0"), 422, broken("minutes", "min", "must be at least 1")},
		{"negative", get("/v1/stats/series?minutes=-5"), 422, broken("minutes", "min", "must be at least 1")},
		{"more than a day", get("/v1/stats/series?minutes=1441"), 422, broken("minutes", "max", "must be at most 1440")},
		{"a word", get("/v1/stats/series?minutes=day"), 422, broken("minutes", "type", "must be an integer")},
		{"a fraction", get("/v1/stats/series?minutes=1.5"), 422, broken("minutes", "type", "must be an integer")},
		{"a parameter too many", get("/v1/stats/stream?minutes=5"), 422, broken("minutes", "type", "is not a parameter of this call")},
	})
}

// followStats opens a stream of figures.
func (w *world) followStats(headers ...string) *follower {
	w.t.Helper()
	f, err := w.tryFollowAt("/v1/stats/stream", "", headers...)
	storetest.Must(w.t, err)
	if f.res.StatusCode != http.StatusOK || f.res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%d %v", f.res.StatusCode, f.res.Header)
	}
	return f
}

// wantStats reads the next event, which must have figures.
func (f *follower) wantStats() (text string, stats api.Stats) {
	f.t.Helper()
	e := f.wantData()
	if err := json.Unmarshal([]byte(e.data), &stats); e.name != "stats" || e.id != "" || err != nil || len(stats.Queues) != 3 {
		f.t.Fatalf("%v %+v", err, e)
	}
	return e.data, stats
}

// N18: the stream begins with the present figures and goes on with new ones.
func TestN18_StreamOfStats(t *testing.T) {
	t.Parallel()
	w := setup(t)
	f := w.followStats("Last-Event-ID: x")
	if _, stats := f.wantStats(); stats.Queues[0].Depth != 0 {
		t.Errorf("%+v", stats)
	}
	w.post("/v1/events", anEvent).wants(t, 202, `{"id":"*"}`)
	for {
		if _, stats := f.wantStats(); stats.Queues[0].Name == "events" && stats.Queues[0].Depth == 1 {
			break
		}
	}
	w.stopping()
	f.wantEndAfterStats()
}

// wantEndAfterStats reads to the end of the stream.
func (f *follower) wantEndAfterStats() {
	f.t.Helper()
	late := time.AfterFunc(soon, f.cancel)
	defer late.Stop()
	for {
		e, err := f.next()
		if err == nil && (e.data == "" || e.name == "stats") {
			continue
		}
		if err == nil || !late.Stop() {
			f.t.Fatalf("the stream goes on: %+v", e)
		}
		return
	}
}

// N18: a process reads the figures once for all streams, and not at all without one.
func TestN18_OneReadingForAll(t *testing.T) {
	t.Parallel()
	const streams, events = 20, 4
	redis := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, redis.URL()))
	w.post("/v1/events", anEvent).wants(t, 202, `{"id":"*"}`) // its age makes each reading another one
	w.get("/v1/stats")
	before := storetest.Calls(t, redis.Client(), "evalsha")
	w.get("/v1/stats")
	each := storetest.Calls(t, redis.Client(), "evalsha") - before
	before, began := storetest.Calls(t, redis.Client(), "evalsha"), time.Now()
	var all [streams]*follower
	for i := range all {
		all[i] = w.followStats()
	}
	readings := map[string]bool{}
	for range events {
		for _, f := range all {
			text, _ := f.wantStats()
			readings[text] = true
		}
	}
	for _, f := range all {
		f.close()
	}
	read := float64(storetest.Calls(t, redis.Client(), "evalsha")-before) / float64(each)
	if most := time.Since(began).Seconds()/2 + 2; each == 0 || len(readings) < events || read > most {
		t.Errorf("the figures were read %.1f times, for %d streams with %d different events in %v", read, streams, len(readings), time.Since(began))
	}
	storetest.Eventually(t, soon, "the streams are closed", func() bool { return strings.Contains(w.get("/metrics").body, "\nfanfare_open_streams 0\n") })
	last, since := storetest.Calls(t, redis.Client(), "evalsha"), time.Now()
	storetest.Eventually(t, soon, "nothing is read any more", func() bool {
		if now := storetest.Calls(t, redis.Client(), "evalsha"); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 5*time.Second
	})
	again := w.followStats()
	again.wantStats()
	again.wantStats()
}

// N18: while Redis is away a stream stays open and says so, and goes on by itself. Another one cannot be opened.
func TestN18_StreamOutlivesRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes")
	w := setupOn(t, storetest.Open(t, redis.URL()), func(o *handlers.Options) { o.Web.RequestTimeout = 2 * time.Second })
	f := w.followStats()
	f.wantStats()
	redis.Kill()
	e := f.wantData()
	for e.name == "stats" {
		e = f.wantData()
	}
	if e.name != "unavailable" || e.data != `{"code":"unavailable"}` {
		t.Errorf("%+v", e)
	}
	if a := w.get("/v1/stats/stream"); a.status != 503 || a.member(t, "code") != "unavailable" {
		t.Errorf("a stream without Redis: %d %s", a.status, a.body)
	}
	if a := w.get("/v1/stats/series"); a.status != 503 || a.member(t, "code") != "unavailable" {
		t.Errorf("the series without Redis: %d %s", a.status, a.body)
	}
	redis.Restart()
	for e.name == "unavailable" {
		e = f.wantData()
	}
	if e.name != "stats" {
		t.Errorf("%+v", e)
	}
	storetest.Eventually(t, soon, "a stream can be opened", func() bool { return w.get("/v1/stats").status == 200 })
	w.followStats().wantStats()
}

// N18: a stream of figures ends with its key, and counts as every other stream.
func TestN18_StreamEndsWithItsKey(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.KeyMaxStreams = 2 })
	secret, key, err := w.keys.Create(t.Context(), "one", []api.Scope{api.ScopeOpsRead}, nil)
	storetest.Must(t, err)
	other := "Authorization: Bearer " + w.mustKey(api.ScopeOps)
	one := "Authorization: Bearer " + secret
	first, second := w.followStats(one), w.followStats(one)
	if a := w.do(call{method: "GET", path: "/v1/stats/stream", headers: []string{one}}); a.status != 429 {
		t.Errorf("%d %s", a.status, a.body)
	}
	stays := w.followStats(other)
	storetest.Must(t, w.keys.Revoke(t.Context(), key.ID))
	first.wantEndAfterStats()
	second.wantEndAfterStats()
	stays.wantStats()
	stays.wantStats()
}

// N18: while Redis hangs, no stream waits for the readings of others: each ends as soon after its key as always.
func TestN18_StreamsEndWithTheirKeyWhileRedisHangs(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := setupOn(t, storetest.Open(t, redis.URL()))
	secret, key, err := w.keys.Create(t.Context(), "one", []api.Scope{api.ScopeOpsRead}, nil)
	storetest.Must(t, err)
	w.mustKey(api.ScopeOps) // without any key there would be no access control
	var all [20]*follower
	for i := range all {
		all[i] = w.followStats("Authorization: Bearer " + secret)
		all[i].wantStats()
	}
	redis.Pause()
	defer redis.Resume()
	for e := all[0].wantData(); e.name != "unavailable"; e = all[0].wantData() {
	}
	storetest.Must(t, w.keys.Revoke(t.Context(), key.ID))
	revoked := time.Now()
	for _, f := range all {
		for e, err := f.next(); err == nil; e, err = f.next() {
			if e.data != "" && e.name != "stats" && e.name != "unavailable" {
				t.Fatalf("%+v", e)
			}
		}
	}
	if took := time.Since(revoked); took > 15*time.Second { // 10 s, and some for a busy machine
		t.Errorf("the last stream ended after %v", took)
	}
}
