package broadcasts_test

import (
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/broadcasts"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

const (
	soon   = 20 * time.Second
	bundle = apnstest.DefaultTopic
)

// world is a stand-in for APNs, a database and a Redis with any number of processes.
type world struct {
	*apnstest.Server
	t     *testing.T
	url   string
	redis *redisdb.DB
	log   *storetest.Lines
	*broadcasts.Store
	sender *apns.Sender // of the newest process

	mu      sync.Mutex
	calls   map[string]int // by call and outcome
	unknown map[string]int // by app
}

// each runs a test on each database.
func each(t *testing.T, o apnstest.Options, test func(w *world)) {
	t.Helper()
	storetest.EachSQL(t, func(t *testing.T, url string) { test(setup(t, o, url)) })
}

func setup(t *testing.T, o apnstest.Options, url string) *world {
	w := &world{Server: apnstest.Start(t, o), t: t, url: url, redis: storetest.Open(t, "embedded"), log: &storetest.Lines{}, calls: map[string]int{}, unknown: map[string]int{}}
	w.Store = w.process()
	return w
}

// process is a process.
func (w *world) process(change ...func(*broadcasts.Options)) *broadcasts.Store {
	w.t.Helper()
	sender := apns.New(apns.Options{URL: w.URL(), ManageURL: w.ManageURL(), CAFile: w.CAFile(), KeyFile: w.KeyFile(), KeyID: w.KeyID(), TeamID: w.TeamID()})
	w.t.Cleanup(func() { _ = sender.Close() })
	storetest.Must(w.t, transport.Configure(sender, "", ""))
	w.sender = sender
	o := broadcasts.Options{
		DB: w.redis, Record: storetest.Record(w.t, w.url), Channels: sender, Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
		CompareSoon: 20 * time.Millisecond,
		OnManaged: func(call, outcome string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls[call+" "+outcome]++
		},
		OnCompared: func(app string, n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.unknown[app] = n
		},
	}
	for _, f := range change {
		f(&o)
	}
	return broadcasts.New(o)
}

// counted is how often the management host was called, by call and outcome.
func (w *world) counted() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.calls)
}

// wanted is a request for a broadcast that ends in a while.
func wanted(ends time.Duration, keep api.BroadcastKeep) *api.BroadcastRequest {
	return &api.BroadcastRequest{Topic: bundle, Environment: api.EnvProduction, Keep: keep, EndsAt: new(api.At(time.Now().Add(ends)))}
}

// mustPut puts a broadcast that ends in an hour.
func (w *world) mustPut(object string) *api.Broadcast {
	w.t.Helper()
	b, _, err := w.Put(w.t.Context(), object, wanted(time.Hour, api.KeepNone))
	storetest.Must(w.t, err)
	return b
}

// wantChannels compares how many channels APNs has.
func (w *world) wantChannels(n int) {
	w.t.Helper()
	if got := w.Channels(bundle); len(got) != n {
		w.t.Errorf("APNs has the channels %v, want %d", got, n)
	}
}

// away lets the management host go away, and the newest process find that its connection to it is closed.
func (w *world) away() {
	w.t.Helper()
	w.RefuseManagement(true)
	_, err := w.sender.ListChannels(w.t.Context(), bundle, api.EnvProduction)
	storetest.WantCode(w.t, err, api.CodeUnavailable)
}
