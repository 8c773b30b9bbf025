package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// relayBatch is how many outbox rows a handler gets at once, and relayLarge how many of a kind
	// whose rows name up to a thousand subjects each.
	relayBatch, relayLarge = 500, 10
	// maxRelayEvery keeps the promise P10: the change of a writer that died becomes visible
	// before its mark in Redis ends.
	maxRelayEvery     = 4 * time.Second
	defaultRelayEvery = time.Second
	defaultRelayAge   = 5 * time.Second
)

// OutboxHandler does the work of rows of one kind, oldest first, and returns the ids of the rows
// that are done, which are then deleted. The other rows, and all rows of a call that failed, come
// again in a later round. Doing the work of a row twice must do no harm.
type OutboxHandler func(context.Context, []OutboxRow) (done []string, err error)

// RowByRow is a handler that does the work of one row after the other. A row whose work fails holds up
// no other.
func RowByRow(relay func(context.Context, OutboxRow) error) OutboxHandler {
	return func(ctx context.Context, rows []OutboxRow) (done []string, all error) {
		for _, row := range rows {
			if err := relay(ctx, row); err != nil {
				all = errors.Join(all, fmt.Errorf("relay outbox row %s: %w", row.ID, err))
				continue
			}
			done = append(done, row.ID)
		}
		return done, all
	}
}

// RelayOptions tune a Relay; the zero value works.
type RelayOptions struct {
	// Every is how often the outbox is read for rows that were left behind; default 1 s, at most 4
	// s.
	Every time.Duration
	// Age is how old such a row must be; default 5 s.
	Age time.Duration
	// DeletedRetention is how long deleted rows stay; default 30 days.
	DeletedRetention time.Duration
	// Logger receives a line when the outbox is held up, and one when it goes on; nil: nothing
	// is logged.
	Logger *slog.Logger
}

// Relay relays committed changes to Redis that their writers did not relay, because they died or
// Redis was away. It also repeats changes that a master may have lost (store/devices), and removes
// rows that are no longer needed. Any number of processes may run a Relay.
type Relay struct {
	db       *DB
	o        RelayOptions
	handlers map[string]OutboxHandler
	after    map[string]OpenRow // where the next round begins, by kind; only Sweep uses it
	behind   bool               // the last round left rows of a kind to the next one; only Run and Sweep use it
	purges   []*purge
}

// NewRelay makes a relay of these kinds. It starts nothing; Run does.
func (db *DB) NewRelay(o RelayOptions, handlers map[string]OutboxHandler) *Relay {
	o.Every = cmp.Or(o.Every, defaultRelayEvery)
	o.Every = min(o.Every, maxRelayEvery)
	o.Age = cmp.Or(o.Age, defaultRelayAge)
	o.DeletedRetention = cmp.Or(o.DeletedRetention, defaultDeletedRetention)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Relay{db: db, o: o, handlers: handlers, after: map[string]OpenRow{}, purges: db.purges(o.DeletedRetention)}
}

// Run sweeps until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	heldUp := false
	for {
		err := errors.Join(r.Sweep(ctx), r.purge(ctx))
		if away := err != nil && ctx.Err() == nil; away != heldUp {
			heldUp = away
			r.o.Logger.InfoContext(ctx, "outbox", "held_up", away, "error", err)
		}
		rest := r.o.Every/2 + rand.N(r.o.Every/2)
		if r.behind {
			rest = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
	}
}

// Sweep hands every kind its next rows that are old enough. It goes round and round, so that
// rows whose work takes long hold up no others. A kind that fails does not stop the rest. Sweep
// must not run twice at once.
func (r *Relay) Sweep(ctx context.Context) error {
	var all error
	r.behind = false
	for kind, handle := range r.handlers {
		if err := r.sweepKind(ctx, kind, handle); err != nil {
			all = errors.Join(all, fmt.Errorf("outbox rows of kind %s: %w", kind, err))
		}
	}
	return all
}

// sweepKind goes on as long as rows of a page are done at once. If large rows take longer than
// Every, the next round goes on with them, so that the other kinds have their turn.
func (r *Relay) sweepKind(ctx context.Context, kind string, handle OutboxHandler) (all error) {
	most, began := relayBatch, time.Now()
	if kind == KindDevices || kind == KindContacts {
		most = relayLarge
	}
	for {
		page, err := r.db.OutboxPage(ctx, kind, r.o.Age.Milliseconds(), r.after[kind], most)
		if err != nil {
			return cmp.Or(all, err)
		}
		r.after[kind] = OpenRow{}
		if len(page) == 0 {
			return all
		}
		rows := make([]OutboxRow, len(page))
		for i, row := range page {
			rows[i] = row.OutboxRow
		}
		done, err := handle(ctx, rows)
		deleted := r.db.DeleteOutbox(ctx, done...)
		all = cmp.Or(all, err, deleted)
		if len(page) < most {
			return all
		}
		r.after[kind] = page[most-1]
		if len(done) == 0 || deleted != nil {
			return all
		}
		if most == relayLarge && time.Since(began) > r.o.Every {
			r.behind = true
			return all
		}
	}
}
