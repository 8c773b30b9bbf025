package e2e

import (
	"fmt"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// N12: scheduled events survive kill -9 of all processes and of Redis. Each is sent once, and none too early.
func TestN12_ScheduledEventsSurviveKills(t *testing.T) {
	t.Parallel()
	const n = 40
	apns, redis := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	servers := mustServeMany(t, 2, vars...)
	servers[0].mustRegister(n)
	at := time.Now().Add(45 * time.Second).Truncate(time.Millisecond)
	var ids []string
	var batch []map[string]any
	for i := range n {
		event := greeting(fmt.Sprint("user-", i))
		event["send_at"] = at.UTC().Format("2006-01-02T15:04:05.000Z")
		if i%2 > 0 {
			batch = append(batch, event)
			continue
		}
		var a struct{ ID string }
		servers[0].must(202, &a, "POST", "/v1/events", event)
		ids = append(ids, a.ID)
	}
	var all struct{ Items []struct{ ID string } }
	servers[1].must(202, &all, "POST", "/v1/events/batch", map[string]any{"events": batch})
	for _, a := range all.Items {
		ids = append(ids, a.ID)
	}
	type shown struct {
		State, Type string
		SendAt      time.Time `json:"send_at"`
		Delivered   int
	}
	var r shown
	servers[1].must(200, &r, "GET", "/v1/events/"+ids[0], nil)
	for _, p := range servers {
		p.kill()
	}
	redis.Kill()
	if !time.Now().Before(at) {
		t.Fatal("the events were due before the kills")
	}
	if r.State != "scheduled" || !r.SendAt.Equal(at) {
		t.Errorf("%+v", r)
	}
	redis.Restart()
	p := mustServeMany(t, 1, vars...)[0]
	storetest.Eventually(t, 3*time.Minute, "all are delivered", func() bool {
		for _, id := range ids {
			r = shown{}
			if p.must(200, &r, "GET", "/v1/events/"+id, nil); r.State != "done" || r.Delivered != 1 || !r.SendAt.Equal(at) {
				return false
			}
		}
		return true
	})
	got := map[string]int{}
	for _, r := range apns.Requests() {
		got[r.Token]++
		if r.At.Before(at) {
			t.Errorf("sent %v too early", at.Sub(r.At))
		}
	}
	if len(got) != n || len(apns.Requests()) != n {
		t.Errorf("%d requests to %d devices, want %d", len(apns.Requests()), len(got), n)
	}
}
