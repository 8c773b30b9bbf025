package e2e

import (
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// SIGTERM under load: exit 0 within the time-out, no accepted event
// lost, none sent twice.
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

// HTTP contract, FANFARE_SHUTDOWN_TIMEOUT: also with Redis gone the process
// ends in time.
func TestSIGTERMWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	p := mustServe(t, t.TempDir(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_SHUTDOWN_TIMEOUT=6s")
	redis.Kill()
	if _, took := p.terminate(); took > 8*time.Second {
		t.Errorf("it took %v to end", took)
	}
}

// HTTP contract: with Redis out of reach, 503 within the request's deadline;
// it heals by itself, and what was accepted before arrives.
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
			p := mustServe(t, t.TempDir(), quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_REQUEST_TIMEOUT=3s")...)...)
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
			storetest.Eventually(t, 15*time.Second, "events are accepted again", func() bool {
				status, _, err := p.try("POST", "/v1/events", greeting("user-0"))
				return err == nil && status == 202
			})
			if err := apns.WaitIDs(21, 30*time.Second); err != nil {
				t.Fatal(err)
			}
			stopped.to = time.Now()
			posts.checkLedger(t, apns, stopped)
		})
	}
}

// checkRefusal posts while Redis is away.
func checkRefusal(t *testing.T, p *program) {
	t.Helper()
	for range 3 {
		var problem struct {
			Status int
			Code   string
		}
		began := time.Now()
		p.must(503, &problem, "POST", "/v1/events", greeting("user-0"))
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the refusal took %v, the deadline is 3 s", took)
		}
		if problem.Status != 503 || (problem.Code != "unavailable" && problem.Code != "unknown_outcome") {
			t.Errorf("problem %+v", problem)
		}
	}
	status, answer, err := p.try("GET", "/readyz", nil)
	if err != nil || status != 503 {
		t.Errorf("readyz: %d %s %v", status, answer, err)
	}
	p.must(200, nil, "GET", "/healthz", nil)
}
