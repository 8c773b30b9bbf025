package record

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// An activity is a row of devices that has an object. Its token is registered, handed over, marked and removed as that of a
// device is, and is no device in lists, counts and limits.

// live is what makes an activity of a device; nil for a device.
func (r *deviceRow) live() *api.DeviceLive {
	if r.Object == "" {
		return nil
	}
	l := &api.DeviceLive{Object: r.Object, AttributesType: r.AttributesType}
	if r.EndsAt != nil {
		l.EndsAt = *r.EndsAt
	}
	return l
}

// PutActivity registers an activity for a user under w.Token, and takes the token from the user who had it, as PutDevice does
// a device. target is its api.Device.Target. A user has at most api.MaxActivities that have not ended. An activity of an Android phone needs the phone as a
// device of the same user.
func (db *DB) PutActivity(ctx context.Context, w DeviceWrite, r *api.ActivityRequest, target string) (done *api.Activity, created bool, c Change, err error) {
	c, err = db.writeSettings(ctx, settingsWrite{users: w.Users(), tokens: w.Tokens(), do: func(ctx context.Context, tx *sqlx.Tx, now int64) error {
		row := deviceRow{Token: w.Token, User: w.User, Platform: r.Platform, Topic: r.Topic, Environment: string(r.Environment), Locale: r.Locale,
			Target: target, State: string(api.DeviceActive), RegisteredAt: now, Object: r.Object, AttributesType: r.AttributesType}
		if err := row.endActivity(r, now); err != nil {
			return err
		}
		list := []deviceRow{row}
		old, err := db.lockDevices(ctx, tx, list, map[string]string{w.Token: w.Owner})
		if err != nil {
			return err
		}
		if err := roomForActivity(ctx, tx, &row, now); err != nil {
			return err
		}
		if err := db.saveDevices(ctx, tx, list, old); err != nil {
			return err
		}
		had := old[w.Token]
		device := list[0].device()
		done, created = new(device.Activity()), had.User != w.User || had.Object == ""
		return nil
	}})
	if err != nil {
		return nil, false, Change{}, err
	}
	return done, created, c, nil
}

// endActivity sets when an activity ends that is registered now.
func (r *deviceRow) endActivity(req *api.ActivityRequest, now int64) error {
	if req.Kind == api.ActivityStart {
		r.Object = api.LiveStarts
		return nil
	}
	latest := now + api.MaxActivityLife.Milliseconds()
	r.EndsAt = &latest
	if req.EndsAt == nil {
		return nil
	}
	switch ends := req.EndsAt.UnixMilli(); {
	case ends <= now:
		return api.Invalid("ends_at", "future", "must be in the future")
	case ends > latest+maxAhead:
		return api.Invalid("ends_at", "max", "must be at most %d hours ahead", api.MaxActivityLife/time.Hour)
	default:
		r.EndsAt = new(min(ends, latest))
	}
	return nil
}

// roomForActivity makes sure that one more activity of a user fits, and removes those of the user that have ended.
func roomForActivity(ctx context.Context, tx *sqlx.Tx, r *deviceRow, now int64) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM devices WHERE user_id = ? AND object <> '' AND token <> ? AND (state = 'dropped' OR ends_at <= ?)", r.User, r.Token, now)
	if err != nil {
		return err
	}
	var others, phones int
	if err := tx.GetContext(ctx, &others, "SELECT COUNT(*) FROM devices WHERE user_id = ? AND object <> '' AND token <> ?", r.User, r.Token); err != nil {
		return err
	}
	if others >= api.MaxActivities {
		return api.Invalid("token", "max", "would be one more than the %d activities a user may have", api.MaxActivities)
	}
	phone, own, ok := api.LiveTarget(r.Target)
	if !ok || own != "" {
		return nil
	}
	err = tx.GetContext(ctx, &phones, "SELECT COUNT(*) FROM devices WHERE token = ? AND user_id = ? AND object = '' AND state <> 'dropped'", phone, r.User)
	if err == nil && phones == 0 {
		err = api.Invalid("token", "device", "is no device of the user; register the phone first")
	}
	return err
}

// LiveActivities lists a user's activities that have not ended, by the token under which they are kept.
func (db *DB) LiveActivities(ctx context.Context, user string) ([]api.Device, error) {
	var list []deviceRow
	err := db.list(ctx, &list, "SELECT "+deviceColumns+" FROM devices WHERE user_id = ? AND object <> '' AND state <> 'dropped'"+
		" AND (ends_at IS NULL OR ends_at > "+db.d.now+") ORDER BY token", user)
	out := make([]api.Device, len(list))
	for i := range list {
		out[i] = list[i].device()
	}
	return out, err
}

// Tokens lists the tokens of a user's devices and activities, dropped ones too.
func (db *DB) Tokens(ctx context.Context, user string) (tokens []string, err error) {
	err = db.list(ctx, &tokens, "SELECT token FROM devices WHERE user_id = ? ORDER BY token", user)
	return tokens, err
}

// DeleteActivities removes activities of a user by the tokens under which they are kept. Those of another user stay.
func (db *DB) DeleteActivities(ctx context.Context, user string, tokens []string) (Change, error) {
	return db.writeSettings(ctx, settingsWrite{users: []string{user}, tokens: tokens, do: func(ctx context.Context, tx *sqlx.Tx, _ int64) error {
		return changed(execIn(ctx, tx, "DELETE FROM devices WHERE token IN (?) AND user_id = ? AND object <> ''", tokens, user))
	}})
}

// PurgeActivities removes activities that ended a minute ago. It reads all activities, and no device.
func (db *DB) PurgeActivities(ctx context.Context) (more bool, err error) {
	var tokens []string
	err = db.list(ctx, &tokens, "SELECT token FROM devices WHERE object > '' AND ends_at < "+db.d.now+" - 60000 LIMIT ?", chunk)
	if err != nil || len(tokens) == 0 {
		return false, err
	}
	err = db.exec(ctx, "DELETE FROM devices WHERE token IN (?) AND object <> '' AND ends_at < "+db.d.now, tokens)
	return len(tokens) == chunk, err
}
