package record

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// UserVersion is the version of one user's settings. It rises with every
// change of the user's devices, opt-outs and mutes, in the order of commits.
type UserVersion struct {
	User    string `db:"user_id"`
	Version int64  `db:"version"`
}

// Change is what has to be relayed to Redis after a committed write of settings: the new versions. The
// outbox has rows of it. An empty Change means that nothing had to be changed.
type Change struct {
	Users []UserVersion
	// Devices are the devices of a batch as they were written, by token; nil for other writes.
	Devices map[string]OwnedDevice
	// Told are the keys of facts that the write made true.
	Told []string
	// Gone are tokens of the user's activities that made room, in this write or in earlier ones of which Redis may not know
	// yet. They may be registered again, so their guards are made of what is on record: Devices has none of them.
	Gone []string
}

// settingsWrite is one write under the row locks of its users. There is a KindGuard row for each token in
// addition to the KindSettings rows. With an idempotency key (once) it is done once, and answer, a pointer to
// what do sets, is kept.
type settingsWrite struct {
	users, tokens []string
	once          api.Idempotency
	answer        any
	do            func(ctx context.Context, tx *sqlx.Tx, now int64) error
}

// writeSettings raises the users' versions, runs the write and writes the outbox rows, all in one
// transaction. A write that finds nothing to do (errUnchanged) changes nothing, and so does a replay.
func (db *DB) writeSettings(ctx context.Context, w settingsWrite) (Change, error) {
	out := w.outbox()
	var c Change
	replayed, err := db.once(ctx, w.once, w.answer, func(ctx context.Context, tx *sqlx.Tx) error {
		c = Change{}
		users, now, err := db.lockSettings(ctx, tx, w.users)
		if err != nil {
			return err
		}
		if err := w.do(ctx, tx, now); err != nil {
			return err
		}
		c = Change{Users: users}
		return db.announce(ctx, tx, out)
	})
	if err != nil || replayed {
		return Change{}, err
	}
	return c, nil
}

func (w settingsWrite) outbox() []OutboxRow {
	out := make([]OutboxRow, 0, len(w.users)+len(w.tokens))
	for _, user := range w.users {
		out = append(out, newOutboxRow(KindSettings, user, ""))
	}
	return append(out, guardRows(w.tokens, "")...)
}

// guardRows are the rows of tokens whose guards have to be written.
func guardRows(tokens []string, payload string) []OutboxRow {
	out := make([]OutboxRow, len(tokens))
	for i, token := range tokens {
		out[i] = newOutboxRow(KindGuard, token, payload)
	}
	return out
}

// lockSettings takes the users' row locks in the order of their names and
// raises their versions. It also reads the database's clock.
func (db *DB) lockSettings(ctx context.Context, tx *sqlx.Tx, users []string) ([]UserVersion, int64, error) {
	if err := lockRows(ctx, tx, users, db.firstVersion(), db.d.onConflict("user_settings", "user_id", nil, "version")); err != nil {
		return nil, 0, err
	}
	var found []struct {
		UserVersion
		Now int64 `db:"now_ms"`
	}
	query := "SELECT user_id, version, " + db.d.now + " AS now_ms FROM user_settings WHERE user_id IN (?) ORDER BY user_id"
	if err := selectIn(ctx, tx, &found, query, users); err != nil {
		return nil, 0, err
	}
	versions := make([]UserVersion, len(found))
	for i, f := range found {
		versions[i] = f.UserVersion
	}
	return versions, found[0].Now, nil
}

// lockUsers takes the users' row locks in the order of their names and leaves their versions as
// they are.
func (db *DB) lockUsers(ctx context.Context, tx *sqlx.Tx, users []string) error {
	return lockRows(ctx, tx, users, db.firstVersion(), db.d.onConflict("user_settings", "user_id", []string{"user_id"}))
}

// firstVersion is a new row of user_settings. Its version begins with the database's clock in ms, so
// that it is above all versions of an earlier row of the same user, who was erased.
func (db *DB) firstVersion() string { return "(?, " + db.d.now + ")" }

// lockRows locks rows of user_settings by writing them: a new row has these values, and one that
// exists is changed as onConflict says.
func lockRows(ctx context.Context, tx *sqlx.Tx, users []string, values, onConflict string) error {
	for part := range slices.Chunk(slices.Sorted(slices.Values(users)), chunk) {
		args := make([]any, len(part))
		for i, u := range part {
			args[i] = u
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO user_settings (user_id, version) VALUES "+rows(values, len(part))+onConflict, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// PutOptOut refuses an event type for a user; at most api.MaxOptOuts of them.
func (db *DB) PutOptOut(ctx context.Context, user, typ string) (Change, error) {
	return db.writeSettings(ctx, settingsWrite{users: []string{user}, do: func(ctx context.Context, tx *sqlx.Tx, now int64) error {
		var have struct {
			All  int `db:"everything"`
			This int `db:"this"`
		}
		err := tx.GetContext(ctx, &have, "SELECT COUNT(*) AS everything, COUNT(CASE WHEN type = ? THEN 1 END) AS this FROM opt_outs WHERE user_id = ?", typ, user)
		switch {
		case err != nil:
			return err
		case have.This > 0:
			return errUnchanged
		case have.All >= api.MaxOptOuts:
			return api.Invalid("type", "max", "would be one more than the %d opt-outs a user may have", api.MaxOptOuts)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO opt_outs (user_id, type, created_at) VALUES (?, ?, ?)", user, typ, now)
		return err
	}})
}

// DeleteOptOut ends an opt-out. If there is none, nothing changes.
func (db *DB) DeleteOptOut(ctx context.Context, user, typ string) (Change, error) {
	return db.writeSettings(ctx, settingsWrite{users: []string{user}, do: func(ctx context.Context, tx *sqlx.Tx, _ int64) error {
		return changed(tx.ExecContext(ctx, "DELETE FROM opt_outs WHERE user_id = ? AND type = ?", user, typ))
	}})
}

// PutMute mutes an object for a user until a time, or without an end. A user can have at most
// api.MaxMutes. Mutes that have ended do not count and are removed.
func (db *DB) PutMute(ctx context.Context, user, object string, until *api.Time) (Change, error) {
	var end *int64
	if until != nil {
		end = new(until.UnixMilli())
	}
	return db.writeSettings(ctx, settingsWrite{users: []string{user}, do: func(ctx context.Context, tx *sqlx.Tx, now int64) error {
		if end != nil && *end <= now {
			return api.Invalid("until", "future", "must be in the future")
		}
		return db.putMute(ctx, tx, muteRow{user, object, end}, now)
	}})
}

type muteRow struct {
	User   string `db:"user_id"`
	Object string `db:"object"`
	Until  *int64 `db:"until"`
}

func (db *DB) putMute(ctx context.Context, tx *sqlx.Tx, m muteRow, now int64) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM mutes WHERE user_id = ? AND until <= ?", m.User, now); err != nil {
		return err
	}
	var others int
	err := tx.GetContext(ctx, &others, "SELECT COUNT(*) FROM mutes WHERE user_id = ? AND object <> ?", m.User, m.Object)
	if err != nil {
		return err
	}
	if others >= api.MaxMutes {
		return api.Invalid("object", "max", "would be one more than the %d mutes a user may have", api.MaxMutes)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO mutes (user_id, object, until, created_at) VALUES (?, ?, ?, ?)"+
		db.d.onConflict("mutes", "user_id, object", []string{"until", "created_at"}), m.User, m.Object, m.Until, now)
	return err
}

// DeleteMute ends a mute. If there is none, nothing changes.
func (db *DB) DeleteMute(ctx context.Context, user, object string) (Change, error) {
	return db.writeSettings(ctx, settingsWrite{users: []string{user}, do: func(ctx context.Context, tx *sqlx.Tx, now int64) error {
		return changed(tx.ExecContext(ctx, "DELETE FROM mutes WHERE user_id = ? AND (object = ? OR until <= ?)", user, object, now))
	}})
}
