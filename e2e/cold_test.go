package e2e

import (
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// The users of a large audience leave nothing in Redis: a large audience that got no events lately
// must not fill it.
func TestP10_AnEventToManyLeavesNoSettings(t *testing.T) {
	t.Parallel()
	const followers = 2500
	apns := apnstest.Start(t, apnstest.Options{CountsOnly: true, TrackIDs: true})
	redis, database := storetest.Redis(t), storetest.MySQL(t)
	p := mustServeShipped(t, append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+database)...)
	mustFollow(t, database, "star", followers)
	p.must(202, nil, "POST", "/v1/events", greeting("fan-0000007"))
	apns.MustWait(t, 1, 30*time.Second)

	event := greeting("")
	event["audience"] = map[string]any{"contacts_of": "star"}
	var posted struct{ ID string }
	p.must(202, &posted, "POST", "/v1/events", event)
	var got report
	storetest.Eventually(t, time.Minute, "the event to end", func() bool {
		got = mustReport(t, p, posted.ID)
		return got.State == "done"
	})
	if distinct, repeats := apns.IDs(); got.Delivered != followers || distinct != 1+followers || repeats != 0 {
		t.Errorf("report %+v, %d notifications and %d again", got, distinct, repeats)
	}
	keys, err := redis.Client().Keys(t.Context(), "ff:{u:*}:settings").Result()
	if err != nil || len(keys) != 1 {
		t.Errorf("the settings of %d users are cached, not those of the one who got an event of his own (%v)", len(keys), err)
	}
}
