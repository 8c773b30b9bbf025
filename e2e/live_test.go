package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// liveReport is what the test looks at in a live event's report.
type liveReport struct {
	State                                                              string
	Recipients, Notifications, Delivered, Failed, Superseded, Retrying int
}

// shown is what a request lets an activity show.
func shown(t *testing.T, r apnstest.Request) (timestamp int64, state int) {
	t.Helper()
	var payload struct {
		APS struct {
			Timestamp int64
			State     struct{ N int } `json:"content-state"`
		}
	}
	storetest.Must(t, json.Unmarshal(r.Payload, &payload))
	if r.PushType != "liveactivity" || payload.APS.Timestamp < 1_700_000_000 || payload.APS.Timestamp > time.Now().Unix()+3 {
		t.Errorf("request %+v: %s", r, r.Payload)
	}
	return payload.APS.Timestamp, payload.APS.State.N
}

// G3: updates of one object to many activities, of which one reaches them only at the second try, while servers are killed. The
// last state of each activity is the newest, timestamps never fall, and each notification is counted as it ended.
func TestG3_UpdatesAmongKills(t *testing.T) {
	t.Parallel()
	activities, updates := storetest.Sized(10_000, 1000), storetest.Sized(1000, 24)
	apns, redis := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t)
	database := storetest.MySQL(t)
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+database)...)
	f := &fleet{t: t, vars: vars, redis: redis, servers: mustServeMany(t, 3, vars...)}
	mustInsert(t, database, "devices (token, user_id, platform, topic, environment, state, registered_at, object)", activities, func(i int) string {
		return fmt.Sprintf("('%s','user-%d','apns','%s.push-type.liveactivity','production','active',1,'match:7')", deviceToken(i), i, apnstest.DefaultTopic)
	})
	busy := apnstest.Fail(http.StatusTooManyRequests, "TooManyRequests")
	apns.Script(deviceToken(0), busy, apnstest.OK(), busy, busy, apnstest.OK(), busy, apnstest.OK())
	ids := make([]string, updates)
	for i := range updates {
		update := map[string]any{"type": "match", "audience": map[string]string{"activities_of": "match:7"},
			"live": map[string]any{"action": "update", "content_state": map[string]int{"n": i + 1}}}
		storetest.Eventually(t, 2*time.Minute, "the update to be accepted", func() bool {
			servers := f.all()
			var accepted struct{ ID string }
			status, answer, err := servers[i%len(servers)].try(http.MethodPost, "/v1/events", update, "Idempotency-Key", fmt.Sprint("update-", i))
			if err == nil && status/100 == 4 {
				t.Fatalf("%d %s", status, answer)
			}
			ok := err == nil && status == http.StatusAccepted && json.Unmarshal(answer, &accepted) == nil
			ids[i] = accepted.ID
			return ok
		})
		if i%8 == 3 {
			f.kill()
		}
		<-time.After(250 * time.Millisecond)
	}
	storetest.Eventually(t, 3*time.Minute, "nothing is left", f.all()[0].settled)

	last, of := map[string][2]int64{}, map[string]int{} // timestamp and state by token, requests by event
	for _, r := range apns.Requests() {
		at, state := shown(t, r)
		before := last[r.Token]
		if at < before[0] || int64(state) < before[1] {
			t.Errorf("%s got state %d at %d behind state %d at %d", r.Token, state, at, before[1], before[0])
		}
		if last[r.Token] = [2]int64{at, int64(state)}; r.Status == http.StatusOK {
			of[eventOf(t, r)]++
		}
	}
	for i := range activities {
		if state := last[deviceToken(i)][1]; state != int64(updates) {
			t.Errorf("activity %d shows state %d", i, state)
		}
	}
	states, superseded := map[string]int{}, 0
	for i, id := range ids {
		var r liveReport
		f.all()[1].must(200, &r, "GET", "/v1/events/"+id, nil)
		states[r.State]++
		superseded += r.Superseded
		if r.Failed+r.Retrying > 0 || r.Notifications != r.Delivered+r.Superseded || r.Delivered > of[id] || r.State == "done" && r.Recipients != activities || r.State != "done" && r.State != "superseded" {
			t.Errorf("update %d: %+v, %d requests", i+1, r, of[id])
		}
	}
	if states["superseded"] == 0 || states["done"] == 0 {
		t.Errorf("the updates ended as %v", states)
	}
	t.Logf("%d updates of %d activities: %v, %d notifications superseded, %d requests", updates, activities, states, superseded, apns.Total())
}
