package facts

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/wake"
)

//go:embed lua/*.lua
var scripts embed.FS

var (
	moveScript = redisdb.MustScript(scripts, "lua/facts_move.lua")
	onceScript = redisdb.MustScript(scripts, "lua/facts_once.lua")
)

// Options are what a Store works with. DB and Events are required.
type Options struct {
	DB *redisdb.DB
	// Events is the queue "events", whose shards have the lanes.
	Events *queue.Queue
	// Outboxes are those that are looked at again and again; default: none.
	Outboxes []Outbox
	// Record has facts on record. Needed for Outbox and RunRecorded.
	Record *record.DB
	// On reports whether facts of a type are told (Switch.On); default: none are.
	On func(typ string) bool
	// Over tells which of some events are over, and what is told of them (store/events). Needed if there are Outboxes.
	Over func(ctx context.Context, ids []string) (map[string]json.RawMessage, error)
	// Failed gives the data of the fact about a failed notification that is a dead letter; nil if the letter is of no notification.
	// Needed if there are Outboxes.
	Failed func(*api.DeadLetter) json.RawMessage
	// KeepDone is how long it is remembered that an event is over; default 48 h. It should outlast the event's report.
	KeepDone time.Duration
	// Retention is how long facts are kept; default 7 days. Bytes is what all lanes may take of Redis; default 5 % of its maxmemory,
	// without which there is no limit.
	Retention time.Duration
	Bytes     int64
	// Most is how many facts a lane keeps, and an outbox whose facts cannot be moved; default 1,000,000.
	Most int64
	// Logger hears of what Run fails to do; default: nobody.
	Logger *slog.Logger
}

// Store has the facts. It may be used from any goroutine.
type Store struct {
	o    Options
	line *wake.Line
	poke chan struct{}

	lookEvery time.Duration
	missed    atomic.Int64 // facts that were gone before readers of this process came to them

	mu       sync.Mutex
	dirty    map[Outbox]bool // outboxes in which something may be left
	recorded map[string]bool // keys of facts on record that this process has made true
	news     chan struct{}   // has a value when there are some in recorded
}

// New makes a Store. It does not connect.
func New(o Options) *Store {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.On == nil {
		o.On = func(string) bool { return false }
	}
	o.KeepDone, o.Retention = cmp.Or(o.KeepDone, 48*time.Hour), cmp.Or(o.Retention, defaultRetention)
	o.Most = cmp.Or(o.Most, defaultMost)
	return &Store{o: o, lookEvery: defaultLook, poke: make(chan struct{}, 1), dirty: map[Outbox]bool{},
		recorded: map[string]bool{}, news: make(chan struct{}, 1),
		line: wake.NewLine(o.DB.Blocking())}
}

// Lanes is how many lanes there are.
func (s *Store) Lanes() int { return s.o.Events.Shards() }
