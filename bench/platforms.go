package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/fcm/fcmtest"
	"fanfare/delivery/webpush/webpushtest"
)

// platformUsers is how many users each platform has: so many that no device waits for its own answers.
const platformUsers = 20_000

// pushHost is the host of the browsers' push service: the one that the certificate of httptest names.
const pushHost = "example.com"

// platforms compares the platforms with each other. All have the same stand-in, so that its own cost does
// not depend on the platform; it is not the one of the other rows, which is lighter and checks more. Each
// platform is measured with answers at once, and with answers after 100 ms.
func platforms(w *world) sample {
	var sides []*side
	var late atomic.Int64 // after how many ns the stand-in answers, about
	// The accounts, keys and subscriptions are those of the strict stand-ins.
	android, browsers := fcmtest.Start(w, fcmtest.Options{}), webpushtest.Start(w, webpushtest.Options{})
	s := w.stage(plan{users: platformUsers, also: func(s *stage) []string {
		return s.allPlatforms(android, browsers, &late)
	}, fill: func(into tables) {
		device := func(token, user, platform, target string) string {
			return fmt.Sprintf("('%s','%s','%s','%s','','active',1,'%s')", token, user, platform, apnstest.DefaultTopic, target)
		}
		const columns = "devices (token, user_id, platform, topic, environment, state, registered_at, target)"
		into.rows(columns, platformUsers, func(i int) string {
			return device(fmt.Sprintf("cToken-%d_:APA91b-of-the-benchmark", i), fmt.Sprintf("android-%d", i), "fcm", "")
		})
		into.rows(columns, platformUsers, func(i int) string {
			b := browsers.MustSubscribe(w, pushHost)
			return device(b.Token(), fmt.Sprintf("browser-%d", i), "webpush", b.Target())
		})
	}})
	for _, of := range []struct{ name, user string }{{"apns", "user-%d"}, {"fcm", "android-%d"}, {"webpush", "browser-%d"}} {
		s.warm(of.user, s.users)
		batches := s.delivering(of.name, 16, 100, func(n int) []byte { return batch(of.user, n, 100, s.users) }, s.server)
		for _, d := range []time.Duration{0, near} {
			sides = append(sides, s.after(d, func() { late.Store(int64(d)) }, batches))
		}
	}
	return w.turns(sides...)
}

// allPlatforms starts one stand-in for all platforms, and returns the settings of fanfare for it.
func (s *stage) allPlatforms(android *fcmtest.Server, browsers *webpushtest.Server, late *atomic.Int64) []string {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if d := time.Duration(late.Load()); d > 0 {
			<-time.After(d - d/5 + rand.N(2*d/5))
		}
		switch {
		case r.URL.Path == "/token":
			_, _ = io.WriteString(w, `{"access_token":"t","expires_in":3600,"token_type":"Bearer"}`)
			return
		case strings.HasPrefix(r.URL.Path, "/v1/projects/"):
			_, _ = io.WriteString(w, `{"name":"projects/p/messages/1"}`)
		}
		s.taken.Add(1)
	}))
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	server.StartTLS()
	s.Cleanup(server.Close)
	dir := s.TempDir()
	ca, file := filepath.Join(dir, "all.pem"), filepath.Join(dir, "apps.json")
	must(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	app := browsers.App(apnstest.DefaultTopic)
	app["ca_file"], app["connect_to"] = ca, server.Listener.Addr().String()
	must(os.WriteFile(file, got(json.Marshal(map[string]any{"apps": []map[string]string{
		{"topic": apnstest.DefaultTopic, "environment": "production", "url": server.URL, "key_file": s.apns.KeyFile(), "key_id": s.apns.KeyID(), "team_id": s.apns.TeamID()},
		{"platform": "fcm", "topic": apnstest.DefaultTopic, "url": server.URL, "token_url": server.URL + "/token", "service_account_file": android.AccountFile(), "ca_file": ca},
		app,
	}})), 0o600))
	return []string{"FANFARE_APPS_FILE=" + file, "FANFARE_APNS_CA_FILE=" + ca, "FANFARE_WEBPUSH_ORIGINS=" + pushHost, "FANFARE_WEBPUSH_ALLOW_NETS=127.0.0.0/8"}
}
