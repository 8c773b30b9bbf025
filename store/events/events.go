package events

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// Options are what a Store works with. DB, Queue, Notifications and Record are required; the rest
// may stay zero.
type Options struct {
	// DB says, without a round trip, whether Redis is nearly full.
	DB *redisdb.DB
	// Queue is the queue "events", Notifications the queue "notifications".
	Queue, Notifications *queue.Queue
	Record               *record.DB
	// Logger receives failures to read the types; default: nothing is logged.
	Logger *slog.Logger
	// MaxAge is how long a notification may wait; default 24 h. It should be that of targeting.
	MaxAge time.Duration
	// Poll is how long after a reading of the event types' version the next one comes at the latest;
	// default 500 ms.
	Poll time.Duration
	// SendsTo reports whether this process has an app of a platform: then events are checked against the
	// platform's rules as well (W6). APNs' are always checked. Default: it has none.
	SendsTo func(api.Platform) bool
	// Delivers reports whether this process delivers to devices of a platform, if only to its log: then a preview shows
	// what they get. Default: SendsTo.
	Delivers func(api.Platform) bool
	// Broadcast finds the broadcast of an object that has a channel; its error names the field audience.broadcast.
	// Default: there is none.
	Broadcast func(ctx context.Context, object string) (*api.Broadcast, error)
	// Tells reports whether facts of a type are told; default: none are.
	Tells func(typ string) bool
	// OnAccepted is called with the size of every batch of new events, for metrics.
	OnAccepted func(n int)
	// OnOpened is called with "opened" or "dismissed" when a notification was counted as that, for metrics.
	OnOpened func(what string)
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Store accepts events and reports on them. It is safe for concurrent use.
type Store struct {
	o     Options
	types *types
	seed  uint64 // for shardOfTheMoment

	withdrawn, cancelled *eventSet
	liveOrder, liveBegin *redisdb.Script

	noteRecipients, countOpened *redisdb.Script
}

// New makes a Store. It starts nothing.
func New(o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Poll = cmp.Or(o.Poll, 500*time.Millisecond)
	o.MaxAge = cmp.Or(o.MaxAge, 24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SendsTo == nil {
		o.SendsTo = func(api.Platform) bool { return false }
	}
	if o.Delivers == nil {
		o.Delivers = o.SendsTo
	}
	if o.Broadcast == nil {
		o.Broadcast = func(_ context.Context, object string) (*api.Broadcast, error) {
			return nil, api.Invalid("audience.broadcast", "exists", "is no broadcast: there is none of %s", object)
		}
	}
	if o.Tells == nil {
		o.Tells = func(string) bool { return false }
	}
	if o.OnAccepted == nil {
		o.OnAccepted = func(int) {}
	}
	if o.OnOpened == nil {
		o.OnOpened = func(string) {}
	}
	return &Store{
		o: o, types: &types{rec: o.Record, log: o.Logger}, seed: rand.Uint64(),
		withdrawn: newEventSet(&o, withdrawnKeep(o.MaxAge), keyWithdrawn),
		cancelled: newEventSet(&o, api.MaxSendAhead+o.MaxAge+deadLetters, cancelledKeys(o.Queue, o.Notifications)...),
		liveOrder: redisdb.MustScript(scripts, "lua/live_order.lua"), liveBegin: redisdb.MustScript(scripts, "lua/live_begin.lua"),
		noteRecipients: redisdb.MustScript(scripts, "lua/recipients_note.lua"), countOpened: redisdb.MustScript(scripts, "lua/opened_count.lua"),
	}
}

// Run keeps the event types of this process fresh until ctx ends. While the record is away, the
// last known types stay.
func (s *Store) Run(ctx context.Context) error {
	record.Follow(ctx, s.o.Logger, "event types", s.o.Poll, s.types.load)
	return nil
}
