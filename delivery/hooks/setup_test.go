package hooks

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
	"fanfare/store/webhooks"
)

const soon = 30 * time.Second

// memory is a feed in memory. A position is the number of facts before it.
type memory struct {
	mu    sync.Mutex
	lanes []memoryLane
	told  map[chan struct{}]bool
	reads int // calls of ReadLane
	looks int // calls of End
}

type memoryLane struct {
	facts   []api.Fact
	trimmed int // facts that are kept no longer
}

func newMemory(lanes int) *memory {
	return &memory{lanes: make([]memoryLane, lanes), told: map[chan struct{}]bool{}}
}

// add appends facts of a type to a lane.
func (m *memory) add(lane int, typ, key string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &m.lanes[lane]
	for range n {
		i := len(l.facts)
		l.facts = append(l.facts, api.Fact{ID: fmt.Sprintf("%d-%d-0", lane, i), Type: typ, Key: key, At: api.At(time.Now()), Data: json.RawMessage(`{"n":` + strconv.Itoa(i) + `}`)})
	}
	for told := range m.told {
		select {
		case told <- struct{}{}:
		default:
		}
	}
}

func (m *memory) trim(lane, facts int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lanes[lane].trimmed = facts
}

func (m *memory) Lanes() int { return len(m.lanes) }

func (m *memory) ReadLane(_ context.Context, lane int, after string, types func(string) bool, most, bytes int) (facts []api.Fact, next string, gap int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	l := &m.lanes[lane]
	at := 0
	if after != "" {
		if at, err = strconv.Atoi(after); err != nil {
			return nil, "", 0, err
		}
		gap = int64(max(l.trimmed-at, 0))
	}
	at = max(at, l.trimmed)
	size := 0
	for ; at < len(l.facts) && len(facts) < most; at++ {
		f := l.facts[at]
		if !types(f.Type) {
			continue
		}
		if size += len(f.Data); size > bytes && len(facts) > 0 {
			break
		}
		facts = append(facts, f)
	}
	return facts, strconv.Itoa(at), gap, nil
}

func (*memory) Oldest(context.Context, []string, func(string) bool) (time.Time, bool, error) {
	return time.Time{}, true, nil
}

func (*memory) Between(from, to string) int64 {
	a, _ := strconv.ParseInt(from, 10, 64)
	b, _ := strconv.ParseInt(to, 10, 64)
	return b - a
}

func (m *memory) Join(context.Context) (<-chan struct{}, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := make(chan struct{}, 1)
	m.told[told] = true
	return told, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.told, told)
	}
}

// listeners is how many hear of new facts.
func (m *memory) listeners() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.told)
}

func (m *memory) PositionOf(lanes []string) (string, error) { return strings.Join(lanes, ","), nil }

func (m *memory) LanesOf(_ context.Context, position string) ([]string, error) {
	return strings.Split(position, ","), nil
}

func (m *memory) Ends(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]string, len(m.lanes))
	for i := range m.lanes {
		out[i] = strconv.Itoa(len(m.lanes[i].facts))
	}
	return out, nil
}

// request is one that a receiver got.
type request struct {
	at     time.Time
	id     string
	header http.Header
	raw    []byte
	hang   <-chan struct{} // closed at the end of the test
	body
}

func (r *request) ids() (all []string) {
	for _, f := range r.Facts {
		all = append(all, f.ID)
	}
	return all
}

// receiver gets facts over HTTPS. answer, when set, writes the answer to the request number n, counted from 0; else it
// is 204.
type receiver struct {
	*httptest.Server
	t        testing.TB
	mu       sync.Mutex
	secrets  []string
	requests []request
	answer   func(w http.ResponseWriter, n int, r *request)
	hang     chan struct{}
}

func newReceiver(t testing.TB, answer func(w http.ResponseWriter, n int, r *request)) *receiver {
	t.Helper()
	s := &receiver{t: t, answer: answer, hang: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() { close(s.hang); s.Close() })
	return s
}

func (s *receiver) serve(w http.ResponseWriter, hr *http.Request) {
	raw, err := io.ReadAll(hr.Body)
	if err != nil {
		return
	}
	r := request{at: time.Now(), id: hr.Header.Get("webhook-id"), header: hr.Header, raw: raw, hang: s.hang}
	if err := json.Unmarshal(raw, &r.body); err != nil {
		s.t.Errorf("%s: %v", raw, err)
	}
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, r)
	secrets := s.secrets
	s.mu.Unlock()
	for _, secret := range secrets {
		v, err := standardwebhooks.NewWebhook(secret)
		storetest.Must(s.t, err)
		if err := v.Verify(raw, hr.Header); err != nil {
			s.t.Errorf("the signature of %s: %v", r.id, err)
		}
	}
	if s.answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.answer(w, n, &r)
}

func (s *receiver) expect(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = secrets
}

func (s *receiver) got() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// status is an answer with the same status each time.
func status(code int) func(http.ResponseWriter, int, *request) {
	return func(w http.ResponseWriter, _ int, _ *request) { w.WriteHeader(code) }
}

// facts are the ids of all facts that the receiver got, in order.
func (s *receiver) facts() (all []string) {
	for _, r := range s.got() {
		all = append(all, r.ids()...)
	}
	return all
}

// roots are the certificates with which a receiver is trusted.
func (s *receiver) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}

// world is a Redis and a database with any number of processes.
type world struct {
	t     testing.TB
	redis *redisdb.DB
	url   string
	feed  *memory
	told  webhooks.Feed // the feed that webhooks read; feed, unless a test sets another one
	*webhooks.Store
	mu     sync.Mutex
	buried []string
}

func setup(t testing.TB, lanes int) *world {
	t.Helper()
	return setupSQL(t, lanes, storetest.SQLite(t))
}

// setupSQL is setup with a database.
func setupSQL(t testing.TB, lanes int, url string) *world {
	t.Helper()
	w := &world{t: t, redis: storetest.Open(t, "embedded"), url: url, feed: newMemory(lanes)}
	w.told = w.feed
	w.Store = w.store()
	return w
}

// store is the webhooks of one more process.
func (w *world) store() *webhooks.Store {
	w.t.Helper()
	return w.storeOn(w.url, 0)
}

// storeOn is the same with a way to the database of its own, and a time after which webhooks that cannot be read are forgotten; 0: the
// default.
func (w *world) storeOn(url string, outdated time.Duration) *webhooks.Store {
	w.t.Helper()
	return webhooks.New(webhooks.Options{
		Record: storetest.Record(w.t, url), DB: w.redis, Feed: w.told, Plain: true, Outdated: outdated,
		Beside: func(lane int, name string) string { return fmt.Sprintf("ff:{test:%d}:%s", lane, name) },
	})
}

// poster trusts a receiver, which is on this machine.
func poster(s *receiver) *Poster {
	return NewPoster(PosterOptions{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, roots: s.roots(), timeout: 2 * time.Second})
}

// sender is one of another process.
func (w *world) sender(store *webhooks.Store, p *Poster) *Sender {
	return New(Options{
		Feed: w.told, Webhooks: store, Locks: lock.New(w.redis, lock.Options{Name: "webhooks", Lease: 500 * time.Millisecond, MaxAttempts: 1 << 30}), Poster: p,
		Bury: func(_ context.Context, _ *record.Webhook, f api.Fact, _ int) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.buried = append(w.buried, f.ID)
			return nil
		},
	})
}

// mustPut puts a webhook for the type "a", and returns it with its secret.
func (w *world) mustPut(id, url string, most int64) (*record.Webhook, string) {
	w.t.Helper()
	_, secret, err := w.Put(w.t.Context(), id, &api.WebhookRequest{URL: url, Types: []string{"a"}, Max: &most}, api.Match{})
	storetest.Must(w.t, err)
	all, err := w.Get(w.t.Context(), id)
	storetest.Must(w.t, err)
	return all, secret
}

// mustLane is a reader of lane 0 of a new webhook whose waits are noted and take no time.
func (w *world) mustLane(s *receiver, most int64) (*lane, *[]time.Duration) {
	w.t.Helper()
	all, secret := w.mustPut("shop", s.URL, most)
	s.expect(secret)
	l := newLane(w.sender(w.Store, poster(s)), all, 0)
	w.t.Cleanup(l.s.o.Poster.Close)
	waits := &[]time.Duration{}
	l.sleep = func(_ context.Context, d time.Duration) { *waits = append(*waits, d) }
	told := make(chan struct{})
	close(told) // a test waits for nothing
	l.told = told
	return l, waits
}

// mustTurn makes a turn.
func (w *world) mustTurn(l *lane) time.Duration {
	w.t.Helper()
	wait, err := l.turn(w.t.Context())
	storetest.Must(w.t, err)
	return wait
}

// mustProgress reads how far a webhook has come in a lane.
func (w *world) mustProgress(l *lane) webhooks.Progress {
	w.t.Helper()
	all, err := w.Progress(w.t.Context(), l.w.Series, l.n)
	storetest.Must(w.t, err)
	return all[0]
}

func (m *memory) End(_ context.Context, lane int) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	return strconv.Itoa(len(m.lanes[lane].facts)), nil
}

// calls are how often lanes were read and their ends were looked at.
func (m *memory) calls() (reads, looks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads, m.looks
}
