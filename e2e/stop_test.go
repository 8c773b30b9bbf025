package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// SIGTERM under load: exit 0 within the time-out, no accepted event is lost, and none is sent
// twice.
func TestSIGTERMUnderLoad(t *testing.T) {
	t.Parallel()
	const n = 4000
	apns, dir := apnstest.Start(t, apnstest.Options{TrackIDs: true, Latency: 5 * time.Millisecond}), t.TempDir()
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_SHUTDOWN_TIMEOUT=10s")...)
	p := mustServe(t, dir, vars...)
	p.mustRegister(n)
	posts := &poster{n: n, once: true, servers: func() []*program { return []*program{p} }}
	posts.start()
	posts.awaitAccepted(t, n/4)
	code, took := p.terminate()
	if code != 0 || took > 10*time.Second {
		t.Errorf("exit code %d after %v", code, took)
	}
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	accepted := int(posts.accepted.Load())
	t.Logf("stopped after %v; %d accepted, %d sent before the end", took, accepted, apns.Taken())
	if accepted == n {
		t.Fatal("the stop came after the load: nothing was tested")
	}
	mustServe(t, dir, vars...)
	if err := apns.WaitIDs(accepted, time.Minute); err != nil {
		t.Fatal(err)
	}
	if repeats := posts.checkLedger(t, apns); repeats != 0 {
		t.Errorf("%d notifications were sent twice", repeats)
	}
}

// HTTP contract, FANFARE_SHUTDOWN_TIMEOUT: the process ends in time even if Redis is gone.
func TestSIGTERMWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_SHUTDOWN_TIMEOUT=6s")
	redis.Kill()
	if _, took := p.terminate(); took > 8*time.Second {
		t.Errorf("it took %v to end", took)
	}
}

// HTTP contract: with Redis out of reach the answer is 503 within the request's deadline. The
// server recovers by itself, and events that were accepted before arrive.
func TestRedisStopsAndComesBack(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct{ stop, back func(*storetest.RedisServer) }{
		"Killed": {(*storetest.RedisServer).Kill, (*storetest.RedisServer).Restart},
		"Frozen": {(*storetest.RedisServer).Pause, (*storetest.RedisServer).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apns := apnstest.Start(t, apnstest.Options{TrackIDs: true})
			redis := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
			p := mustServe(t, t.TempDir(), quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_REQUEST_TIMEOUT=3s", "FANFARE_LOG_LEVEL=debug")...)...)
			p.mustRegister(20)
			posts := &poster{n: 20, servers: func() []*program { return []*program{p} }}
			posts.start()
			if err := <-posts.done; err != nil {
				t.Fatal(err)
			}
			stopped := now("Redis away")
			trouble.stop(redis)
			checkRefusal(t, p)
			trouble.back(redis)
			p.awaitReady()
			storetest.Eventually(t, time.Minute, "events are accepted again", func() bool {
				status, _, err := p.try("POST", "/v1/events", greeting("user-0"))
				return err == nil && status == 202
			})
			if err := apns.WaitIDs(21, time.Minute); err != nil {
				t.Fatal(err)
			}
			stopped.to = time.Now()
			posts.checkLedger(t, apns, stopped)
		})
	}
}

// checkRefusal posts while Redis is away. It takes the time of a refusal from the server's log, and
// uses the shortest: test and server may have to wait for a processor, but without a deadline no
// refusal would be in time.
func checkRefusal(t *testing.T, p *program) {
	t.Helper()
	const posts = 3
	for range posts {
		var problem struct {
			Status int
			Code   string
		}
		p.must(503, &problem, "POST", "/v1/events", greeting("user-0"))
		if problem.Status != 503 || (problem.Code != "unavailable" && problem.Code != "unknown_outcome") {
			t.Errorf("problem %+v", problem)
		}
	}
	var took []time.Duration
	storetest.Eventually(t, time.Minute, "the refusals are in the log", func() bool {
		took = p.refusalsOf("/v1/events")
		return len(took) >= posts
	})
	if slices.Min(took) > 4*time.Second {
		t.Errorf("the refusals took %v; the deadline is 3 s", took)
	}
	storetest.Eventually(t, 20*time.Second, "/readyz says 503; what it says is up to a second old", func() bool {
		status, _, err := p.try("GET", "/readyz", nil)
		return err == nil && status == 503
	})
	p.must(200, nil, "GET", "/healthz", nil)
}

// refusalsOf is how long each 503 of a route took, by the server's log.
func (p *program) refusalsOf(route string) (took []time.Duration) {
	for line := range strings.Lines(p.stderr.String()) {
		var entry struct {
			Msg, Route string
			Status     int
			TookMS     float64 `json:"took_ms"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "request" && entry.Route == route && entry.Status == http.StatusServiceUnavailable {
			took = append(took, time.Duration(entry.TookMS*float64(time.Millisecond)))
		}
	}
	return took
}
