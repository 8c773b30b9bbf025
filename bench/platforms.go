package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/fcm/fcmtest"
)

// platforms compares the platforms with each other. All have the same stand-in, so that its own cost does
// not depend on the platform; it is not the one of the other rows, which is lighter and checks more.
func platforms(w *world) []side {
	s := w.stage(plan{users: devices, androids: devices})
	var sides []side
	for _, of := range []struct{ name, user string }{{"apns", "user-%d"}, {"fcm", "android-%d"}} {
		s.warm(of.user, devices)
		sides = append(sides, s.delivering(of.name, 16, 100, func(n int) []byte { return batch(of.user, n, 100, devices) }, []*process{s.server}))
	}
	return sides
}

// android is the token of the n-th device of FCM.
func android(n int) string { return fmt.Sprintf("cToken-%d_:APA91b-of-the-benchmark", n) }

// androids writes a device of FCM for each of n users.
func (in inserter) androids(n int) {
	in.rows("devices (token, user_id, platform, topic, environment, state, registered_at)", n, func(i int) string {
		return fmt.Sprintf("('%s','android-%d','fcm','%s','','active',1)", android(i), i, apnstest.DefaultTopic)
	})
}

// allPlatforms starts one stand-in for all platforms, and returns the settings of fanfare for it.
func (s *stage) allPlatforms() []string {
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.takeAny))
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	server.StartTLS()
	s.ends = append(s.ends, server.Close)
	dir := s.redis.cmd.Dir
	ca := filepath.Join(dir, "all.pem")
	must(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	// The accounts alone are of the strict stand-ins.
	f := got(fcmtest.New(fcmtest.Options{Dir: dir}))
	s.ends = append(s.ends, f.Close)
	apps := got(json.Marshal(map[string]any{"apps": []map[string]string{
		{"topic": apnstest.DefaultTopic, "environment": "production", "url": server.URL, "key_file": s.apns.KeyFile(), "key_id": s.apns.KeyID(), "team_id": s.apns.TeamID()},
		{"platform": "fcm", "topic": apnstest.DefaultTopic, "url": server.URL, "token_url": server.URL + "/token", "service_account_file": f.AccountFile(), "ca_file": ca},
	}}))
	file := filepath.Join(dir, "apps.json")
	must(os.WriteFile(file, apps, 0o600))
	return []string{"FANFARE_APPS_FILE=" + file, "FANFARE_APNS_CA_FILE=" + ca}
}

// takeAny accepts a request of any platform.
func (s *stage) takeAny(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case r.URL.Path == "/token":
		_, _ = io.WriteString(w, `{"access_token":"t","expires_in":3600,"token_type":"Bearer"}`)
		return
	case strings.HasPrefix(r.URL.Path, "/v1/projects/"):
		_, _ = io.WriteString(w, `{"name":"projects/p/messages/1"}`)
	}
	s.taken.Add(1)
}
