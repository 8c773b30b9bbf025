package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// takenAway are the changes that take something from the users old-0 to old-3, who have a device each: what
// is called, the status, and the user and the device that get nothing afterwards.
var takenAway = []struct {
	name, method, path string
	body               any
	user               string
	device             int
}{
	{"LogOut", "DELETE", "/v1/users/old-0/devices/" + deviceToken(0), nil, "old-0", 0},
	{"HandOver", "PUT", "/v1/users/next/devices/" + deviceToken(1), phoneOf("com.example.app"), "old-1", 1},
	{"OptOut", "PUT", "/v1/users/old-2/opt-outs/greeting", nil, "old-2", 2},
	{"Batch", "POST", "/v1/devices/batch", map[string]any{"devices": []any{map[string]string{"user": "next", "token": deviceToken(3),
		"platform": "apns", "topic": "com.example.app", "environment": "production"}}}, "old-3", 3},
}

func phoneOf(topic string) map[string]string {
	return map[string]string{"platform": "apns", "topic": topic, "environment": "production"}
}

// takings run all changes at the same time until each is answered with 2xx, and note when.
type takings struct {
	mu       sync.Mutex
	answered map[string]time.Time // by user
	refused  map[string]int
	done     sync.WaitGroup
}

func (p *program) take() *takings {
	w := &takings{answered: map[string]time.Time{}, refused: map[string]int{}}
	for _, c := range takenAway {
		w.done.Go(func() {
			for p.t.Context().Err() == nil {
				status, answer, err := p.try(c.method, c.path, c.body, "Idempotency-Key", "take-"+c.name)
				var problem struct{ Code string }
				_ = json.Unmarshal(answer, &problem)
				w.mu.Lock()
				if err == nil && status/100 == 2 {
					w.answered[c.user] = time.Now()
					w.mu.Unlock()
					return
				}
				if w.refused[c.user]++; status != 503 || problem.Code != "unavailable" && problem.Code != "unknown_outcome" {
					p.t.Errorf("%s: %d %s %v", c.name, status, answer, err)
				}
				w.mu.Unlock()
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	return w
}

// TestP4_NothingReachesADeviceThatWasTaken: whatever part of Redis takes no writes, or from whom, a device
// gets nothing that was posted to its former owner once the call that took it has been answered with 2xx.
// Until then the call is answered with 503.
func TestP4_NothingReachesADeviceThatWasTaken(t *testing.T) {
	t.Parallel()
	skipFaults(t)
	// Each fault begins when it is called and ends when what it returns is called.
	for name, setUp := range map[string]func(t *testing.T) (url, apiURL string, begin func() (end func())){
		// A replica dies: its master answers reads, and refuses writes by itself.
		"AReplicaDies": func(t *testing.T) (string, string, func() func()) {
			c := storetest.PrivateCluster(t, 1, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
			master := c.MasterOf(t, settingsOf("old-0"))
			replica := c.Nodes[slices.Index(c.Nodes, master)+3]
			return c.URL(), c.URL(), func() func() {
				replica.Kill()
				storetest.Eventually(t, 30*time.Second, "the master refuses writes", func() bool {
					err := master.Client().Set(t.Context(), settingsOf("old-0")+":probe", 1, time.Second).Err()
					return err != nil && err.Error()[:10] == "NOREPLICAS"
				})
				return replica.Restart
			}
		},
		"TheProcessIsCutOff": func(t *testing.T) (string, string, func() func()) {
			r := storetest.Redis(t)
			proxy, url := storetest.ProxyTo(t, r.URL())
			return r.URL(), url, func() func() { proxy.Cut(); return proxy.Mend }
		},
		"AFrozenRedis": func(t *testing.T) (string, string, func() func()) {
			r := storetest.Redis(t)
			return r.URL(), r.URL(), func() func() { r.Pause(); return r.Resume }
		},
		"WritesAreRefusedForAMoment": func(t *testing.T) (string, string, func() func()) {
			r := storetest.Redis(t)
			return r.URL(), r.URL(), func() func() {
				storetest.Must(t, r.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
				return func() { storetest.Must(t, r.Client().ConfigSet(t.Context(), "min-replicas-to-write", "0").Err()) }
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, apiURL, begin := setUp(t)
			apns := apnstest.Start(t, apnstest.Options{})
			vars := append(apns.Env(), "FANFARE_RETRY_BASE=200ms", "FANFARE_RETRY_MAX=1s", "FANFARE_DATABASE_URL="+storetest.MySQL(t))
			sends := mustServe(t, t.TempDir(), append(vars, "FANFARE_REDIS_URL="+url)...)
			front := mustServe(t, t.TempDir(), append(vars, "FANFARE_REDIS_URL="+apiURL, "FANFARE_ROLES=api")...)
			for _, c := range takenAway {
				sends.insist("PUT", "/v1/users/"+c.user+"/devices/"+deviceToken(c.device), phoneOf("com.example.app"))
			}
			// Each has a notification that waits for its next try, and settings in the cache.
			apns.ScriptAll(apnstest.Fail(http.StatusServiceUnavailable, "ServiceUnavailable"))
			for _, c := range takenAway {
				sends.must(202, nil, "POST", "/v1/events", greeting(c.user))
			}
			storetest.Eventually(t, 30*time.Second, "they were tried", func() bool { return apns.Total() >= len(takenAway) })

			end := begin()
			work := front.take()
			sends.postFor(lasts(15*time.Second, 5*time.Second), "before")
			work.mu.Lock()
			if work.refused["old-0"] == 0 || !work.answered["old-0"].IsZero() {
				t.Errorf("the log-out was not refused: %v", work.answered)
			}
			work.mu.Unlock()
			end()
			work.done.Wait()
			answered := time.Now()
			storetest.Eventually(t, 10*time.Second, "what was read before is too old", func() bool { return time.Since(answered) > 2*time.Second })
			sends.postFor(3*time.Second, lateText)
			storetest.Eventually(t, time.Minute, "the next owner gets events", func() bool {
				_, _, _ = sends.try("POST", "/v1/events", greeting("next"))
				return slices.ContainsFunc(apns.Of(deviceToken(1)), func(r apnstest.Request) bool { return strings.Contains(string(r.Payload), "for next") })
			})
			for _, c := range takenAway {
				for _, r := range apns.Of(deviceToken(c.device)) {
					text, late := string(r.Payload), r.At.Sub(work.answered[c.user])
					// Opt-outs are read at targeting alone. Promised are 2 s; a busy machine takes its time.
					if strings.Contains(text, lateText) || c.name != "OptOut" && strings.Contains(text, c.user) && late > 2500*time.Millisecond {
						t.Errorf("%s: the device got %s %v after the answer", c.name, text, late)
						break
					}
				}
			}
			t.Logf("refused: %v", work.refused)
		})
	}
}

// lateText is in events that were posted too late for the users to get.
const lateText = "too late"

// postFor posts events to the users for a while, whether they are accepted or not.
func (p *program) postFor(d time.Duration, text string) {
	for began := time.Now(); time.Since(began) < d; {
		for _, c := range takenAway {
			event := greeting(c.user)
			event["alert"] = map[string]string{"title": text, "body": "for " + c.user}
			_, _, _ = p.try("POST", "/v1/events", event)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// settingsOf is the key of a user's cached settings.
func settingsOf(user string) string { return "ff:{u:" + user + "}:settings" }
