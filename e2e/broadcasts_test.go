package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// broadcast is the body of a broadcast that ends in a day.
func broadcast(keep string) map[string]any {
	return map[string]any{"topic": apnstest.DefaultTopic, "environment": "production", "keep": keep, "ends_at": time.Now().Add(24 * time.Hour)}
}

// channelOf is what a server says of a broadcast.
type channelOf struct{ Channel, State string }

// liveEvent is an event that updates an object of a broadcast.
func liveEvent(object string, n int) map[string]any {
	return map[string]any{
		"type": "match", "audience": map[string]any{"broadcast": object},
		"live": map[string]any{"action": "update", "content_state": map[string]any{"n": n}},
	}
}

// broadcastReport is the report of an event to a broadcast.
type broadcastReport struct {
	State                                     string
	Recipients                                *int64
	Broadcast                                 *struct{ Sent int }
	Notifications, Delivered, Failed, Expired int
}

// One request reaches everybody, whichever process has the event.
func TestG4_OneRequest(t *testing.T) {
	t.Parallel()
	apns := apnstest.Start(t, apnstest.Options{})
	servers := mustServeMany(t, 2, append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	var made channelOf
	servers[0].must(201, &made, "PUT", "/v1/broadcasts/match:1", broadcast("none"))
	var event struct{ ID string }
	servers[1].must(202, &event, "POST", "/v1/events", liveEvent("match:1", 7))
	apns.MustWait(t, 1, 30*time.Second)
	var got broadcastReport
	storetest.Eventually(t, 30*time.Second, "the event is done", func() bool {
		servers[0].must(200, &got, "GET", "/v1/events/"+event.ID, nil)
		return got.State == "done"
	})
	if got.Recipients != nil || got.Broadcast == nil || got.Broadcast.Sent != 1 || got.Notifications != 1 || got.Delivered != 1 {
		t.Errorf("the report is %+v", got)
	}
	r := apns.Of(made.Channel)
	if len(r) != 1 || apns.Total() != 1 || r[0].PushType != "liveactivity" || r[0].Expiration != "0" {
		t.Fatalf("APNs got %+v", r)
	}
	var payload struct {
		APS struct {
			Timestamp int64
			Event     string
			State     struct{ N int } `json:"content-state"`
		}
	}
	storetest.Must(t, json.Unmarshal(r[0].Payload, &payload))
	if payload.APS.Event != "update" || payload.APS.State.N != 7 || time.Since(time.Unix(payload.APS.Timestamp, 0)).Abs() > time.Minute {
		t.Errorf("the payload is %s", r[0].Payload)
	}
	if v := apns.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

// Processes are killed while they make channels. Each object has one, which the record knows, and a killed process leaves
// at most one that nobody knows.
func TestG5_KilledWhileChannelsAreMade(t *testing.T) {
	t.Parallel()
	const n = 24
	apns := apnstest.Start(t, apnstest.Options{})
	apns.ScriptManagement(apnstest.After(20 * time.Millisecond))
	database := storetest.MySQL(t)
	vars := append(apns.Env(), quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database, "FANFARE_REQUEST_TIMEOUT=15s")...)
	servers, db := mustServeMany(t, 2, vars...), mustOpenSQL(t, database)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, _, _ = servers[i%2].try("PUT", fmt.Sprintf("/v1/broadcasts/match:%d", i), broadcast("none"))
		})
	}
	storetest.Eventually(t, time.Minute, "some channels are made", func() bool { return len(apns.Channels(apnstest.DefaultTopic)) > n/4 })
	for _, p := range servers {
		p.kill()
	}
	wg.Wait()
	servers = mustServeMany(t, 2, vars...)
	killed, open := len(apns.Channels(apnstest.DefaultTopic)), 0
	storetest.Must(t, db.QueryRow("SELECT COUNT(*) FROM broadcasts WHERE state = 'open'").Scan(&open))
	storetest.Must(t, db.Close())
	known, refused := map[string]bool{}, 0
	for i := range n {
		var made channelOf
		refused += servers[i%2].insistInto(&made, "PUT", fmt.Sprintf("/v1/broadcasts/match:%d", i), broadcast("none"))
		if made.State != "open" || known[made.Channel] {
			t.Fatalf("match:%d is %+v", i, made)
		}
		known[made.Channel] = true
	}
	all := apns.Channels(apnstest.DefaultTopic)
	t.Logf("killed after %d of %d channels, of which %d were on record; in the end there are %d", killed, n, open, len(all))
	// On a busy machine a PUT may take longer than a request may: it is refused, and leaves one more (G5).
	if unknown := len(all) - n; unknown < killed-open || unknown > killed-open+refused {
		t.Errorf("%d channels are known to nobody, and %d calls were refused", unknown, refused)
	}
	for _, p := range servers {
		p.awaitUnknown(len(all) - n)
	}
}

// awaitUnknown waits until a process has counted the channels that nobody knows.
func (p *program) awaitUnknown(n int) {
	p.t.Helper()
	want := fmt.Sprintf("fanfare_broadcast_unknown_channels{app=%q} %d\n", apnstest.DefaultTopic+"/production", n)
	storetest.Eventually(p.t, 90*time.Second, want, func() bool {
		_, text, err := p.try("GET", "/metrics", nil)
		return err == nil && strings.Contains(string(text), want)
	})
}

// insistInto repeats a call until it is answered with 2xx, and reads the answer.
func (p *program) insistInto(into any, method, path string, body any) (refused int) {
	p.t.Helper()
	last := ""
	storetest.Eventually(p.t, time.Minute, method+" "+path, func() bool {
		status, answer, err := p.try(method, path, body)
		last = fmt.Sprint(status, " ", string(answer), " ", err)
		if err == nil && status/100 == 2 && json.Unmarshal(answer, into) == nil {
			return true
		}
		refused++
		return false
	})
	if p.t.Failed() {
		p.t.Log(last)
	}
	return refused
}

// A process is killed while APNs has its broadcast. Another one sends it again, with the same id and timestamp; those that
// were answered are not repeated.
func TestG4_KilledWhileSending(t *testing.T) {
	t.Parallel()
	const n = 20
	apns := apnstest.Start(t, apnstest.Options{})
	vars := append(apns.Env(), quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_NOTIFICATION_LEASE=2s")...)
	servers := mustServeMany(t, 2, vars...)
	channels := map[string]int{}
	for i := range n {
		var made channelOf
		servers[i%2].must(http.StatusCreated, &made, "PUT", fmt.Sprintf("/v1/broadcasts/match:%d", i), broadcast("none"))
		channels[made.Channel] = i
	}
	apns.ScriptFunc(func(r *apnstest.Request) (apnstest.Answer, bool) {
		return apnstest.Failing(apnstest.Hang), channels[r.Token]%4 == 0 && len(apns.Of(r.Token)) == 0
	})
	events := make([]struct{ ID string }, n)
	for i := range n {
		servers[0].must(202, &events[i], "POST", "/v1/events", liveEvent(fmt.Sprintf("match:%d", i), i))
	}
	storetest.Eventually(t, time.Minute, "each was sent, and a quarter hangs", func() bool { return apns.Total() == n && apns.Status(200) == n-n/4 })
	for _, p := range servers {
		p.kill()
	}
	survivor := mustServeMany(t, 1, vars...)[0]
	storetest.Eventually(t, time.Minute, "all are answered", func() bool { return apns.Status(200) >= n })
	storetest.Eventually(t, time.Minute, "all are done", func() bool {
		for _, e := range events {
			var got broadcastReport
			survivor.must(200, &got, "GET", "/v1/events/"+e.ID, nil)
			if got.State != "done" || got.Delivered != 1 {
				return false
			}
		}
		return true
	})
	for channel, i := range channels {
		got := apns.Of(channel)
		last := got[len(got)-1]
		if last.Status != 200 || len(got) > 2 || len(got) == 2 && (got[0].ID != last.ID || string(got[0].Payload) != string(last.Payload)) {
			t.Errorf("match:%d got %d requests: %s %s", i, len(got), got[0].Payload, last.Payload)
		}
	}
	t.Logf("%d requests for %d broadcasts", apns.Total(), n)
}

// A process without credentials that sends makes channels up, and one that does not makes none.
func TestG5_WithoutCredentials(t *testing.T) {
	t.Parallel()
	vars := quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
	const path = "/v1/broadcasts/match:1"
	var problem struct{ Code string }
	mustServe(t, t.TempDir(), append(slices.Clone(vars), "FANFARE_ROLES=api,jobs")...).must(422, &problem, "PUT", path, broadcast("none"))
	if problem.Code != "unknown_app" {
		t.Errorf("the problem is %q", problem.Code)
	}
	mustServe(t, t.TempDir(), append(slices.Clone(vars), "FANFARE_ROLES=api,push")...).must(201, nil, "PUT", path, broadcast("none"))
}
