package e2e

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// secretForms are API keys, the tokens of devices and providers, and private keys.
var secretForms = regexp.MustCompile(`\bff_[A-Za-z0-9]{4,}_[A-Za-z0-9]{16,}|\b[0-9a-fA-F]{64}\b|\beyJ[A-Za-z0-9_-]{10,}\.|Bearer \S{8}|BEGIN [A-Z ]*PRIVATE KEY`)

// secretLine is the first line of a log that shows a secret; "" if there is none. It reads the log
// of every process of every test.
func (p *program) secretLine(log string) string {
	secrets := []string{}
	if p.key != "" {
		secrets = append(secrets, p.key)
	}
	for _, v := range p.cmd.Env {
		_, value, _ := strings.Cut(v, "=")
		if u, err := url.Parse(value); err == nil && u.User != nil {
			if password, ok := u.User.Password(); ok && len(password) >= 8 {
				secrets = append(secrets, password)
			}
		}
	}
	for line := range strings.Lines(log) {
		if secretForms.MatchString(line) {
			return line
		}
		for _, s := range secrets {
			if strings.Contains(line, s) {
				return line
			}
		}
	}
	return ""
}

// No line of the log has a key, a token, a password or a user's text, at any log level and for any
// error.
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	const password, hush = "swordfish-of-redis", "hush-hush"
	redis, apns, dir := storetest.Redis(t, "--requirepass", password), apnstest.Start(t, apnstest.Options{}), t.TempDir()
	vars := append(apns.Env(), "FANFARE_REDIS_URL="+strings.Replace(redis.URL(), "://", "://:"+password+"@", 1), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_LOG_LEVEL=debug")
	key := mustCreateKey(t, dir, "admin", vars...)
	p := mustServe(t, dir, vars...)
	p.key = key
	if p.secretLine("x "+key+"\n") == "" || p.secretLine("x "+password+" y\n") == "" || p.secretLine(`{"token":"`+deviceToken(1)+"\"}\n") == "" {
		t.Fatal("this test does not know a secret when it sees one")
	}
	status := func(method, path string, body any, header ...string) int {
		got, _, err := p.try(method, path, body, header...)
		storetest.Must(t, err)
		return got
	}
	device := map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"}
	tour := func() {
		status("PUT", "/v1/users/"+hush+"/devices/"+deviceToken(1), device)
		status("PUT", "/v1/users/"+hush+"/devices/"+deviceToken(1), map[string]string{"platform": hush})
		status("POST", "/v1/events", map[string]any{"type": "t", "audience": map[string]any{"users": []string{hush}}, "alert": map[string]string{"title": hush}, "data": map[string]string{"k": hush}})
		status("POST", "/v1/chats", map[string]any{"id": "team", "creator": hush, "members": []string{hush, "ann"}})
		status("POST", "/v1/chats/team/messages", map[string]any{"sender": hush, "text": hush}, "Idempotency-Key", hush)
		status("POST", "/v1/chats/team/messages", map[string]any{"sender": hush, "text": hush, "unknown": hush})
		status("POST", "/v1/chats/team/messages", map[string]any{"sender": hush, "text": []string{hush}})
		status("GET", "/v1/users/"+hush+"/chats?cursor="+hush, nil)
		status("GET", "/v1/event-types?limit="+hush+"&unknown="+hush, nil)
		status("GET", "/v1/event-types", nil, "Authorization", "Bearer "+key[:len(key)-1]+"~")
		status("GET", "/"+hush, nil, "Traceparent", hush, "If-Match", hush)
	}
	apns.Script(deviceToken(1), apnstest.Fail(400, "BadDeviceToken"), apnstest.Fail(500, "InternalServerError"), apnstest.OK())
	tour()
	tour()
	redis.Kill()
	tour()
	redis.Restart()
	storetest.Eventually(t, time.Minute, "it works again", func() bool { return status("GET", "/readyz", nil) == 200 })
	tour()
	p.terminate()
	for line := range strings.Lines(p.stderr.String()) {
		if strings.Contains(line, hush) {
			t.Errorf("the log shows what a user wrote: %s", line)
		}
	}
}
