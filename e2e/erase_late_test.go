package e2e

import (
	"net/http"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// E6, E7: a push to a topic is under way when the user is erased, with the phone or just after it was removed. APNs refuses it later
// than 10 s after that. Nothing names the user once the operation is done and the event has its report.
func TestE7_APushThatFailsLate(t *testing.T) {
	t.Parallel()
	for name, removes := range map[string]bool{"WithThePhone": false, "WithoutThePhone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failsLate(t, removes)
		})
	}
}

func failsLate(t *testing.T, removes bool) {
	t.Helper()
	apns, redis, database := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t), storetest.MySQL(t)
	p := mustServeMany(t, 1, quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+database)...)...)[0]
	p.must(201, nil, "PUT", "/v1/users/"+eraseMe+"/devices/"+deviceToken(1), map[string]string{"platform": "apns", "topic": apnstest.DefaultTopic, "environment": "production"})
	p.must(204, nil, "PUT", "/v1/users/"+eraseMe+"/topics/news", nil)
	apns.Script(deviceToken(1), apnstest.Answer{Status: http.StatusBadRequest, Reason: "PayloadEmpty", Delay: 14 * time.Second})
	var posted struct{ ID string }
	p.must(202, &posted, "POST", "/v1/events", map[string]any{"type": "news", "alert": map[string]string{"title": "T"}, "audience": map[string]string{"topic": "news"}})
	storetest.Eventually(t, 30*time.Second, "the request is under way", func() bool { return apns.Total() == 1 })
	if removes {
		p.must(204, nil, "DELETE", "/v1/users/"+eraseMe+"/devices/"+deviceToken(1), nil)
		p.must(204, nil, "DELETE", "/v1/users/"+eraseMe+"/topics/news", nil)
	}
	var begun operation
	p.must(202, &begun, "DELETE", "/v1/users/"+eraseMe, nil)
	p.mustErased(t, begun.ID)
	storetest.Eventually(t, time.Minute, "the event has its report", func() bool { return mustReport(t, p, posted.ID).Failed == 1 })
	if keys := storetest.KeysWith(t, storetest.Open(t, redis.URL()), eraseMe); len(keys) > 0 {
		t.Errorf("the user is in the keys %v", keys)
	}
}
