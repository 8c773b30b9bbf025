package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// front is a proxy in front of a server, set up as docs/proxies.md says.
type front struct {
	t       testing.TB
	dir     string // with cert.pem and key.pem for any name
	server  string // host:port of fanfare
	listens string // host:port of the proxy
}

// proxyName is the host name in docs/proxies.md.
const proxyName = "fanfare.example.com"

// mustConfiguration takes the blocks of a language from docs/proxies.md, with the places of this test
// instead of the document's. Each text that is replaced must be there.
func (f *front) mustConfiguration(language string, replaced ...string) (blocks []string) {
	f.t.Helper()
	text := storetest.RepositoryFile(f.t, "docs/proxies.md")
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, block[1])
	}
	if len(blocks) == 0 {
		f.t.Fatalf("docs/proxies.md has nothing for %s", language)
	}
	for i := 0; i < len(replaced); i += 2 {
		if n := strings.Count(strings.Join(blocks, ""), replaced[i]); n == 0 {
			f.t.Errorf("the %s of docs/proxies.md lacks %q", language, replaced[i])
		}
		for j := range blocks {
			blocks[j] = strings.ReplaceAll(blocks[j], replaced[i], replaced[i+1])
		}
	}
	return blocks
}

// mustRun starts the proxy and kills it at the end of the test. Its program may be where only root
// looks for it.
func (f *front) mustRun(name string, args ...string) {
	f.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			f.t.Fatalf("%s is not installed (apt-get install %s); make test installs it", name, name)
		}
	}
	p := &program{t: f.t, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Env = environment([]string{"XDG_DATA_HOME=" + f.dir, "XDG_CONFIG_HOME=" + f.dir})
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	storetest.Must(f.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	f.t.Cleanup(p.cleanup)
}

func (f *front) nginx() {
	f.t.Helper()
	blocks := f.mustConfiguration("nginx",
		"127.0.0.1:8080", f.server, "listen 443", "listen "+f.listens,
		"/etc/ssl/fanfare.pem", f.dir+"/cert.pem", "/etc/ssl/fanfare.key", f.dir+"/key.pem",
		"/var/log/nginx/fanfare.log", f.dir+"/access.log", "50000", "200")
	if len(blocks) != 2 {
		f.t.Fatalf("%d blocks for nginx", len(blocks))
	}
	whole := "daemon off;\nmaster_process off;\npid " + f.dir + "/pid;\n" + blocks[1] + "http {\n"
	for _, temporary := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		whole += fmt.Sprintf("%s_temp_path %s/%s;\n", temporary, f.dir, temporary)
	}
	file := filepath.Join(f.dir, "nginx.conf")
	storetest.Must(f.t, os.WriteFile(file, []byte(whole+blocks[0]+"}\n"), 0o600))
	f.mustRun("nginx", "-p", f.dir, "-e", "stderr", "-c", file)
}

func (f *front) caddy() {
	f.t.Helper()
	_, port, _ := net.SplitHostPort(f.listens)
	site := f.mustConfiguration("caddy", "127.0.0.1:8080", f.server,
		proxyName+" {", fmt.Sprintf("https://%s:%s {\n    bind 127.0.0.1\n    tls %s/cert.pem %[3]s/key.pem", proxyName, port, f.dir))
	file := filepath.Join(f.dir, "Caddyfile")
	storetest.Must(f.t, os.WriteFile(file, []byte("{\n    admin off\n    auto_https off\n}\n"+strings.Join(site, "")), 0o600))
	f.mustRun("caddy", "run", "--adapter", "caddyfile", "--config", file)
}

// client calls the proxy under its name, from another address than the proxy's own.
func (f *front) client() *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, f.listens)
		},
	}}
}

// The proxies of docs/proxies.md pass on what they should, at once, and nothing else. fanfare knows the
// caller's address, whatever the caller claims.
func TestProxies(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*front){"nginx": (*front).nginx, "caddy": (*front).caddy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{T: t}
			s.serve("FANFARE_TRUSTED_PROXIES=127.0.0.1/32")
			f := &front{t: t, dir: t.TempDir(), server: strings.TrimPrefix(s.server.base, "http://"), listens: fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))}
			mustCertificate(t, f.dir, 1)
			start(f)
			through := &program{t: t, base: "https://" + proxyName, key: runbookKey, http: f.client()}
			storetest.Eventually(t, 30*time.Second, name+" answers", func() bool {
				status, _, err := through.try("GET", "/v1/stats", nil)
				return err == nil && status == 200
			})
			through.checkPassed()
			through.checkStream()
			s.checkCaller(through)
			text, _ := os.ReadFile(f.dir + "/access.log")
			if strings.Contains(string(text), "ticket=") || name == "nginx" && !strings.Contains(string(text), "/v1/stats 200") {
				t.Errorf("the proxy's log:\n%s", text)
			}
		})
	}
}

// checkPassed requires that the proxy hides what is not for the public, and passes on what is large.
func (p *program) checkPassed() {
	p.t.Helper()
	for _, path := range []string{"/metrics", "/readyz", "/healthz", "/docs/", "/openapi.json", "/"} {
		if status, answer, err := p.try("GET", path, nil); err != nil || status != 404 {
			p.t.Errorf("%s: %d %s %v", path, status, answer, err)
		}
	}
	// fanfare itself refuses a body that is a little too large.
	body := map[string]any{"events": []any{map[string]any{"type": strings.Repeat("x", 4<<20)}}}
	if status, answer, err := p.try("POST", "/v1/events/batch", body); err != nil || status != 413 || !strings.Contains(string(answer), `"max_bytes":4194304`) {
		p.t.Errorf("a large body: %d %.200s %v", status, answer, err)
	}
	token := "Bearer a.b." + strings.Repeat("c", 8000)
	if status, answer, err := p.try("GET", "/v1/users/bob/chats", nil, "Authorization", token); err != nil || status != 401 || !strings.Contains(string(answer), `"code":"unauthorized"`) {
		p.t.Errorf("a long token: %d %.200s %v", status, answer, err)
	}
}

// checkStream follows a chat through the proxy, over HTTP/2. A long poll that finds nothing ends in
// time.
func (p *program) checkStream() {
	p.t.Helper()
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "team", "creator": "alice", "members": []string{"bob"}})
	f := p.mustFollowBy(&http.Client{Transport: p.http.Transport}, "bob", "")
	for _, text := range []string{"one", "two"} {
		p.must(201, nil, "POST", "/v1/chats/team/messages", map[string]string{"sender": "alice", "text": text})
		if got := f.texts(1); !strings.Contains(got, text) {
			p.t.Errorf("the stream has %q, not %q", got, text)
		}
	}
	p.must(200, nil, "GET", "/v1/users/nobody/messages/pending?wait_ms=1500", nil)
	var token struct{ Token string }
	p.must(201, &token, "POST", "/v1/users/bob/tokens", map[string]any{"scopes": []string{"chat"}})
	var ticket struct{ Ticket string }
	p.must(201, &ticket, "POST", "/v1/users/bob/tickets", nil, "Authorization", "Bearer "+token.Token)
	req, err := http.NewRequestWithContext(p.t.Context(), "GET", p.base+"/v1/users/bob/messages/pending?ticket="+ticket.Ticket, nil)
	storetest.Must(p.t, err)
	resp, err := p.http.Do(req)
	storetest.Must(p.t, err)
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 || resp.Proto != "HTTP/2.0" {
		p.t.Errorf("with a ticket: %s %s %v", resp.Proto, resp.Status, err)
	}
}

// checkCaller requires that the server's log has the address from which the caller called the proxy.
func (s *scene) checkCaller(through *program) {
	s.Helper()
	status, _, err := through.try("GET", "/v1/event-types/nowhere", nil, "X-Forwarded-For", "192.0.2.9", "X-Request-Id", "refused")
	if err != nil || status != 404 {
		s.Errorf("an event type that is not there: %d %v", status, err)
	}
	storetest.Eventually(s, 20*time.Second, "the line of the request", func() bool { return strings.Contains(s.server.stderr.String(), `"request_id":"refused"`) })
	for line := range strings.Lines(s.server.stderr.String()) {
		if strings.Contains(line, `"request_id":"refused"`) && !strings.Contains(line, `"client":"127.0.0.2"`) {
			s.Errorf("the caller is not known: %s", line)
		}
	}
}
