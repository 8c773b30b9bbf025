package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// Broadcast is a row of broadcasts.
type Broadcast struct {
	Object      string `db:"object"`
	Topic       string `db:"topic"`
	Environment string `db:"environment"`
	Keep        string `db:"keep"`
	Channel     string `db:"channel"` // "": none is known
	State       string `db:"state"`
	EndsAt      int64  `db:"ends_at"`
	// AskedAt is when a channel was last asked for. With it a process tells its own call from a later one.
	AskedAt   int64 `db:"asked_at"`
	CreatedAt int64 `db:"created_at"`
	UpdatedAt int64 `db:"updated_at"`
}

const broadcastColumns = "object, topic, environment, keep, channel, state, ends_at, asked_at, created_at, updated_at"

// Show is the broadcast as callers see it.
func (b *Broadcast) Show() *api.Broadcast {
	return &api.Broadcast{Object: b.Object, Topic: b.Topic, Environment: api.Environment(b.Environment), Keep: api.BroadcastKeep(b.Keep),
		EndsAt: api.AtMillis(b.EndsAt), Channel: b.Channel, State: b.state(), CreatedAt: api.AtMillis(b.CreatedAt), UpdatedAt: api.AtMillis(b.UpdatedAt)}
}

func (b *Broadcast) state() api.BroadcastState { return api.BroadcastState(b.State) }

// is reports whether the channel of the broadcast is what a request asks for.
func (b *Broadcast) is(r *api.BroadcastRequest) bool {
	return b.Topic == r.Topic && b.Environment == string(r.Environment) && b.Keep == string(r.Keep)
}

// BeginBroadcast makes or changes a broadcast. If it has no channel after that, its state is making, and the caller is
// to ask for one; fresh says that there was no broadcast of this object. One that is closing is returned as it is.
// api.CodeConflict for another topic, environment or keep than those of an open channel.
func (db *DB) BeginBroadcast(ctx context.Context, object string, r *api.BroadcastRequest) (b *Broadcast, fresh bool, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		b, fresh, err = db.beginBroadcast(ctx, tx, object, r)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("put broadcast %s: %w", object, err)
	}
	return b, fresh, nil
}

func (db *DB) beginBroadcast(ctx context.Context, tx *sqlx.Tx, object string, r *api.BroadcastRequest) (*Broadcast, bool, error) {
	if err := db.raise(ctx, tx, VersionBroadcasts); err != nil {
		return nil, false, err
	}
	b := &Broadcast{}
	err := tx.GetContext(ctx, b, "SELECT "+broadcastColumns+" FROM broadcasts WHERE object = ?", object)
	fresh := errors.Is(err, sql.ErrNoRows)
	if err != nil && !fresh {
		return nil, false, err
	}
	now, err := db.now(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	ends := r.EndsAt.UnixMilli()
	switch state := b.state(); {
	case state == api.BroadcastClosing:
		return b, false, errUnchanged
	case state == api.BroadcastOpen && !b.is(r):
		return nil, false, api.Errorf(api.CodeConflict, "the broadcast has a channel of another topic, environment or keep, which cannot be changed: delete it first")
	case state == api.BroadcastOpen && b.EndsAt == ends:
		return b, false, errUnchanged
	case ends <= now:
		return nil, false, api.Invalid("ends_at", "future", "must be in the future")
	case state == api.BroadcastOpen:
		b.EndsAt, b.UpdatedAt = ends, now
	default:
		if fresh {
			b.CreatedAt = now
		}
		b.Object, b.Topic, b.Environment, b.Keep, b.Channel = object, r.Topic, string(r.Environment), string(r.Keep), ""
		b.State, b.EndsAt, b.AskedAt, b.UpdatedAt = string(api.BroadcastMaking), ends, max(now, b.AskedAt+1), now
	}
	_, err = tx.NamedExecContext(ctx, "INSERT INTO broadcasts ("+broadcastColumns+
		") VALUES (:object, :topic, :environment, :keep, :channel, :state, :ends_at, :asked_at, :created_at, :updated_at)"+
		db.d.onConflict("broadcasts", "object", []string{"topic", "environment", "keep", "channel", "state", "ends_at", "asked_at", "updated_at"}), b)
	return b, fresh, err
}

// changeBroadcast runs a statement that changes or removes one broadcast, and reports whether it did.
func (db *DB) changeBroadcast(ctx context.Context, verb, query string, args ...any) (done bool, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		done = false
		if err := db.raise(ctx, tx, VersionBroadcasts); err != nil {
			return err
		}
		n, err := affected(tx.ExecContext(ctx, query, args...))
		if err == nil && n == 0 {
			return errUnchanged
		}
		done = err == nil
		return err
	})
	if err != nil {
		return false, fmt.Errorf("%s broadcast %v: %w", verb, args[len(args)-1], err)
	}
	return done, nil
}

// whereAsked selects a broadcast that still waits for the channel that was asked for then.
const whereAsked = " WHERE state = 'making' AND asked_at = ? AND object = ?"

// OpenBroadcast gives a broadcast the channel that was made for it. False: the broadcast no longer waits for this channel.
func (db *DB) OpenBroadcast(ctx context.Context, b *Broadcast, channel string) (bool, error) {
	return db.changeBroadcast(ctx, "open", "UPDATE broadcasts SET state = 'open', channel = ?"+whereAsked, channel, b.AskedAt, b.Object)
}

// ForgetBroadcast removes a broadcast for which no channel could be made.
func (db *DB) ForgetBroadcast(ctx context.Context, b *Broadcast) error {
	_, err := db.changeBroadcast(ctx, "forget", "DELETE FROM broadcasts"+whereAsked, b.AskedAt, b.Object)
	return err
}

// LoseBroadcast notes that APNs no longer knows the channel of an open broadcast.
func (db *DB) LoseBroadcast(ctx context.Context, object, channel string) (bool, error) {
	return db.changeBroadcast(ctx, "lose", "UPDATE broadcasts SET state = 'lost', updated_at = "+db.d.now+" WHERE state = 'open' AND channel = ? AND object = ?", channel, object)
}

// CloseBroadcast says on record that a broadcast is to be deleted, with its channel.
func (db *DB) CloseBroadcast(ctx context.Context, object string) error {
	_, err := db.changeBroadcast(ctx, "close", "UPDATE broadcasts SET state = 'closing', updated_at = "+db.d.now+" WHERE state <> 'closing' AND object = ?", object)
	return err
}

// CloseEnded is CloseBroadcast for a broadcast that ended at least so long ago. It reports whether the broadcast is closing.
func (db *DB) CloseEnded(ctx context.Context, object string, ago time.Duration) (bool, error) {
	_, err := db.changeBroadcast(ctx, "close", "UPDATE broadcasts SET state = 'closing', updated_at = "+db.d.now+
		" WHERE state <> 'closing' AND ends_at <= "+db.d.now+" - ? AND object = ?", ago.Milliseconds(), object)
	if err != nil {
		return false, err
	}
	b, err := db.Broadcast(ctx, object)
	return err == nil && b.state() == api.BroadcastClosing, err
}

// RemoveBroadcast removes a broadcast whose channel was deleted.
func (db *DB) RemoveBroadcast(ctx context.Context, b *Broadcast) error {
	_, err := db.changeBroadcast(ctx, "remove", "DELETE FROM broadcasts WHERE state = 'closing' AND channel = ? AND object = ?", b.Channel, b.Object)
	return err
}

// Broadcast reads one broadcast; api.CodeNotFound when there is none.
func (db *DB) Broadcast(ctx context.Context, object string) (*Broadcast, error) {
	b := &Broadcast{}
	err := db.get(ctx, b, "SELECT "+broadcastColumns+" FROM broadcasts WHERE object = ?", object)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, api.Errorf(api.CodeNotFound, "there is no broadcast of %s", object)
	}
	return b, err
}

// Broadcasts reads at most limit broadcasts by their objects, from the one after a given object on ("": from the first).
func (db *DB) Broadcasts(ctx context.Context, after string, limit int) (all []Broadcast, err error) {
	err = db.list(ctx, &all, "SELECT "+broadcastColumns+" FROM broadcasts WHERE object > ? ORDER BY object LIMIT ?", after, limit)
	return all, err
}

// AllBroadcasts reads all broadcasts.
func (db *DB) AllBroadcasts(ctx context.Context) (all []Broadcast, err error) {
	err = db.list(ctx, &all, "SELECT "+broadcastColumns+" FROM broadcasts")
	return all, err
}

// BroadcastsToClose reads at most limit broadcasts that are closing or have ended at least so long ago, by their objects, from
// the one after a given object on ("": from the first).
func (db *DB) BroadcastsToClose(ctx context.Context, ago time.Duration, after string, limit int) (all []Broadcast, err error) {
	err = db.list(ctx, &all, "SELECT "+broadcastColumns+" FROM broadcasts WHERE (state = 'closing' OR ends_at <= "+db.d.now+
		" - ?) AND object > ? ORDER BY object LIMIT ?", ago.Milliseconds(), after, limit)
	return all, err
}

// BroadcastsOf reads the broadcasts of an app, and the database's clock.
func (db *DB) BroadcastsOf(ctx context.Context, topic string, environment api.Environment) (all []Broadcast, now time.Time, err error) {
	var ms int64
	if err := db.get(ctx, &ms, "SELECT "+db.d.now); err != nil {
		return nil, now, err
	}
	err = db.list(ctx, &all, "SELECT "+broadcastColumns+" FROM broadcasts WHERE topic = ? AND environment = ?", topic, string(environment))
	return all, time.UnixMilli(ms), err
}
