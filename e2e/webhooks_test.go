package e2e

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"fanfare/api"
	"fanfare/store/storetest"
)

// hookReceiver gets facts over HTTPS. Some of its answers are late, some are errors, and some connections are reset
// although it has the facts.
type hookReceiver struct {
	*httptest.Server
	t      testing.TB
	mu     sync.Mutex
	secret string
	order  map[string][]string // ids of facts by lane, each once
	seen   map[string]bool
	calls  int
	answer func(n int, w http.ResponseWriter)
}

// newHookReceiver makes a receiver that is still to be started.
func newHookReceiver(t testing.TB, answer func(n int, w http.ResponseWriter)) *hookReceiver {
	r := &hookReceiver{t: t, order: map[string][]string{}, seen: map[string]bool{}, answer: answer}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(r.Close)
	return r
}

// mustReceive starts a receiver. vars let a server connect to it.
func mustReceive(t testing.TB, answer func(n int, w http.ResponseWriter)) (r *hookReceiver, vars []string) {
	t.Helper()
	r = newHookReceiver(t, answer)
	r.StartTLS()
	file := filepath.Join(t.TempDir(), "roots.pem")
	storetest.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}), 0o600))
	return r, []string{"SSL_CERT_FILE=" + file, "FANFARE_WEBHOOK_NETS=127.0.0.0/8"}
}

func (r *hookReceiver) serve(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	if err != nil {
		return // the process was killed
	}
	r.mu.Lock()
	n, secret := r.calls, r.secret
	r.calls++
	r.mu.Unlock()
	v, err := standardwebhooks.NewWebhook(secret)
	if err == nil {
		err = v.Verify(body, hr.Header)
	}
	var batch struct {
		Gap   int64
		Facts []api.Fact
	}
	if wrong := json.Unmarshal(body, &batch); err != nil || wrong != nil || batch.Gap != 0 {
		r.t.Errorf("%v %v %s", err, wrong, body)
	}
	r.mu.Lock()
	for _, f := range batch.Facts {
		if !r.seen[f.ID] {
			r.seen[f.ID] = true
			r.order[f.Key] = append(r.order[f.Key], f.ID)
		}
	}
	r.mu.Unlock()
	r.answer(n, w)
}

func (r *hookReceiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// rough answers late, with errors and with resets.
func rough(_ int, w http.ResponseWriter) {
	switch kind := rand.IntN(20); kind {
	case 0:
		w.WriteHeader(http.StatusInternalServerError)
	case 1:
		panic(http.ErrAbortHandler)
	case 2:
		w.Header().Set("Location", "https://127.0.0.1:1/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case 3, 4, 5:
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) //nolint:forbidigo // the receiver is late
	}
}

// H4, H5: two processes are killed at random while a receiver answers late, with errors and with resets. It gets each fact, those of
// a key in order, and they are those of the feed.
func TestH4_KillsLoseNoFactOfAWebhook(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(10_000, 1500)
	r, trust := mustReceive(t, rough)
	vars := quick(append(trust, "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	servers := mustServeMany(t, 2, vars...)
	var made api.PutWebhook
	servers[0].must(201, &made, "PUT", "/v1/webhooks/shop", map[string]any{"url": r.URL + "/hook", "types": []string{api.FactEventDone}, "max": 20})
	r.mu.Lock()
	r.secret = made.Secret
	r.mu.Unlock()
	storetest.Eventually(t, time.Minute, "no fact is missing", func() bool { return time.Now().After(made.Since.Time) })

	const batch, most = 50, 6
	kills := 0
	for i := 0; i < n; i += batch {
		events := make([]map[string]any, batch)
		for k := range events {
			events[k] = map[string]any{"type": "t", "audience": map[string]any{"users": []string{"nobody"}}, "alert": map[string]any{"title": "x"}}
		}
		storetest.Eventually(t, time.Minute, "events are accepted", func() bool {
			status, _, err := servers[rand.IntN(2)].try(http.MethodPost, "/v1/events/batch", map[string]any{"events": events}, "Idempotency-Key", fmt.Sprint("batch-", i))
			return err == nil && status == http.StatusAccepted
		})
		if kills < most && i >= n*(kills+1)/(most+1) {
			victim := rand.IntN(2)
			servers[victim].kill()
			servers[victim] = mustServeMany(t, 1, vars...)[0]
			kills++
		}
	}
	storetest.Eventually(t, 4*time.Minute, "all facts", func() bool { return r.count() >= n })
	f := newTold()
	storetest.Eventually(t, time.Minute, "the feed has all facts", func() bool { return f.read(t, servers[0], 0) == 0 && len(f.ids) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) != len(f.ids) || len(f.ids) != n || f.gap != 0 {
		t.Errorf("%d facts came, the feed has %d of %d events, and a gap of %d", len(r.seen), len(f.ids), n, f.gap)
	}
	for key, facts := range f.facts {
		for i, one := range facts {
			if i >= len(r.order[key]) || r.order[key][i] != one.ID {
				t.Errorf("of %s came %v", key, r.order[key])
				break
			}
		}
	}
	t.Logf("%d events, %d kills, %d requests", n, kills, r.calls)
}

// mustHook puts a webhook for ended events, and waits until none is missing.
func (p *program) mustHook(id, to string, r *hookReceiver) {
	p.t.Helper()
	var made api.PutWebhook
	p.must(201, &made, http.MethodPut, "/v1/webhooks/"+id, map[string]any{"url": to, "types": []string{api.FactEventDone}})
	if r != nil {
		r.mu.Lock()
		r.secret = made.Secret
		r.mu.Unlock()
	}
	storetest.Eventually(p.t, time.Minute, "no fact is missing", func() bool { return time.Now().After(made.Since.Time) })
}

// mustEndEvent posts an event for nobody, which ends at once and is a fact.
func (p *program) mustEndEvent() {
	p.t.Helper()
	p.must(202, nil, http.MethodPost, "/v1/events", map[string]any{"type": "t", "audience": map[string]any{"users": []string{"nobody"}}, "alert": map[string]any{"title": "x"}})
}

// H4, H5, H8: while one receiver hangs, another one gets its facts. A webhook to the server itself is not connected to, at
// neither of its addresses.
func TestH4_OneReceiverAway(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	away, trust := mustReceive(t, func(int, http.ResponseWriter) { <-hang })
	t.Cleanup(func() { close(hang) })
	r, _ := mustReceive(t, func(int, http.ResponseWriter) {})
	private := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))
	p := mustServeMany(t, 1, append(trust, "FANFARE_METRICS_ADDR="+private)...)[0]
	p.mustHook("away", away.URL, away)
	p.mustHook("self", p.base+"/v1/events", nil)
	p.must(201, nil, http.MethodPut, "/v1/webhooks/private", map[string]any{"url": "http://" + private + "/metrics", "types": []string{api.FactEventDone}})
	p.mustHook("shop", r.URL, r)
	for i := range 20 {
		p.mustEndEvent()
		storetest.Eventually(t, 20*time.Second, "the fact", func() bool { return r.count() == i+1 })
	}
	for _, id := range []string{"self", "private"} {
		var answer api.WebhookAnswer
		p.must(200, &answer, http.MethodPost, "/v1/webhooks/"+id+"/test", nil)
		if answer.Status != 0 || !strings.HasSuffix(answer.Error, "is an address of fanfare itself: it does not connect to it") {
			t.Errorf("to itself, %s: %+v", id, answer)
		}
	}
	var answer api.WebhookAnswer
	if p.must(200, &answer, http.MethodPost, "/v1/webhooks/shop/test", nil); answer.Status != 200 {
		t.Errorf("to the shop: %+v", answer)
	}
	var status api.WebhookStatus
	storetest.Eventually(t, time.Minute, "the webhook to the server itself fails", func() bool {
		p.must(200, &status, http.MethodGet, "/v1/webhooks/self", nil)
		return status.FailingSince != nil && status.LagMS > 0 && strings.Contains(status.LastAnswer.Error, "itself")
	})
	if p.must(200, &status, http.MethodGet, "/v1/webhooks/shop", nil); status.LagMS != 0 || status.FailingSince != nil && status.LastAnswer.Status != 200 {
		t.Errorf("the shop: %+v", status)
	}
	if out := p.stdout.String() + p.stderr.String(); strings.Contains(out, r.secret) || strings.Contains(out, away.URL) {
		t.Error("the log has a secret or a URL")
	}
}

// H7: webhooks know no proxy, whichever the environment names. For 127.0.0.1 Go asks no proxy of the environment, and for 0.0.0.0,
// which leads to the same machine, it does.
func TestH7_NoProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	proxy := httptest.NewUnstartedServer(http.NotFoundHandler())
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0)
	proxy.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			asked.Add(1)
		}
	}
	proxy.Start()
	t.Cleanup(proxy.Close)
	dir := t.TempDir()
	mustCertificate(t, dir, 1)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	storetest.Must(t, err)
	plain, secure := newHookReceiver(t, func(int, http.ResponseWriter) {}), newHookReceiver(t, func(int, http.ResponseWriter) {})
	plain.Start()
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	secure.StartTLS()
	vars := []string{"SSL_CERT_FILE=" + filepath.Join(dir, "cert.pem"), "FANFARE_WEBHOOK_NETS=0.0.0.0/32,127.0.0.0/8"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		vars = append(vars, name+"="+proxy.URL, strings.ToLower(name)+"="+proxy.URL)
	}
	p := mustServeMany(t, 1, vars...)[0]
	for id, r := range map[string]*hookReceiver{"plain": plain, "secure": secure} {
		p.mustHook(id, strings.Replace(r.URL, "127.0.0.1", "0.0.0.0", 1)+"/hook", r)
		var answer api.WebhookAnswer
		if p.must(200, &answer, http.MethodPost, "/v1/webhooks/"+id+"/test", nil); answer.Status != 200 {
			t.Errorf("%s: %+v", id, answer)
		}
	}
	p.mustEndEvent()
	for id, r := range map[string]*hookReceiver{"plain": plain, "secure": secure} {
		storetest.Eventually(t, 20*time.Second, "the fact is with "+id, func() bool { return r.count() == 2 })
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the proxy was connected to %d times", n)
	}
}

// H4: SIGTERM lets a request to a webhook end, and the next process does not send its facts again.
func TestH4_SIGTERMLetsARequestEnd(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	r, trust := mustReceive(t, func(n int, _ http.ResponseWriter) {
		if n == 0 {
			<-answer
		}
	})
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	vars := append(trust, "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.SQLite(t), "FANFARE_LOG_LEVEL=debug", "FANFARE_SHUTDOWN_TIMEOUT=40s")
	p := mustServeMany(t, 1, vars...)[0]
	p.mustHook("shop", r.URL, r)
	p.mustEndEvent()
	storetest.Eventually(t, 20*time.Second, "the request", func() bool { return r.count() == 1 })
	storetest.Must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	storetest.Eventually(t, 20*time.Second, "all has stopped that stops before webhooks", func() bool { return strings.Contains(p.stderr.String(), `"stage":"push"`) })
	release()
	if code := p.exitCode(time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = mustServeMany(t, 1, vars...)[0]
	storetest.Eventually(t, time.Minute, "the fact is taken", func() bool {
		var status api.WebhookStatus
		p.must(200, &status, http.MethodGet, "/v1/webhooks/shop", nil)
		return status.LagMS == 0
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls != 1 {
		t.Errorf("the fact was sent %d times", r.calls)
	}
}
