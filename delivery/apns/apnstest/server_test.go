package apnstest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v4"
	"golang.org/x/net/http2"
)

const token = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// client is a plain HTTP/2 client of a stand-in.
type client struct {
	t      testing.TB
	s      *Server
	http   *http.Client
	bearer string
}

func setup(t *testing.T, o Options) (*Server, *client) {
	t.Helper()
	s := Start(t, o)
	return s, mustClient(t, s)
}

func mustClient(t testing.TB, s *Server) *client {
	t.Helper()
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	tr := &http2.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(tr.CloseIdleConnections)
	c := &client{t: t, s: s, http: &http.Client{Transport: tr, Timeout: 10 * time.Second}}
	c.bearer = c.mustToken(s.KeyFile(), s.KeyID(), s.TeamID(), time.Now())
	return c
}

func (c *client) mustToken(file, kid, team string, at time.Time) string {
	c.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := parseKey(raw)
	if err != nil {
		c.t.Fatal(err)
	}
	tok := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": team, "iat": at.Unix()})
	tok.Header["kid"] = kid
	s, err := tok.SignedString(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// good is a request that nothing is wrong with.
func (c *client) good() *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		c.s.URL()+"/3/device/"+token, strings.NewReader(`{"aps":{"alert":"hi"}}`))
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"authorization": "bearer " + c.bearer, "apns-topic": DefaultTopic, "apns-push-type": "alert",
		"apns-id": "11111111-2222-5333-8444-555555555555", "apns-priority": "10", "apns-expiration": "0",
	} {
		r.Header.Set(k, v)
	}
	return r
}

// send returns status and body of the answer.
func (c *client) send(r *http.Request) (int, string, error) {
	res, err := c.http.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

func TestServerRecordsRequest(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{TrackIDs: true})
	if status, body, err := c.send(c.good()); status != 200 || body != "" || err != nil {
		t.Fatalf("got %d %q %v", status, body, err)
	}
	s.MustWait(t, 1, time.Second)
	r := s.Of(token)[0]
	if r.Topic != DefaultTopic || r.PushType != "alert" || r.Priority != "10" || r.Expiration != "0" ||
		r.ID != "11111111-2222-5333-8444-555555555555" || string(r.Payload) != `{"aps":{"alert":"hi"}}` ||
		r.Bearer != c.bearer || r.Status != 200 || !r.Taken || r.Connection != 1 {
		t.Fatalf("got %+v", r)
	}
	if n, again := s.IDs(); n != 1 || again != 0 {
		t.Fatalf("got %d ids, %d again", n, again)
	}
}

func TestServerChecksHeaders(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{Topics: []string{DefaultTopic, DefaultTopic + ".voip"}})
	set := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	payload := func(n int) func(*http.Request) {
		return func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, n))), int64(n)
		}
	}
	path := func(p string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = p } }
	rows := []struct {
		name   string
		change func(*http.Request)
		status int
		reason string
	}{
		{"get", func(r *http.Request) { r.Method = http.MethodGet }, 405, "MethodNotAllowed"},
		{"path", path("/3/devices/" + token), 404, "BadPath"},
		{"no token", path("/3/device/"), 400, "MissingDeviceToken"},
		{"token", path("/3/device/xyz"), 400, "BadDeviceToken"},
		{"upper-case id", set("apns-id", "11111111-2222-5333-8444-55555555555A"), 400, "BadMessageId"},
		{"no topic", func(r *http.Request) { r.Header.Del("apns-topic") }, 400, "MissingTopic"},
		{"other topic", set("apns-topic", "com.example.other"), 400, "TopicDisallowed"},
		{"push type", set("apns-push-type", "shout"), 400, "InvalidPushType"},
		{"expiration", set("apns-expiration", "soon"), 400, "BadExpirationDate"},
		{"priority", set("apns-priority", "7"), 400, "BadPriority"},
		{"background 10", set("apns-push-type", "background"), 400, "BadPriority"},
		{"collapse id", set("apns-collapse-id", strings.Repeat("x", 65)), 400, "BadCollapseId"},
		{"twice", func(r *http.Request) { r.Header.Add("apns-topic", "b") }, 400, "DuplicateHeaders"},
		{"empty", payload(0), 400, "PayloadEmpty"},
		{"4097 bytes", payload(4097), 413, "PayloadTooLarge"},
		{"4096 bytes", payload(4096), 200, ""},
		{"voip to the app", set("apns-push-type", "voip"), 400, "InvalidPushType"},
		{"voip 5120", func(r *http.Request) {
			payload(5120)(r)
			r.Header.Set("apns-push-type", "voip")
			r.Header.Set("apns-topic", DefaultTopic+".voip")
		}, 200, ""},
		{"no bearer", func(r *http.Request) { r.Header.Del("authorization") }, 403, "MissingProviderToken"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := c.good()
			row.change(r)
			status, body, err := c.send(r)
			if err != nil || status != row.status || (row.reason != "" && body != `{"reason":"`+row.reason+`"}`) {
				t.Fatalf("got %d %s %v, want %d %s", status, body, err, row.status, row.reason)
			}
		})
	}
	if s.Status(200) != 2 || s.Reason("BadPriority") != 2 {
		t.Fatalf("the ledger counts %d times 200, %d times BadPriority", s.Status(200), s.Reason("BadPriority"))
	}
}

func TestServerChecksProviderToken(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{TokenUpdates: time.Hour})
	now := time.Now()
	for _, row := range []struct{ name, bearer, want string }{
		{"no jwt", "abc", "InvalidProviderToken"},
		{"other key", c.mustToken(s.OtherKeyFile(), s.KeyID(), s.TeamID(), now), "InvalidProviderToken"},
		{"other kid", c.mustToken(s.KeyFile(), "KID", s.TeamID(), now), "InvalidProviderToken"},
		{"other team", c.mustToken(s.KeyFile(), s.KeyID(), "TEAM", now), "InvalidProviderToken"},
		{"an hour old", c.mustToken(s.KeyFile(), s.KeyID(), s.TeamID(), now.Add(-61*time.Minute)), "ExpiredProviderToken"},
		{"of the future", c.mustToken(s.KeyFile(), s.KeyID(), s.TeamID(), now.Add(time.Hour)), "ExpiredProviderToken"},
		{"good", c.bearer, ""},
		{"another at once", c.mustToken(s.KeyFile(), s.KeyID(), s.TeamID(), now.Add(-time.Minute)), "TooManyProviderTokenUpdates"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := c.good()
			r.Header.Set("authorization", "bearer "+row.bearer)
			_, body, err := c.send(r)
			if err != nil || (row.want == "") != (body == "") || !strings.Contains(body, row.want) {
				t.Fatalf("got %s %v, want %s", body, err, row.want)
			}
		})
	}
}

func TestServerScripts(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{})
	at := time.UnixMilli(1_700_000_000_123)
	s.ScriptAll(Fail(503, "Shutdown"))
	s.ScriptTopic(DefaultTopic, Answer{Status: 502, Body: []byte("<html>"), RetryAfter: "7"})
	s.Script(token, Fail(400, "BadDeviceToken"), Gone("Unregistered", at), OK())
	for i, want := range []string{
		`400 {"reason":"BadDeviceToken"}`, `410 {"reason":"Unregistered","timestamp":1700000000123}`, "200 ", "200 ",
	} {
		if status, body, err := c.send(c.good()); fmt.Sprintf("%d %s", status, body) != want || err != nil {
			t.Fatalf("answer %d is %d %s %v, want %s", i, status, body, err, want)
		}
	}
	s.Script(token)
	if status, body, _ := c.send(c.good()); status != 502 || body != "<html>" {
		t.Fatalf("the topic's answer is %d %s", status, body)
	}
	s.ScriptTopic(DefaultTopic)
	if status, _, _ := c.send(c.good()); status != 503 {
		t.Fatalf("the answer for all is %d", status)
	}
	s.ScriptFunc(func(*Request) (Answer, bool) { return After(time.Millisecond), true })
	if status, _, _ := c.send(c.good()); status != 200 {
		t.Fatalf("the function's answer is %d", status)
	}
}

// The faults are checked through a client that retries what HTTP/2 says was
// not processed, and nothing else.
func TestServerFaults(t *testing.T) {
	t.Parallel()
	rows := []struct {
		fault      Fault
		fails      bool
		taken, all int
	}{
		{Refuse, false, 1, 2}, {Reset, true, 1, 1}, {GoAwayBefore, false, 1, 2}, {GoAwayAfter, false, 1, 1},
		{GoAwayDrop, true, 1, 1}, {Drop, true, 1, 1}, {DropUntaken, true, 0, 1},
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row.fault), func(t *testing.T) {
			t.Parallel()
			s, c := setup(t, Options{})
			s.Script(token, Failing(row.fault), OK())
			if _, _, err := c.send(c.good()); (err != nil) != row.fails {
				t.Fatalf("got %v", err)
			}
			if s.Taken() != row.taken || s.Total() != row.all {
				t.Fatalf("%d of %d were taken, want %d of %d", s.Taken(), s.Total(), row.taken, row.all)
			}
		})
	}
}

func TestServerGoAwayAnswersWhatCame(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{StartStreams: 100})
	s.ScriptAll(After(50 * time.Millisecond))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if status, _, err := c.send(c.good()); status != 200 || err != nil {
				t.Errorf("got %d %v", status, err)
			}
		})
	}
	if err := s.WaitTotal(5, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	s.GoAway()
	wg.Wait()
	if s.Taken() != 20 {
		t.Fatalf("%d taken", s.Taken())
	}
}

func TestServerStreamsStartAtOne(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{MaxStreams: 50})
	if _, _, err := c.send(c.good()); err != nil {
		t.Fatal(err)
	}
	s.ScriptAll(After(20 * time.Millisecond))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { _, _, _ = c.send(c.good()) })
	}
	wg.Wait()
	if s.PeakStreams() < 10 || s.PeakStreams() > 50 || len(s.Violations()) > 0 {
		t.Fatalf("peak %d, violations %v", s.PeakStreams(), s.Violations())
	}
}

func TestServerBlackHole(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{})
	c.http.Timeout = 200 * time.Millisecond
	if _, _, err := c.send(c.good()); err != nil {
		t.Fatal(err)
	}
	s.BlackHole()
	if _, _, err := c.send(c.good()); err == nil {
		t.Fatal("a black hole answered")
	}
	s.KillConnections()
	c.http.Timeout = 5 * time.Second
	if status, _, err := mustClient(t, s).send(c.good()); status != 200 {
		t.Fatalf("a new connection got %d %v", status, err)
	}
}

func TestServerFilesAreReused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	_, first := setup(t, Options{Dir: dir, CountsOnly: true})
	second, _ := setup(t, Options{Dir: dir})
	r := first.good()
	r.URL.Host = second.Addr()
	if status, body, err := first.send(r); status != 200 {
		t.Fatalf("got %d %s %v", status, body, err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(second.KeyFile()); err != nil {
		t.Fatalf("a directory that was given is gone: %v", err)
	}
}

func TestServerLatency(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{})
	const n, least, most = 50, 30 * time.Millisecond, 90 * time.Millisecond
	s.SetLatency(60*time.Millisecond, 30*time.Millisecond)
	if status, _, err := c.send(c.good()); status != http.StatusOK || err != nil {
		t.Fatalf("got %d %v", status, err)
	}
	var all sync.WaitGroup
	for range n {
		all.Go(func() { _, _, _ = c.send(c.good()) })
	}
	if err := s.WaitTotal(1+n, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if got := s.Answered(); got != 1+n {
		t.Errorf("%d answers left, not %d", got, 1+n)
	}
	shortest, longest := time.Hour, time.Duration(0)
	for _, r := range s.Requests() {
		took := r.Answered.Sub(r.At)
		shortest, longest = min(shortest, took), max(longest, took)
	}
	// A busy machine may be late, never early.
	if shortest < least || shortest > most || longest-shortest < 10*time.Millisecond {
		t.Errorf("answers took %v to %v, not %v to %v at random", shortest, longest, least, most)
	}
	s.Reset()
	s.SetLatency(0, 0)
	if _, _, err := c.send(c.good()); err != nil || s.Answered() != 1 {
		t.Errorf("%d answers left after a reset, not 1 (%v)", s.Answered(), err)
	}
}
