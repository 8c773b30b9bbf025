package e2e

import (
	"fmt"
	"testing"
	"time"

	"fanfare/delivery/exchange/exchangetest"
	"fanfare/delivery/fcm/fcmtest"
	"fanfare/store/storetest"
)

// W17: while FCM takes requests and answers none, an event to as many phones of both kinds reaches all iPhones in at
// most 1.2 times the usual time, and what waits for FCM takes little of Redis.
//
// Not parallel: it measures (make capacity).
func TestW17_AMixedAudienceWhileFCMHangs(t *testing.T) {
	const most, mostMemory = 1.2, 100 << 20
	n, redis, database := storetest.Sized(500_000, 50_000), storetest.Redis(t), storetest.MySQL(t)
	a := androidFiles(t)
	p := mustServeShipped(t, append(a.vars(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+database, "FANFARE_LOG_LEVEL=error")...)
	mustInsert(t, database, "contacts (owner, contact, relationship, version, deleted, created_at, updated_at)", 2*n, func(i int) string {
		return fmt.Sprintf("('fan-%07d','star','contact',1,0,0,0)", i)
	})
	mustInsert(t, database, "devices (token, user_id, platform, topic, environment, state, registered_at)", 2*n, func(i int) string {
		if i%2 == 0 {
			return fmt.Sprintf("('%s','fan-%07d','apns','com.example.app','production','active',1)", deviceToken(fanToken+i), i)
		}
		return fmt.Sprintf("('%s','fan-%07d','fcm','com.example.app','','active',1)", fcmDevice(i), i)
	})
	event := greeting("")
	event["audience"] = map[string]any{"contacts_of": "star"}
	post := func() (took time.Duration, id string) {
		t.Helper()
		var accepted struct{ ID string }
		before, began := a.apns.Total(), time.Now()
		p.must(202, &accepted, "POST", "/v1/events", event)
		storetest.Eventually(t, 20*time.Minute, "all iPhones have it", func() bool { return a.apns.Total() >= before+n })
		return time.Since(began), accepted.ID
	}
	done := func(id string) {
		storetest.Eventually(t, 20*time.Minute, "the event is done", func() bool { return mustReport(t, p, id).State == "done" })
	}
	_, warm := post()
	done(warm)
	usual, control := post()
	done(control)
	memory := usedMemory(t, redis)
	a.fcm.Script(func(*fcmtest.Request) fcmtest.Answer { return fcmtest.Answer{Fault: exchangetest.Hang} })
	took, _ := post()
	grown := usedMemory(t, redis) - memory
	t.Logf("%d iPhones in %v, usually %v; Redis took %d MB more", n, took.Round(time.Millisecond), usual.Round(time.Millisecond), grown>>20)
	if took > time.Duration(most*float64(usual)) {
		t.Errorf("all iPhones had it after %v, usually after %v", took, usual)
	}
	if grown > mostMemory {
		t.Errorf("Redis took %d MB more", grown>>20)
	}
}
