package devices

import (
	"cmp"
	"context"
	"embed"
	"log/slog"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

//go:embed lua/*.lua
var scripts embed.FS

// Options tunes a Store; the zero value works.
type Options struct {
	// Logger receives failed relays; default: nothing is logged.
	Logger *slog.Logger
	// GuardTTL is how long a guard stays, at least FANFARE_MAX_AGE + 1 h;
	// default 25 h.
	GuardTTL time.Duration
	// Tells reports whether facts of a type are told (facts.Switch.On); default: none are. Told gets the keys of those that
	// a write left in the outbox of SQL; it takes no time. Default: they wait for the relay.
	Tells func(typ string) bool
	Told  func(keys ...string)
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.GuardTTL = cmp.Or(o.GuardTTL, guardTTL)
	if o.Tells == nil {
		o.Tells = func(string) bool { return false }
	}
	if o.Told == nil {
		o.Told = func(...string) {}
	}
	return o
}

// tellsDropped reports whether it is told that a user has lost a device.
func (s *Store) tellsDropped() bool { return s.o.Tells(api.FactDeviceDropped) }

// Store keeps the devices and settings of all users. It is safe for concurrent use.
type Store struct {
	db  *redisdb.DB
	rec *record.DB
	o   Options

	mark, store, fill, forget *redisdb.Script
	// relay relays a committed change to Redis. Tests replace it to simulate a process that dies
	// between commit and relay.
	relay  func(context.Context, settingsChange) error
	guards *queue.Queue
	// setGuards writes guards. Tests replace it to act between the read of the record and the
	// write.
	setGuards func(context.Context, []queue.Guard) error
}

// New makes a store. guards is the queue of notifications, whose slots hold the guards of their
// tokens. It starts nothing; the relay takes the handlers of Outbox.
func New(db *redisdb.DB, rec *record.DB, guards *queue.Queue, o Options) *Store {
	s := &Store{
		db: db, rec: rec, guards: guards, o: o.withDefaults(),
		mark:   redisdb.MustScript(scripts, "lua/settings_mark.lua"),
		store:  redisdb.MustScript(scripts, "lua/settings_store.lua"),
		fill:   redisdb.MustScript(scripts, "lua/settings_fill.lua"),
		forget: redisdb.MustScript(scripts, "lua/settings_forget.lua"),
	}
	s.relay = s.relayChange
	s.setGuards = func(ctx context.Context, list []queue.Guard) error {
		return guards.SetGuards(ctx, s.o.GuardTTL, list...)
	}
	return s
}
