package record

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
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
// a device. If it was a device, that is told as PutDevice tells it. target is its api.Device.Target. A user has at most
// api.MaxActivities that have not ended. An activity of FCM needs the phone as a device of the same user.
func (db *DB) PutActivity(ctx context.Context, w DeviceWrite, r *api.ActivityRequest, target string) (done *api.Activity, created bool, c Change, err error) {
	var gone, told []string
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
		made, err := roomForActivity(ctx, tx, &row, now)
		if err != nil {
			return err
		}
		if gone, err = db.announceGone(ctx, tx, w.User, made); err != nil {
			return err
		}
		if err := db.saveDevices(ctx, tx, list, old); err != nil {
			return err
		}
		had := old[w.Token]
		device := list[0].device()
		done, created = new(device.Activity()), had.User != w.User || had.Object == ""
		if w.Tells != nil && w.Tells() {
			told, err = db.tellFacts(ctx, tx, movedDevices(list, old, now))
		}
		return err
	}})
	if err != nil {
		return nil, false, Change{}, err
	}
	c.Gone, c.Told = gone, told
	return done, created, c, nil
}

// announceGone announces that activities of a user made room. It returns them with those of the user's earlier calls of which
// Redis may not know yet, because this one may be a repeat.
func (db *DB) announceGone(ctx context.Context, tx *sqlx.Tx, user string, gone []string) (all []string, err error) {
	var earlier []string
	err = tx.SelectContext(ctx, &earlier, "SELECT payload FROM outbox WHERE kind = ? AND subject = ? AND payload <> ''", KindSettings, user)
	if err != nil {
		return nil, err
	}
	all = gone
	for _, payload := range earlier {
		all = append(all, OutboxRow{Payload: payload}.Gone()...)
	}
	all = slices.Compact(slices.Sorted(slices.Values(all)))
	if len(gone) == 0 {
		return all, nil
	}
	payload, _ := json.Marshal(gone) // strings always marshal
	return all, db.announce(ctx, tx, append(guardRows(gone, ""), newOutboxRow(KindSettings, user, string(payload))))
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

// roomForActivity makes sure that one more activity of a user fits, and removes and returns those of the user that go before it does:
// they have ended, or the phone that they stand on is no device of the user, or they are start tokens that this one follows.
// On FCM the phone of the new activity must be a device of the user.
func roomForActivity(ctx context.Context, tx *sqlx.Tx, r *deviceRow, now int64) (gone []string, err error) {
	var all []deviceRow
	if err := tx.SelectContext(ctx, &all, "SELECT "+deviceColumns+" FROM devices WHERE user_id = ? AND token <> ? ORDER BY registered_at", r.User, r.Token); err != nil {
		return nil, err
	}
	phones := map[string]bool{}
	for i := range all {
		if a := &all[i]; a.Object == "" && a.State != string(api.DeviceDropped) {
			phones[a.Token] = true
		}
	}
	if !r.standsOn(phones) {
		field := "token"
		if _, own, _ := api.LiveTarget(r.Target); own != "" {
			field = "registration"
		}
		return nil, api.Invalid(field, "device", "is no device of the user; register the phone first")
	}
	var others []string
	for i := range all {
		switch a := &all[i]; {
		case a.Object == "":
		case a.State == string(api.DeviceDropped), a.EndsAt != nil && *a.EndsAt <= now, !a.standsOn(phones), r.follows(a):
			gone = append(gone, a.Token)
		default:
			others = append(others, a.Token)
		}
	}
	if len(others) >= api.MaxActivities {
		// APNs does not say which start token of a phone follows which.
		at := slices.IndexFunc(all, func(a deviceRow) bool { return slices.Contains(others, a.Token) && r.startsLike(&a) })
		if at < 0 {
			return nil, api.Invalid("token", "max", "would be one more than the %d activities a user may have", api.MaxActivities)
		}
		gone = append(gone, all[at].Token)
	}
	if len(gone) > 0 {
		_, err = execIn(ctx, tx, "DELETE FROM devices WHERE token IN (?) AND user_id = ? AND object <> ''", gone, r.User)
	}
	return gone, err
}

// standsOn reports whether an activity of FCM is one of these phones. On APNs it is on its own.
func (r *deviceRow) standsOn(phones map[string]bool) bool {
	phone, _, ok := api.LiveTarget(r.Target)
	return !ok || phones[phone]
}

// startsLike reports whether both are start tokens of the same type of activities of an app.
func (r *deviceRow) startsLike(a *deviceRow) bool {
	return r.Object == api.LiveStarts && a.Object == api.LiveStarts && r.AttributesType == a.AttributesType && r.Topic == a.Topic && r.Environment == a.Environment
}

// follows reports whether the token takes the place of an earlier start token of the same phone, which is known on FCM.
func (r *deviceRow) follows(a *deviceRow) bool {
	phone, _, ok := api.LiveTarget(r.Target)
	other, _, too := api.LiveTarget(a.Target)
	return ok && too && phone == other && r.startsLike(a)
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

// PurgeActivities removes activities that ended a minute ago, and announces their guards, which name their users. It reads no others.
func (db *DB) PurgeActivities(ctx context.Context) (more bool, err error) {
	var tokens []string
	err = db.list(ctx, &tokens, db.d.endedActivities(), chunk)
	if err != nil || len(tokens) == 0 {
		return false, err
	}
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		_, err := execIn(ctx, tx, "DELETE FROM devices WHERE token IN (?) AND object <> '' AND ends_at < "+db.d.now, tokens)
		return cmp.Or(err, db.announce(ctx, tx, guardRows(tokens, "")))
	})
	return len(tokens) == chunk, err
}

// endedActivities selects them. Devices have no end.
func (d dialect) endedActivities() string {
	return "SELECT token FROM devices WHERE ends_at < " + d.now + " - 60000 LIMIT ?"
}

// CountActivities counts the activities that show an object and have not ended, by platform, and stops at a limit.
func (db *DB) CountActivities(ctx context.Context, object string, limit int) (map[string]int64, error) {
	var rows []struct {
		Platform string `db:"platform"`
		N        int64  `db:"n"`
	}
	err := db.list(ctx, &rows, "SELECT platform, COUNT(*) AS n FROM (SELECT platform FROM devices WHERE object = ? AND state <> 'dropped'"+
		" AND (ends_at IS NULL OR ends_at > "+db.d.now+") LIMIT ?) AS shown GROUP BY platform", object, limit)
	counts := make(map[string]int64, len(rows))
	for _, r := range rows {
		counts[r.Platform] = r.N
	}
	return counts, err
}
