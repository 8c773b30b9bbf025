package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// scene is a server with a fault, and the addresses of its dependencies.
type scene struct {
	*testing.T
	server      *program
	redis, apns string
}

// faults make the faults of the runbook's sections, by their titles.
var faults = map[string]func(*scene) *scene{
	"Redis is away": func(s *scene) *scene {
		redis := s.serve()
		redis.Kill()
		return s
	},
	"Redis refuses changes": func(s *scene) *scene {
		redis := s.serve()
		storetest.Must(s, redis.Client().ConfigSet(s.Context(), "min-replicas-to-write", "1").Err())
		return s
	},
	"Redis is nearly full": func(s *scene) *scene {
		redis := s.serve()
		// Enough that the memory of connections makes little difference.
		storetest.Must(s, redis.Client().Set(s.Context(), "ballast", strings.Repeat("x", 16<<20), 0).Err())
		storetest.Must(s, redis.Client().ConfigSet(s.Context(), "maxmemory", fmt.Sprint(usedMemory(s.T, redis)*100/95)).Err())
		return s
	},
	"Redis was emptied": func(s *scene) *scene {
		s.serve().Restart()
		return s
	},
	"A master of a Cluster is away": func(s *scene) *scene {
		cluster := storetest.PrivateCluster(s, 0, "--cluster-require-full-coverage", "no")
		s.redis = cluster.Nodes[0].URL()
		s.serveOn(cluster.URL())
		cluster.Nodes[1].Kill()
		return s
	},
	"The database is away": func(s *scene) *scene {
		proxy, url := storetest.ProxyTo(s, storetest.MySQL(s))
		s.serve("FANFARE_DATABASE_URL=" + url)
		proxy.Cut()
		return s
	},
	"APNs is away": func(s *scene) *scene {
		apns := s.serveWithAPNs()
		apns.Refuse(true)
		apns.KillConnections()
		s.post(1)
		return s
	},
	"A certificate ends": func(s *scene) *scene {
		apns := apnstest.Start(s, apnstest.Options{})
		s.serve(appWithCertificate(s, apns), "FANFARE_APNS_CA_FILE="+apns.CAFile())
		return s
	},
	"APNs refuses an app": func(s *scene) *scene {
		s.serveWithAPNs().ScriptAll(apnstest.Fail(403, "InvalidProviderToken"))
		s.post(2)
		return s
	},
	"Jobs that nobody claims": func(s *scene) *scene {
		s.serve()
		s.server.insist("POST", "/v1/queues/emails/jobs", map[string]any{"type": "welcome", "run_at": time.Now().Add(-time.Hour)})
		return s
	},
	"Too many tokens look wrong": func(s *scene) *scene {
		s.serveWithAPNs().ScriptAll(apnstest.Fail(400, "BadDeviceToken"))
		s.post(60)
		return s
	},
	"APNs refuses what fanfare built": func(s *scene) *scene {
		s.serveWithAPNs().ScriptAll(apnstest.Fail(400, "BadCollapseId"))
		s.post(1)
		return s
	},
	"Channels that nobody knows": func(s *scene) *scene {
		s.serveWithAPNs().AddChannel(apnstest.DefaultTopic, 0)
		s.server.insist("PUT", "/v1/broadcasts/match:1", broadcast("none"))
		return s
	},
	"A Live Activity shows an old state": func(s *scene) *scene {
		apns := s.serveWithAPNs()
		s.server.insist("PUT", "/v1/users/bob/activities/"+deviceToken(1), map[string]string{
			"platform": "apns", "topic": apnstest.DefaultTopic, "environment": "production", "kind": "update", "object": "match:7"})
		apns.Script(deviceToken(1), apnstest.Fail(429, "TooManyRequests"))
		for n := range 3 {
			update := liveEvent("match:7", n)
			update["audience"] = map[string]any{"activities_of": "match:7"}
			s.server.insist("POST", "/v1/events", update)
		}
		return s
	},
	"No app for a device": func(s *scene) *scene {
		apns, file := apnstest.Start(s, apnstest.Options{}), filepath.Join(s.TempDir(), "apps.json")
		storetest.Must(s, os.WriteFile(file, fmt.Appendf(nil, `{"apps":[{"topic":"com.example.app","environment":"production","url":%q,"key_file":%q,"key_id":%q,"team_id":%q}]}`,
			apns.URL(), apns.KeyFile(), apns.KeyID(), apns.TeamID()), 0o600))
		s.serve("FANFARE_APPS_FILE="+file, "FANFARE_APNS_CA_FILE="+apns.CAFile())
		s.server.insist("PUT", "/v1/users/lost/devices/"+deviceToken(7), map[string]string{"platform": "apns", "topic": "com.example.unknown", "environment": "production"})
		s.server.insist("POST", "/v1/events", greeting("lost"))
		return s
	},
	"Dead letters": func(s *scene) *scene {
		s.serveWithAPNs("FANFARE_MAX_ATTEMPTS=1").ScriptAll(apnstest.Fail(500, "InternalServerError"))
		s.post(1)
		return s
	},
	"Work waits too long":       nobodySends,
	"Shards that nobody serves": nobodySends,
	"A process was killed or froze": func(s *scene) *scene {
		apns, redis := apnstest.Start(s, apnstest.Options{}), storetest.Redis(s)
		apns.ScriptAll(apnstest.After(time.Minute))
		vars := append(apns.Env(), "FANFARE_NOTIFICATION_LEASE=2s", "FANFARE_JOB_LEASE=2s", "FANFARE_DATABASE_URL="+storetest.MySQL(s))
		s.redis = redis.URL()
		s.serveOn(redis.URL(), vars...)
		frozen := s.server
		s.post(20)
		storetest.Eventually(s, 30*time.Second, "it is sending", func() bool { return apns.Total() > 0 })
		s.serveOn(redis.URL(), vars...)
		frozen.kill()
		return s
	},
	"The embedded Redis ends": func(s *scene) *scene {
		s.serveOn("embedded", "FANFARE_EMBEDDED=redis")
		before := mustServer(s, s.server.dir).PID
		mustKillServer(s, s.server.dir)
		storetest.Eventually(s, 30*time.Second, "the server is started again", func() bool { pid := mustServer(s, s.server.dir).PID; return pid != 0 && pid != before })
		s.server.awaitReady()
		return s
	},
	"A server that waits at its start": func(s *scene) *scene {
		proxy, url := storetest.ProxyTo(s, storetest.Redis(s).URL())
		proxy.Cut()
		s.server = launchServer(s, s.TempDir(), s.vars(url)...)
		storetest.Eventually(s, 20*time.Second, "it lives", func() bool {
			status, _, err := s.server.try("GET", "/healthz", nil)
			return err == nil && status == 200
		})
		return s
	},
	"The way to Redis or the database is slow": func(s *scene) *scene {
		redis := storetest.Redis(s)
		proxy, url := storetest.ProxyTo(s, redis.URL())
		s.redis = redis.URL()
		proxy.Delay(100 * time.Millisecond)
		s.serveOn(url)
		return s
	},
	"A clock is wrong": func(s *scene) *scene { // see cannotBeMade
		s.serve()
		return s
	},
	"Orders are not on record": func(s *scene) *scene {
		proxy, url := storetest.ProxyTo(s, storetest.MySQL(s))
		s.serve("FANFARE_DATABASE_URL=" + url)
		s.server.putSale("spring", -time.Hour, time.Hour, 60_000)
		id, _ := s.server.mustReserve("spring")
		proxy.Cut()
		s.server.insist("POST", "/v1/sales/spring/reservations/"+id+"/confirm", nil)
		return s
	},
	"A sale is oversold": func(s *scene) *scene {
		redis := s.serve()
		s.server.putSale("spring", -time.Hour, time.Hour, 60_000)
		// As a fail-over leaves it: available, held, sold, oversold.
		storetest.Must(s, redis.Client().HSet(s.Context(), "ff:{sale:spring:0}:stock", "s", "0 0 10 2").Err())
		return s
	},
	"A sale cannot be brought in line with SQL": func(s *scene) *scene {
		proxy, url := storetest.ProxyTo(s, storetest.MySQL(s))
		redis := s.serve("FANFARE_DATABASE_URL="+url, "FANFARE_SALE_LOCAL=off")
		s.server.putSale("spring", -time.Hour, time.Hour, 60_000)
		proxy.Cut()
		storetest.Must(s, redis.Client().FlushAll(s.Context()).Err())
		storetest.Eventually(s, 20*time.Second, "the sale cannot be read", func() bool {
			status, _, err := s.server.try("GET", "/v1/sales/spring", nil)
			return err == nil && status == 503
		})
		return s
	},
	"Recent contacts lag behind": func(s *scene) *scene {
		proxy, url := storetest.ProxyTo(s, storetest.Redis(s).URL())
		s.serve("FANFARE_CONTACTS_REDIS_URL=" + url)
		proxy.Cut()
		s.server.insist("PUT", "/v1/users/bob/contacts/ann", map[string]any{"relationship": "friend"})
		return s
	},
}

// appWithCertificate is the setting of an apps file whose only app has the certificate of a stand-in.
func appWithCertificate(t testing.TB, apns *apnstest.Server) string {
	file := filepath.Join(t.TempDir(), "certificate.json")
	storetest.Must(t, os.WriteFile(file, fmt.Appendf(nil, `{"apps":[{"topic":"com.example.certificate","environment":"production","url":%q,"cert_file":%q}]}`,
		apns.URL(), apns.CertFile()), 0o600))
	return "FANFARE_APPS_FILE=" + file
}

// cannotBeMade is for a fault that no test can cause within seconds. make clocks tests it.
var cannotBeMade = map[string][]string{"A clock is wrong": {`fanfare_redis_clock_ahead_seconds{redis="redis"} > 5`}}

// vars are the settings of a server of the runbook.
func (s *scene) vars(redis string, more ...string) []string {
	file := filepath.Join(s.TempDir(), "key")
	storetest.Must(s, os.WriteFile(file, []byte(runbookKey), 0o600))
	return append([]string{"FANFARE_REDIS_URL=" + redis, "FANFARE_ADMIN_KEY_FILE=" + file, "FANFARE_REQUEST_TIMEOUT=15s"}, more...)
}

// serveOn starts a server on a Redis.
func (s *scene) serveOn(redis string, more ...string) {
	s.Helper()
	dir := s.TempDir()
	if !strings.Contains(strings.Join(more, " "), "FANFARE_DATABASE_URL=") {
		more = append(more, "FANFARE_DATABASE_URL=sqlite:"+filepath.Join(dir, "fanfare.db"))
	}
	s.server = launchServer(s, dir, s.vars(redis, more...)...)
	s.server.key = runbookKey
	s.server.awaitReady()
}

// serve starts a Redis and a server.
func (s *scene) serve(more ...string) *storetest.RedisServer {
	s.Helper()
	redis := storetest.Redis(s)
	s.redis = redis.URL()
	s.serveOn(redis.URL(), more...)
	return redis
}

// serveWithAPNs starts a server that sends to a stand-in.
func (s *scene) serveWithAPNs(more ...string) *apnstest.Server {
	s.Helper()
	apns := apnstest.Start(s, apnstest.Options{})
	s.apns = apns.URL()
	s.serve(append(apns.Env(), more...)...)
	return apns
}

// post posts an event to each of n users with a device.
func (s *scene) post(n int) {
	s.Helper()
	for i := range n {
		s.server.insist("PUT", fmt.Sprintf("/v1/users/user-%d/devices/%s", i, deviceToken(i)), phone)
		s.server.insist("POST", "/v1/events", greeting(fmt.Sprintf("user-%d", i)))
	}
}

// phone is a device of the app that most tests use.
var phone = map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"}

// insist repeats a call until it works, because the machine of a test may be so busy that a server
// answers 503 at times.
func (p *program) insist(method, path string, body any) {
	p.t.Helper()
	last := ""
	storetest.Eventually(p.t, 2*time.Minute, method+" "+path, func() bool {
		status, answer, err := p.try(method, path, body)
		if err == nil && status/100 == 2 {
			return true
		}
		if text := fmt.Sprintf("%d %.200s %v", status, answer, err); status != 503 && text != last {
			last = text
			p.t.Log(method, path, text)
		}
		return false
	})
}

// nobodySends makes work for a role that no process has.
func nobodySends(s *scene) *scene {
	s.serve("FANFARE_ROLES=api,jobs")
	s.post(1)
	return s
}
