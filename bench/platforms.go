package main

import (
	"context"
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
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/fcm/fcmtest"
	"fanfare/delivery/webpush/webpushtest"
)

// platformUsers is how many users each platform has: so many that no device waits for its own answers.
const platformUsers = 20_000

// platforms compares the platforms with each other. All have the same stand-in, so that its own cost does
// not depend on the platform; it is not the one of the other rows, which is lighter and checks more. Each
// platform is measured with answers at once, and with answers after 100 ms.
func platforms(w *world) []side {
	s := w.stage(plan{users: platformUsers, others: platformUsers})
	var sides []side
	for _, of := range []struct{ name, user string }{{"apns", "user-%d"}, {"fcm", "android-%d"}, {"webpush", "browser-%d"}} {
		s.warm(of.user, s.users)
		batches := s.delivering(of.name, 16, 100, func(n int) []byte { return batch(of.user, n, 100, s.users) }, []*process{s.server})
		for _, d := range []time.Duration{0, near} {
			sides = append(sides, side{name: fmt.Sprintf("%s %d", of.name, d.Milliseconds()), run: func(ctx context.Context, round time.Duration) sample {
				s.late.Store(int64(d))
				return batches.round(ctx, 2*round) // the window grows for a while first
			}})
		}
	}
	return sides
}

// android is the token of the n-th device of FCM.
func android(n int) string { return fmt.Sprintf("cToken-%d_:APA91b-of-the-benchmark", n) }

// others writes a device of FCM for each of n users, and a browser for each of n others.
func (in inserter) others(n int, p *webpushtest.Server) {
	const columns = "devices (token, user_id, platform, topic, environment, state, registered_at, target)"
	in.rows(columns, n, func(i int) string {
		return fmt.Sprintf("('%s','android-%d','fcm','%s','','active',1,'')", android(i), i, apnstest.DefaultTopic)
	})
	in.rows(columns, n, func(i int) string {
		b := got(p.Subscribe(pushHost))
		return fmt.Sprintf("('%s','browser-%d','webpush','%s','','active',1,'%s')", b.Token(), i, apnstest.DefaultTopic, b.Target())
	})
}

// pushHost is the host of the browsers' push service: the one that the certificate of httptest names.
const pushHost = "example.com"

// allPlatforms starts one stand-in for all platforms, and returns the settings of fanfare for it.
func (s *stage) allPlatforms() []string {
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.takeAny))
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	server.StartTLS()
	s.ends = append(s.ends, server.Close)
	dir := s.redis.cmd.Dir
	ca := filepath.Join(dir, "all.pem")
	must(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	// The accounts, keys and subscriptions are those of the strict stand-ins.
	f, p := got(fcmtest.New(fcmtest.Options{Dir: dir})), got(webpushtest.New(webpushtest.Options{Dir: dir}))
	s.ends = append(s.ends, f.Close, p.Close)
	s.browsers = p
	browsers := p.App(apnstest.DefaultTopic)
	browsers["ca_file"], browsers["connect_to"] = ca, server.Listener.Addr().String()
	apps := got(json.Marshal(map[string]any{"apps": []map[string]string{
		{"topic": apnstest.DefaultTopic, "environment": "production", "url": server.URL, "key_file": s.apns.KeyFile(), "key_id": s.apns.KeyID(), "team_id": s.apns.TeamID()},
		{"platform": "fcm", "topic": apnstest.DefaultTopic, "url": server.URL, "token_url": server.URL + "/token", "service_account_file": f.AccountFile(), "ca_file": ca},
		browsers,
	}}))
	file := filepath.Join(dir, "apps.json")
	must(os.WriteFile(file, apps, 0o600))
	return []string{"FANFARE_APPS_FILE=" + file, "FANFARE_APNS_CA_FILE=" + ca, "FANFARE_WEBPUSH_ORIGINS=" + pushHost, "FANFARE_WEBPUSH_ALLOW_NETS=127.0.0.0/8"}
}

// takeAny accepts a request of any platform.
func (s *stage) takeAny(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if d := time.Duration(s.late.Load()); d > 0 {
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
}
