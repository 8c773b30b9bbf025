package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// Two processes count in one counter while one of them is killed and Redis is restarted: each add with an
// Idempotency-Key that is repeated until it is answered counts once, and the counter stops at its bound. A value is
// waited for at one process and put at the other, and its versions only rise.
func TestV1_CountersOutliveProcesses(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, keepsAnswered...)
	vars := []string{"FANFARE_REDIS_URL=" + redis.URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t)}
	both := mustServeMany(t, 2, vars...)
	const callers, each = 8, 60
	const most = callers*each - 100
	both[0].must(201, nil, "PUT", "/v1/counters/n", map[string]any{"value": 0, "min": 0, "max": most, "local": "off"})
	var first api.ValueVersion
	both[0].must(201, &first, "PUT", "/v1/values/v", map[string]any{"value": 1})

	var at atomic.Pointer[program] // the process that is killed, or its successor
	at.Store(both[1])
	var done, refused, began atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := range each {
				began.Add(1)
				storetest.Eventually(t, time.Minute, "an add is answered", func() bool {
					to := both[0]
					if n%2 == 1 {
						to = at.Load()
					}
					status, _, err := to.try("POST", "/v1/counters/n/add", map[string]any{"delta": 1}, "Idempotency-Key", fmt.Sprint(caller, "-", n))
					switch {
					case err == nil && status == http.StatusOK:
						done.Add(1)
					case err == nil && status == http.StatusConflict:
						refused.Add(1)
					default:
						return false
					}
					return true
				})
			}
		})
	}
	storetest.Eventually(t, time.Minute, "a fifth was begun", func() bool { return began.Load() > callers*each/5 })
	both[1].kill()
	at.Store(mustServe(t, t.TempDir(), vars...))
	redis.Kill()
	redis.Restart()
	all.Wait()
	var n api.Counter
	both[0].must(200, &n, "GET", "/v1/counters/n", nil)
	if n.Value != most || done.Load() != most || refused.Load() != callers*each-most {
		t.Errorf("the counter is %d; %d adds were done and %d refused, and it has room for %d", n.Value, done.Load(), refused.Load(), most)
	}

	woken := make(chan api.Value)
	go func() {
		var v api.Value
		status, answer, err := at.Load().try("GET", fmt.Sprintf("/v1/values/v?version=%d&wait_ms=30000", first.Version), nil)
		if err != nil || status != 200 || json.Unmarshal(answer, &v) != nil {
			t.Errorf("the wait: %d %s %v", status, answer, err)
		}
		woken <- v
	}()
	storetest.Eventually(t, time.Minute, "it listens", func() bool {
		channels, err := redis.Client().PubSubChannels(t.Context(), "ff:{values.*:changed").Result()
		return err == nil && len(channels) == 1
	})
	both[0].must(200, nil, "PUT", "/v1/values/v", map[string]any{"value": 2})
	if v := <-woken; string(v.Value) != "2" || v.Version <= first.Version {
		t.Errorf("woken with %s of version %d after %d", v.Value, v.Version, first.Version)
	}
	storetest.Must(t, redis.Client().FlushAll(t.Context()).Err())
	var last api.ValueVersion
	both[0].must(201, &last, "PUT", "/v1/values/v", map[string]any{"value": 1})
	if last.Version <= first.Version {
		t.Errorf("version %d after Redis was emptied, %d before", last.Version, first.Version)
	}
	both[0].must(404, nil, "POST", "/v1/counters/n/add", map[string]any{"delta": 1})
}
