package handlers_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/logsender"
	"fanfare/docs/site"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/openapi"
	"fanfare/store/apikeys"
	"fanfare/store/apps"
	"fanfare/store/badges"
	"fanfare/store/broadcasts"
	"fanfare/store/chat"
	"fanfare/store/chat/live"
	"fanfare/store/contacts"
	"fanfare/store/deadletters"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/facts"
	callers "fanfare/store/jobs"
	"fanfare/store/lock"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/sales"
	"fanfare/store/schedules"
	"fanfare/store/series"
	"fanfare/store/servers"
	"fanfare/store/storetest"
	"fanfare/store/usertokens"
	"fanfare/store/values"
	"fanfare/store/webhooks"

	"github.com/prometheus/client_golang/prometheus"
)

// token is a valid device token.
const token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

// world is a server with its own stores, opened like in the program.
type world struct {
	t             testing.TB
	url           string
	handler       http.Handler
	keys          *apikeys.Store
	tokens        *usertokens.Store
	chats         *chat.Store
	live          *live.Hub
	pusher        *chat.Pusher
	closing       chan struct{}
	streams       sync.WaitGroup
	stopping      func() // the first step of a stop
	events        *events.Store
	devices       *devices.Store
	contacts      *contacts.Store
	sales         *sales.Store
	record        *record.DB
	db            *redisdb.DB
	queue         *queue.Queue
	jobs          *queue.Queue
	notifications *queue.Queue
	letters       *deadletters.Store
	facts         *facts.Store
	tells         *facts.Switch
	webhooks      *webhooks.Store
	log           *storetest.Lines
	accepted      atomic.Int64 // events that were counted as accepted
}

// setup opens a server on SQLite and the embedded Redis.
func setup(t testing.TB, change ...func(*handlers.Options)) *world {
	t.Helper()
	return setupOn(t, storetest.Open(t, "embedded"), change...)
}

// setupOn opens a server on SQLite and the given Redis.
func setupOn(t testing.TB, db *redisdb.DB, change ...func(*handlers.Options)) *world {
	t.Helper()
	return setupSQL(t, db, storetest.SQLite(t), change...)
}

// eachSQL runs a test on a Redis server and each database.
func eachSQL(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		f(t, setupSQL(t, storetest.Open(t, storetest.Redis(t).URL()), url))
	})
}

// setupSQL opens a server on that Redis and that database.
func setupSQL(t testing.TB, db *redisdb.DB, url string, change ...func(*handlers.Options)) *world {
	t.Helper()
	rec, err := record.Open(t.Context(), record.Options{URL: url})
	storetest.Must(t, err)
	t.Cleanup(func() { _ = rec.Close() })
	storetest.Must(t, rec.Migrate(t.Context()))

	w := &world{t: t, db: db, record: rec, log: &storetest.Lines{}, keys: apikeys.New(rec, apikeys.Options{}), closing: make(chan struct{})}
	w.stopping = sync.OnceFunc(func() { close(w.closing) })
	w.tokens, err = usertokens.New(rec, db, usertokens.Options{KeyEnded: w.keys.Ended})
	storetest.Must(t, err)
	storetest.Must(t, w.tokens.Load(t.Context()))
	w.queue = mustQueue(t, db, "events")
	w.notifications = mustQueue(t, db, "notifications")
	w.jobs = mustQueue(t, db, "jobs")
	w.devices = devices.New(db, rec, w.notifications, devices.Options{})
	w.contacts = contacts.New(db, rec, w.jobs, contacts.Options{})
	w.sales = sales.New(db, rec, w.jobs, sales.Options{})
	channels := broadcasts.New(broadcasts.Options{DB: db, Record: rec, Channels: logsender.New(slog.New(slog.DiscardHandler), func() bool { return false })})
	w.tells = facts.NewSwitch(rec, slog.New(slog.DiscardHandler))
	happened := events.New(events.Options{DB: db, Queue: w.queue, Notifications: w.notifications, Record: rec, Broadcast: channels.Open, Tells: w.tells.On,
		OnAccepted: func(n int) { w.accepted.Add(int64(n)) }})
	w.events = happened
	w.chats = chat.New(db, chat.Options{})
	w.live, w.pusher = live.New(w.chats, db, nil), chat.NewPusher(w.chats, chat.PusherOptions{Post: happened.AcceptNamed})
	work := callers.New(callers.Options{DB: db})
	t.Cleanup(work.Close)
	dead := []*queue.Queue{w.queue, w.notifications, w.jobs, work.Letters()}
	w.facts = facts.New(facts.Options{DB: db, Events: w.queue})
	w.webhooks = webhooks.New(webhooks.Options{Record: rec, DB: db, Beside: w.queue.KeyBeside, Feed: w.facts})
	w.letters = deadletters.New(deadletters.Options{Queues: dead, Jobs: w.jobs})
	o := handlers.Options{
		Contacts: w.contacts, Sales: w.sales, Events: happened, Devices: w.devices, Record: rec, Keys: w.keys, Tokens: w.tokens, Servers: servers.New(db, servers.Options{}), Series: series.New(db, series.Options{}), Pauses: apps.New(db, apps.Options{}),
		Chats: w.chats, Live: w.live, Pusher: w.pusher, PublicKey: func(string) (string, bool) { return "BKey", true },
		Facts: w.facts, FactSwitch: w.tells, Webhooks: w.webhooks, DeadLetters: w.letters, DeadQueues: dead, Jobs: work, Broadcasts: channels, Schedules: schedules.New(schedules.Options{Record: rec, Enqueue: work.Enqueue}), Badges: badges.New(db, badges.Options{}), Locks: lock.New(db, lock.Options{Name: "locks"}), Values: values.NewValues(db), Counters: values.NewCounters(db),
		Queues:   []*queue.Queue{w.queue, w.notifications, w.jobs},
		Document: openapi.Document(), Docs: site.New(os.DirFS(storetest.Root(t)), openapi.UI, web.NotFound),
		Erase: w.tokens.Erase, TakesDevice: func(*api.DeviceRequest) bool { return true }, PushOrigins: api.KnownPushOrigins,
		Apps: func(context.Context) ([]api.App, error) { return []api.App{}, nil },
		Ready: func(context.Context) api.Readiness {
			return api.Readiness{Ready: true, Dependencies: []api.Dependency{}}
		},
		DeliveredPerSecond: func() float64 { return 0 },
		Console:            func(http.Handler) http.Handler { return http.HandlerFunc(web.NotFound) },
		Web:                web.Options{Registry: prometheus.NewRegistry(), Closing: w.closing, Streams: &w.streams, Logger: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
	}
	for _, f := range change {
		f(&o)
	}
	storetest.Must(t, w.keys.Load(t.Context()))
	w.handler = handlers.New(o)
	w.serve()
	return w
}

func mustQueue(t testing.TB, db *redisdb.DB, name string) *queue.Queue {
	t.Helper()
	o := queue.Options{Name: name, Shards: 2}
	switch name {
	case "jobs":
		o.Kind = api.DeadTask
	case "events":
		o.Show = events.ShowJob
	}
	q := queue.New(db, o)
	storetest.Must(t, q.Init(t.Context()))
	return q
}

// serve runs the handler in a real server, because headers, limits and deadlines of bodies exist
// only there.
func (w *world) serve() {
	server := httptest.NewServer(w.handler)
	w.t.Cleanup(server.Close)
	w.t.Cleanup(w.streams.Wait)
	w.t.Cleanup(w.stopping)
	w.url = server.URL
}

// mustKey makes an API key with the scopes.
func (w *world) mustKey(scopes ...api.Scope) string {
	w.t.Helper()
	secret, _, err := w.keys.Create(w.t.Context(), "test", scopes, nil)
	storetest.Must(w.t, err)
	return secret
}

// call is one request. Headers are "Name: value" lines, later ones added.
type call struct {
	method, path, body string
	headers            []string
	chunked            bool
}

// answer is the answer to a call.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a call; a body is sent as JSON unless a header says otherwise.
func (w *world) do(c call) answer {
	w.t.Helper()
	a, err := w.try(c)
	storetest.Must(w.t, err)
	return a
}

func (w *world) try(c call) (answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, c.method, w.url+c.path, c.reader())
	if err != nil {
		return answer{}, err
	}
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range c.headers {
		c.setHeader(r, line)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body)}, err
}

func (c call) reader() io.Reader {
	if c.body == "" {
		return nil
	}
	if c.chunked {
		return io.MultiReader(strings.NewReader(c.body)) // of unknown length
	}
	return strings.NewReader(c.body)
}

func (c call) setHeader(r *http.Request, line string) {
	name, value, _ := strings.Cut(line, ": ")
	switch {
	case name == "Host":
		r.Host = value
	case name == "Content-Type" && value == "":
		r.Header.Del(name)
	case name == "Content-Type":
		r.Header.Set(name, value)
	default:
		r.Header.Add(name, value)
	}
}

// get, put, post and del send a call with an optional body.
func (w *world) get(path string) answer { w.t.Helper(); return w.do(call{method: "GET", path: path}) }

func (w *world) put(path, body string) answer {
	w.t.Helper()
	return w.do(call{method: "PUT", path: path, body: body})
}

func (w *world) post(path, body string, headers ...string) answer {
	w.t.Helper()
	return w.do(call{method: "POST", path: path, body: body, headers: headers})
}

func (w *world) del(path string) answer {
	w.t.Helper()
	return w.do(call{method: "DELETE", path: path})
}

// wants fails unless the status and the whole body are equal. In want, "*" matches any string or
// number, such as ids and times.
func (a answer) wants(t testing.TB, status int, want string) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d; body %s", a.status, status, a.body)
	}
	if want == "" && a.body == "" {
		return a
	}
	var got, expected any
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("the body is not JSON: %v: %s", err, a.body)
	}
	storetest.Must(t, json.Unmarshal([]byte(want), &expected))
	if !same(got, expected) {
		t.Errorf("body\n%s\nwant\n%s", a.body, want)
	}
	return a
}

// same compares JSON values. "*" in want matches any string or number.
func same(got, want any) bool {
	if want == "*" {
		return got != nil
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		return ok && len(g) == len(w) && sameMembers(g, w)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !same(g[i], w[i]) {
				return false
			}
		}
		return true
	default:
		return got == want
	}
}

func sameMembers(got, want map[string]any) bool {
	for name, value := range want {
		g, ok := got[name]
		if !ok || !same(g, value) {
			return false
		}
	}
	return true
}

// member reads a string member of the body.
func (a answer) member(t testing.TB, name string) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("the body is not a JSON object: %s", a.body)
	}
	value, _ := body[name].(string)
	return value
}

// problem is the whole body of a problem. detail is its last common member, and more are further
// members such as `"errors":[...]`.
func problem(code api.Code, detail string, more ...string) string {
	m := api.MeaningOf(code)
	head, _ := json.Marshal(map[string]any{
		"type": "urn:fanfare:problem:" + string(code), "title": m.Title, "status": m.Status,
		"detail": detail, "code": code, "retryable": m.Retryable, "request_id": "*",
	})
	return strings.TrimSuffix(string(head), "}") + strings.Join(append([]string{""}, more...), ",") + "}"
}
