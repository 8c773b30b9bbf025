package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// refusal is the answer of APNs to an app with a wrong configuration.
func refusal() apnstest.Answer { return apnstest.Fail(403, "InvalidProviderToken") }

// parkedWithin is how long notifications may stay parked after their app runs again. The regular
// checks are made once per lease, and the machine may be busy.
const parkedWithin = time.Minute

// parkingVars are settings with which processes probe a paused app only on request.
func parkingVars(apns *apnstest.Server, redisURL, database string) []string {
	return append(apns.Env(), "FANFARE_REDIS_URL="+redisURL, "FANFARE_DATABASE_URL="+database, "FANFARE_LOG_LEVEL=warn",
		"FANFARE_NOTIFICATION_LEASE=4s", "FANFARE_APP_PROBE_INTERVAL=1h")
}

// mustPostTo posts an event to each of n users and returns the ids of the events.
func (p *program) mustPostTo(n int) []string {
	p.t.Helper()
	ids := make([]string, n)
	p.each(n, func(i int) error {
		var accepted struct{ ID string }
		p.must(202, &accepted, "POST", "/v1/events", greeting(fmt.Sprintf("user-%d", i)))
		ids[i] = accepted.ID
		return nil
	})
	return ids
}

// mustAllBeDelivered waits until every event is done and its notification delivered. If that does
// not happen, it reports what is parked.
func (p *program) mustAllBeDelivered(ids []string) {
	p.t.Helper()
	open := append([]string(nil), ids...)
	defer func() {
		if len(open) > 0 {
			p.t.Errorf("of %d events at least one is not done; %s notifications are parked; readyz says of apns: %+v", len(ids), p.parked(), p.readyAPNs())
		}
	}()
	storetest.Eventually(p.t, parkedWithin, "every event is done", func() bool {
		var left []string
		for i, id := range open {
			var got report
			p.must(200, &got, "GET", "/v1/events/"+id, nil)
			if got.State != "done" {
				left = append(left, open[i:]...)
				break
			}
			if got.Notifications != 1 || got.Delivered != 1 || got.Retrying != 0 {
				p.t.Errorf("event %s: %+v", id, got)
			}
		}
		open = left
		return len(open) == 0
	})
}

// readyAPNs is the part of readyz about the apps.
func (p *program) readyAPNs() api.Dependency {
	p.t.Helper()
	var r api.Readiness
	p.must(200, &r, "GET", "/readyz", nil)
	for _, d := range r.Dependencies {
		if d.Name == "apns" {
			return d
		}
	}
	return api.Dependency{}
}

// parked is the number of notifications of paused apps.
func (p *program) parked() string { return p.metric(`fanfare_queue_parked{queue="notifications"}`) }

// mustPause posts n events to an app that APNs refuses and waits until all are
// parked.
func (p *program) mustPause(apns *apnstest.Server, n int) []string {
	p.t.Helper()
	apns.ScriptAll(refusal())
	ids := p.mustPostTo(n)
	storetest.Eventually(p.t, parkedWithin, "all are parked", func() bool { return p.parked() == fmt.Sprint(n) })
	return ids
}

func (p *program) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// A process is frozen while an app is paused and continues, with its old view, after the app runs
// again. The notifications that it still parks are sent as well. In a second round the processes
// remember the first one.
func TestParkedByAProcessThatWasStopped(t *testing.T) {
	t.Parallel()
	const paused, late, rounds = 20, 400, 2
	apns, r := apnstest.Start(t, apnstest.Options{CountsOnly: true}), storetest.Redis(t)
	vars := parkingVars(apns, r.URL(), storetest.MySQL(t))
	front := mustServe(t, t.TempDir(), append(vars, "FANFARE_ROLES=api,jobs")...)
	workers := mustServeMany(t, 2, append(vars, "FANFARE_ROLES=push")...)
	front.mustRegister(late)
	for range rounds {
		ids := front.mustPause(apns, paused)
		stopped, other := workers[0], workers[1]
		for n := 0; stopped.metric(`fanfare_apns_app_paused{app="com.example.app/production"}`) != "1"; n++ {
			if n == 100 {
				t.Fatal("the process never saw the app paused")
			}
			ids = append(ids, front.mustPostTo(paused)...)
		}
		stopped.signal(syscall.SIGSTOP)
		apns.ScriptAll()
		storetest.Eventually(t, parkedWithin, "the app runs again", func() bool {
			other.signal(syscall.SIGHUP) // let it probe at once
			return front.readyAPNs().State == "ok"
		})
		other.signal(syscall.SIGSTOP)
		ids = append(ids, front.mustPostTo(late)...)
		stopped.signal(syscall.SIGCONT)
		storetest.Eventually(t, parkedWithin, "the stopped process is at work", func() bool {
			return front.depthOf("events") < late/2
		})
		other.signal(syscall.SIGCONT)
		front.mustAllBeDelivered(ids)
		workers[0], workers[1] = other, stopped
	}
}

// Redis is away when an app is to be paused, so that the pause is not recorded. The notifications
// that are parked for it, when Redis is back, are sent again.
func TestParkedByAPauseThatFailed(t *testing.T) {
	t.Parallel()
	const n = 20
	var asked atomic.Int64
	apns := apnstest.Start(t, apnstest.Options{CountsOnly: true, OnRequest: func(*apnstest.Request) { asked.Add(1) }})
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	vars := parkingVars(apns, url, storetest.MySQL(t))
	p := mustServe(t, t.TempDir(), append(vars, "FANFARE_NOTIFICATION_LEASE=15s")...)
	p.mustRegister(n)
	p.mustAllBeDelivered(p.mustPostTo(1)) // the connection is proven, so that it takes many streams
	slow := refusal()
	slow.Delay = 2 * time.Second
	apns.ScriptAll(slow)
	ids := p.mustPostTo(n)
	storetest.Eventually(t, parkedWithin, "all are on their way", func() bool { return asked.Load() == n+1 })
	proxy.Cut()
	storetest.Eventually(t, parkedWithin, "no pause is on record", func() bool {
		return strings.Count(p.stderr.String(), `"msg":"pause app"`) == n
	})
	apns.ScriptAll()
	proxy.Mend()
	p.mustAllBeDelivered(ids)
}

// Parked notifications are sent even if the pause of their app is forgotten: the record of the
// pause is gone, and so is the process that wrote it.
func TestParkedUnderAForgottenPause(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (string, redis.Cmdable){
		"OneNode": func(t *testing.T) (string, redis.Cmdable) {
			r := storetest.Redis(t)
			return r.URL(), r.Client()
		},
		"Cluster": func(t *testing.T) (string, redis.Cmdable) {
			c := storetest.PrivateCluster(t, 0)
			return c.URL(), storetest.Open(t, c.URL()).Client()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 250
			url, client := open(t)
			apns := apnstest.Start(t, apnstest.Options{CountsOnly: true})
			vars := parkingVars(apns, url, storetest.MySQL(t))
			first := mustServe(t, t.TempDir(), vars...)
			first.mustRegister(n)
			ids := first.mustPause(apns, n)
			first.kill()
			apns.ScriptAll()
			mustForgetPauses(t, client)
			mustServe(t, t.TempDir(), vars...).mustAllBeDelivered(ids)
		})
	}
}

// mustForgetPauses removes the records of all pauses.
func mustForgetPauses(t *testing.T, client redis.Cmdable) {
	t.Helper()
	if n, err := client.Del(context.WithoutCancel(t.Context()), "ff:{apps}:paused").Result(); n != 1 || err != nil {
		t.Fatalf("forget the pauses: %d %v", n, err)
	}
}
