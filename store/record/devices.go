package record

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// ErrOwnerChanged says that a token moved to another user between the reading
// of its owner and the write. Read it again and try again.
var ErrOwnerChanged = errors.New("the token's owner has changed")

// OwnedDevice is a device with the user it belongs to.
type OwnedDevice struct {
	User string
	api.Device
}

type deviceRow struct {
	Token        string `db:"token"`
	User         string `db:"user_id"`
	Platform     string `db:"platform"`
	Topic        string `db:"topic"`
	Environment  string `db:"environment"`
	Locale       string `db:"locale"`
	Target       string `db:"target"`
	State        string `db:"state"`
	Reason       string `db:"reason"`
	RegisteredAt int64  `db:"registered_at"`
	DroppedAt    *int64 `db:"dropped_at"`
	// Of an activity; a device has none of these.
	Object         string `db:"object"`
	AttributesType string `db:"attributes_type"`
	EndsAt         *int64 `db:"ends_at"`

	dated bool   // the caller says when the device registered
	field string // of the request, which gives the token
}

const deviceColumns = "token, user_id, platform, topic, environment, locale, target, state, reason, registered_at, dropped_at, object, attributes_type, ends_at"

// maxReason is the size of the column reason.
const maxReason = 128

// DeviceOwner names the user to whom a token belongs; "" if the token is unknown.
func (db *DB) DeviceOwner(ctx context.Context, token string) (string, error) {
	var user string
	err := db.get(ctx, &user, "SELECT user_id FROM devices WHERE token = ?", token)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return user, err
}

// DevicesByToken reads the devices of these tokens; unknown ones are absent.
func (db *DB) DevicesByToken(ctx context.Context, tokens ...string) (map[string]OwnedDevice, error) {
	found := make(map[string]OwnedDevice, len(tokens))
	for part := range slices.Chunk(tokens, chunk) {
		var list []deviceRow
		if err := db.list(ctx, &list, "SELECT "+deviceColumns+" FROM devices WHERE token IN (?)", part); err != nil {
			return nil, err
		}
		for _, r := range list {
			found[r.Token] = OwnedDevice{User: r.User, Device: r.device()}
		}
	}
	return found, nil
}

// DeviceWrite names the device of a write, and the user who owned the token when the writer read it
// ("" for nobody). If the owner has changed since, the write fails with ErrOwnerChanged. Replaces, if
// set, is another token of the user, whose device PutDevice removes. Once is the idempotency key of the
// registration. Tells reports, as late as possible, whether it is told that a user has lost a device; nil: it is not.
type DeviceWrite struct {
	User, Token, Owner, Replaces string
	Once                         api.Idempotency
	Tells                        func() bool
}

// Tokens lists the tokens that the write touches.
func (w DeviceWrite) Tokens() []string {
	if w.Replaces == "" || w.Replaces == w.Token {
		return []string{w.Token}
	}
	return []string{w.Token, w.Replaces}
}

// Users lists the users whose settings the write touches.
func (w DeviceWrite) Users() []string {
	if w.Owner == "" || w.Owner == w.User {
		return []string{w.User}
	}
	return []string{w.User, w.Owner}
}

// Registered is what PutDevice did. It is kept for the idempotency key, and has nothing of a browser's
// keys.
type Registered struct {
	Device *api.Device `json:"device"`
	// Created reports whether the device is new for the user.
	Created bool `json:"created"`
	// Replayed tells that an earlier call with the same key did it.
	Replayed bool `json:"-"`
}

// PutDevice registers a token for a user, takes it from the user who had it
// and revives it if it was dropped. Each registration gets a later
// registered_at than the one before. If the caller says when the device itself registered, what a push service
// said since then stays: a dropped device is not revived. A user has at most api.MaxDevices; the
// devices dropped longest ago make room. A device that it replaces is removed first. It is a conflict, and nothing
// changes, if the device registered for another user later than the caller says.
func (db *DB) PutDevice(ctx context.Context, w DeviceWrite, r *api.DeviceRequest) (done Registered, c Change, err error) {
	var told []string
	c, err = db.writeSettings(ctx, settingsWrite{users: w.Users(), tokens: w.Tokens(), once: w.Once, answer: &done, do: func(ctx context.Context, tx *sqlx.Tx, now int64) error {
		for _, token := range w.Tokens()[1:] {
			if _, err := tx.ExecContext(ctx, "DELETE FROM devices WHERE token = ? AND user_id = ? AND object = ''", token, w.User); err != nil {
				return err
			}
		}
		list := []deviceRow{{Token: w.Token, User: w.User, Platform: r.Platform, Topic: r.Topic, Environment: string(r.Environment),
			Locale: r.Locale, Target: r.Target, State: string(api.DeviceActive), RegisteredAt: now, field: r.TokenField()}}
		if wrong := list[0].date(r.RegisteredAt, "registered_at"); wrong != nil {
			return api.InvalidFields(wrong)
		}
		list, old, err := db.putDevices(ctx, tx, list, map[string]string{w.Token: w.Owner})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return api.Errorf(api.CodeConflict, "the device registered for another user later than at registered_at")
		}
		device, had := list[0].device(), old[w.Token]
		done = Registered{Device: &device, Created: had.User != w.User || had.Object != ""}
		if w.Tells != nil && w.Tells() {
			told, err = db.tellFacts(ctx, tx, movedDevices(list, old, now))
		}
		return err
	}})
	if err != nil {
		return Registered{}, Change{}, err
	}
	done.Replayed, c.Told = len(c.Users) == 0, told
	return done, c, nil
}

// maxAhead is how far the caller's clock may be ahead of the database's, in ms.
const maxAhead = 5 * 60 * 1000

// date sets when the device itself registered; nil leaves it at now. It returns an error of the field if that is
// in the future.
func (r *deviceRow) date(at *api.Time, field string) []api.FieldError {
	if at == nil {
		return nil
	}
	now := r.RegisteredAt
	r.RegisteredAt, r.dated = min(at.UnixMilli(), now), true
	if at.UnixMilli() > now+maxAhead {
		return []api.FieldError{{Field: field, Rule: "past", Message: "must not be in the future"}}
	}
	return nil
}

// before reports whether the device registered for this user before it did for the one on record, to whom it
// belongs since. had is the zero row if there is none on record.
func (r *deviceRow) before(had deviceRow) bool {
	return r.dated && had.User != "" && had.User != r.User && had.DroppedAt == nil && r.RegisteredAt <= had.RegisteredAt
}

// over is the row of a device that is registered again. Each registration has a later time than the one before.
// The state stays if the push service spoke of the device after it registered.
func (r *deviceRow) over(had deviceRow) {
	if r.dated && (had.DroppedAt != nil && r.RegisteredAt <= *had.DroppedAt || had.DroppedAt == nil && r.RegisteredAt <= had.RegisteredAt) {
		r.State, r.Reason, r.DroppedAt = had.State, had.Reason, had.DroppedAt
	}
	r.RegisteredAt = max(r.RegisteredAt, had.RegisteredAt+1)
}

// lockDevice reads a token's row under its lock; nil when there is none.
func (db *DB) lockDevice(ctx context.Context, tx *sqlx.Tx, w DeviceWrite) (*deviceRow, error) {
	var row deviceRow
	err := tx.GetContext(ctx, &row, "SELECT "+deviceColumns+" FROM devices WHERE token = ?"+db.d.forUpdate, w.Token)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if row.User != w.User && row.User != w.Owner {
		return nil, ErrOwnerChanged
	}
	return &row, nil
}

// onDevice ends an INSERT that replaces the rows of known tokens.
func (d dialect) onDevice() string {
	return d.onConflict("devices", "token", []string{"user_id", "platform", "topic", "environment", "locale", "target", "state", "reason", "registered_at", "dropped_at",
		"object", "attributes_type", "ends_at"})
}

// devicesOf reads the devices of a user. Those that were dropped longest ago come first among those
// that were dropped.
func devicesOf(ctx context.Context, tx *sqlx.Tx, user string) (have []deviceRow, err error) {
	err = tx.SelectContext(ctx, &have, "SELECT "+deviceColumns+" FROM devices WHERE user_id = ? AND object = '' ORDER BY dropped_at", user)
	return have, err
}

// DeleteDevice removes a user's device. If the token does not belong to this user, nothing changes,
// and that is no error.
func (db *DB) DeleteDevice(ctx context.Context, user, token string) (Change, error) {
	return db.writeSettings(ctx, settingsWrite{users: []string{user}, tokens: []string{token}, do: func(ctx context.Context, tx *sqlx.Tx, _ int64) error {
		return changed(tx.ExecContext(ctx, "DELETE FROM devices WHERE token = ? AND user_id = ? AND object = ''", token, user))
	}})
}

// StateChange is what a push service said about a device that was registered at RegisteredAt.
type StateChange struct {
	State        api.DeviceState
	Reason       string
	RegisteredAt api.Time
	// At is the time since which the token is not active according to APNs. If it is zero, the
	// database's time is used.
	At api.Time
}

// SetDeviceState marks a device as active, suspect or dropped. It changes nothing if the device was
// registered again since RegisteredAt or later than At, if it is gone, or if it is already dropped.
func (db *DB) SetDeviceState(ctx context.Context, w DeviceWrite, v StateChange) (c Change, err error) {
	var told []string
	c, err = db.writeSettings(ctx, settingsWrite{users: w.Users(), tokens: w.Tokens(), do: func(ctx context.Context, tx *sqlx.Tx, now int64) error {
		row, err := db.lockDevice(ctx, tx, w)
		if err != nil {
			return err
		}
		if row == nil || !v.applies(*row) {
			return errUnchanged
		}
		row.State, row.Reason, row.DroppedAt = string(v.State), shorten(v.Reason), nil
		if v.State == api.DeviceDropped {
			row.DroppedAt = &now
			if !v.At.IsZero() {
				row.DroppedAt = new(v.At.UnixMilli())
			}
		}
		if err := insertDevices(ctx, tx, []deviceRow{*row}, db.d.onDevice()); err != nil {
			return err
		}
		if v.State == api.DeviceDropped && row.Object == "" && w.Tells != nil && w.Tells() {
			told, err = db.tellFacts(ctx, tx, []OutboxRow{row.dropped(row.Reason, now)})
		}
		return err
	}})
	c.Told = told
	return c, err
}

func (c StateChange) applies(r deviceRow) bool {
	switch {
	case r.RegisteredAt > c.RegisteredAt.UnixMilli():
		return false
	case !c.At.IsZero() && r.RegisteredAt > c.At.UnixMilli():
		return false
	}
	return r.State != string(api.DeviceDropped) && r.State != string(c.State)
}

// shorten makes a reason fit its column. Reasons come from outside and may contain anything;
// every character that is not printable ASCII becomes a question mark.
func shorten(reason string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, reason)
	return clean[:min(len(clean), maxReason)]
}

func (r deviceRow) device() api.Device {
	return api.Device{Token: r.Token, Platform: r.Platform, Topic: r.Topic, Environment: api.Environment(r.Environment),
		Locale: r.Locale, Target: r.Target, Origin: api.OriginOf(r.Target), State: api.DeviceState(r.State), Reason: r.Reason,
		RegisteredAt: api.AtMillis(r.RegisteredAt), DroppedAt: timeOf(r.DroppedAt), Live: r.live()}
}
