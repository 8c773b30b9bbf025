package record

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// KindDevices says that a batch of devices was registered; subject is the id of its row, payload the
// BatchSubjects as JSON (store/devices). Builds that do not know the kind leave the row alone.
const KindDevices = "devices"

// BatchSubjects names what a batch of devices changed: the users whose settings have a new version,
// among them those who lost a token, and the tokens.
type BatchSubjects struct {
	Users  []string `json:"users"`
	Tokens []string `json:"tokens"`
}

// DeviceBatch is a batch of devices, with the users who owned the tokens when the writer read
// them. No token occurs twice, and each is in lower case.
type DeviceBatch struct {
	Devices []api.DeviceEntry
	Owners  map[string]string // by token; a token without an owner is absent
	Tells   func() bool       // as in DeviceWrite
}

// Subjects names what the batch changes, each list in order.
func (b DeviceBatch) Subjects() BatchSubjects {
	users, tokens := make(map[string]struct{}, len(b.Devices)), make([]string, len(b.Devices))
	for i := range b.Devices {
		users[b.Devices[i].User], tokens[i] = struct{}{}, b.Devices[i].Token
		if owner := b.Owners[tokens[i]]; owner != "" {
			users[owner] = struct{}{}
		}
	}
	slices.Sort(tokens)
	return BatchSubjects{Users: slices.Sorted(maps.Keys(users)), Tokens: tokens}
}

// DeviceOwners names the users to whom tokens belong; unknown tokens are absent.
func (db *DB) DeviceOwners(ctx context.Context, tokens []string) (map[string]string, error) {
	found, err := db.DevicesByToken(ctx, tokens...)
	owners := make(map[string]string, len(found))
	for token, d := range found {
		owners[token] = d.User
	}
	return owners, err
}

// PutDevices registers a batch of devices as PutDevice does each of them, all or none, once per
// idempotency key. It refuses devices that would be one more than their users may have, and names
// each of them. A Change without users is the replay of an earlier call.
func (db *DB) PutDevices(ctx context.Context, b DeviceBatch, once api.Idempotency) (c Change, replayed bool, err error) {
	subjects := b.Subjects()
	payload, _ := json.Marshal(subjects) // strings always marshal
	row := newOutboxRow(KindDevices, "", string(payload))
	row.Subject = row.ID
	var done struct{}
	replayed, err = db.onceInTurn(ctx, once, &done, func(ctx context.Context, tx *sqlx.Tx) error {
		users, now, err := db.lockSettings(ctx, tx, subjects.Users)
		if err != nil {
			return err
		}
		list, err := b.rows(now)
		if err != nil {
			return err
		}
		list, old, err := db.putDevices(ctx, tx, list, b.Owners)
		if err != nil {
			return err
		}
		c = Change{Users: users, Devices: make(map[string]OwnedDevice, len(b.Devices))}
		for _, r := range slices.Concat(slices.Collect(maps.Values(old)), list) {
			c.Devices[r.Token] = OwnedDevice{User: r.User, Device: r.device()}
		}
		if b.Tells != nil && b.Tells() {
			if c.Told, err = db.tellFacts(ctx, tx, movedDevices(list, old, now)); err != nil {
				return err
			}
		}
		return db.announce(ctx, tx, []OutboxRow{row})
	})
	if err != nil || replayed {
		return Change{}, replayed, err
	}
	return c, false, nil
}

// rows are the rows of a batch that is registered now. Its error names each time that is in the future.
func (b DeviceBatch) rows(now int64) ([]deviceRow, error) {
	var wrong []api.FieldError
	list := make([]deviceRow, len(b.Devices))
	for i := range b.Devices {
		d := &b.Devices[i]
		list[i] = deviceRow{Token: d.Token, User: d.User, Platform: d.Platform, Topic: d.Topic,
			Environment: string(d.Environment), Locale: d.Locale, Target: d.Target(), State: string(api.DeviceActive), RegisteredAt: now,
			field: fmt.Sprintf("devices[%d].%s", i, d.TokenField())}
		wrong = append(wrong, list[i].date(d.RegisteredAt, fmt.Sprintf("devices[%d].registered_at", i))...)
	}
	return list, api.InvalidFields(wrong)
}

// putDevices writes the rows of devices that are registered, in the order of their tokens, so that two
// writers lock them in the same order. It returns the rows that are registered, which are those that did not register
// for another user later, and the rows that known tokens had. Each of these tokens gets a later time than before.
// owners are the tokens' owners as the writer read them.
func (db *DB) putDevices(ctx context.Context, tx *sqlx.Tx, list []deviceRow, owners map[string]string) (registered []deviceRow, old map[string]deviceRow, err error) {
	if old, err = db.lockDevices(ctx, tx, list, owners); err != nil {
		return nil, nil, err
	}
	list = slices.DeleteFunc(list, func(r deviceRow) bool { return r.before(old[r.Token]) })
	if err := db.makeRooms(ctx, tx, list, old); err != nil {
		return nil, nil, err
	}
	return list, old, db.saveDevices(ctx, tx, list, old)
}

// saveDevices writes the rows of devices or activities that are registered, of which old has those that are on record.
func (db *DB) saveDevices(ctx context.Context, tx *sqlx.Tx, list []deviceRow, old map[string]deviceRow) error {
	added, saved := make([]deviceRow, 0, len(list)), make([]deviceRow, 0, len(old))
	for i := range list {
		r := &list[i]
		switch had, known := old[r.Token]; {
		case !known:
			added = append(added, *r)
		default:
			r.over(had)
			saved = append(saved, *r)
		}
	}
	// If another writer was faster, its rows are not touched, because their users are not locked.
	if err := insertDevices(ctx, tx, added, ""); duplicate(err) {
		return ErrOwnerChanged
	} else if err != nil {
		return err
	}
	return insertDevices(ctx, tx, saved, db.d.onDevice())
}

// lockDevices reads the rows of tokens under their locks, by token.
func (db *DB) lockDevices(ctx context.Context, tx *sqlx.Tx, list []deviceRow, owners map[string]string) (map[string]deviceRow, error) {
	tokens := make([]string, len(list))
	for i := range list {
		tokens[i] = list[i].Token
	}
	slices.Sort(tokens)
	old := make(map[string]deviceRow, len(tokens))
	for part := range slices.Chunk(tokens, chunk) {
		var found []deviceRow
		query := "SELECT " + deviceColumns + " FROM devices WHERE token IN (?) ORDER BY token" + db.d.forUpdate
		if err := selectIn(ctx, tx, &found, query, part); err != nil {
			return nil, err
		}
		for _, r := range found {
			old[r.Token] = r
		}
	}
	for _, r := range list {
		if had, known := old[r.Token]; known && had.User != r.User && had.User != owners[r.Token] {
			return nil, ErrOwnerChanged
		}
	}
	return old, nil
}

// insertDevices writes rows in the order of their tokens.
func insertDevices(ctx context.Context, tx *sqlx.Tx, list []deviceRow, onConflict string) error {
	slices.SortFunc(list, func(a, b deviceRow) int { return strings.Compare(a.Token, b.Token) })
	for part := range slices.Chunk(list, chunk) {
		args := make([]any, 0, 14*len(part))
		for _, r := range part {
			args = append(args, r.Token, r.User, r.Platform, r.Topic, r.Environment, r.Locale, r.Target, r.State, r.Reason, r.RegisteredAt, r.DroppedAt,
				r.Object, r.AttributesType, r.EndsAt)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO devices ("+deviceColumns+") VALUES "+
			rows("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", len(part))+onConflict, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// makeRooms makes sure that the new devices of each user fit. It removes the devices that were dropped
// longest ago, announces their guards, which name the user, and names the new ones that do not fit.
func (db *DB) makeRooms(ctx context.Context, tx *sqlx.Tx, list []deviceRow, old map[string]deviceRow) error {
	more, to := map[string][]int{}, make(map[string]string, len(list))
	for i := range list {
		d := &list[i]
		to[d.Token] = d.User
		if had, known := old[d.Token]; !known || had.User != d.User || had.Object != "" {
			more[d.User] = append(more[d.User], i)
		}
	}
	tight, err := tightUsers(ctx, tx, more)
	if err != nil {
		return err
	}
	var full []int
	var removed []string
	for _, user := range slices.Sorted(maps.Keys(tight)) {
		// A device that the batch gives to another user leaves, and one that it revives stays.
		have := slices.DeleteFunc(tight[user], func(d deviceRow) bool { return to[d.Token] != "" && to[d.Token] != user })
		excess := len(have) + len(more[user]) - api.MaxDevices
		for _, d := range have {
			if excess > 0 && d.State == string(api.DeviceDropped) && to[d.Token] == "" {
				excess--
				if _, err := tx.ExecContext(ctx, "DELETE FROM devices WHERE token = ?", d.Token); err != nil {
					return err
				}
				removed = append(removed, d.Token)
			}
		}
		full = append(full, more[user][len(more[user])-max(excess, 0):]...)
	}
	slices.Sort(full)
	fields := make([]api.FieldError, len(full))
	for i, n := range full {
		fields[i] = api.FieldError{Field: list[n].field, Rule: "max",
			Message: fmt.Sprintf("would be one more than the %d devices a user may have", api.MaxDevices)}
	}
	return cmp.Or(api.InvalidFields(fields), db.announce(ctx, tx, guardRows(removed, "")))
}

// tightUsers returns the devices on record of those users who would have too many with more of
// them, by user.
func tightUsers(ctx context.Context, tx *sqlx.Tx, more map[string][]int) (map[string][]deviceRow, error) {
	has := map[string]int{}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(more)), chunk) {
		var counts []struct {
			User    string `db:"user_id"`
			Devices int    `db:"devices"`
		}
		err := selectIn(ctx, tx, &counts, "SELECT user_id, COUNT(*) AS devices FROM devices WHERE user_id IN (?) AND object = '' GROUP BY user_id", part)
		if err != nil {
			return nil, err
		}
		for _, c := range counts {
			has[c.User] = c.Devices
		}
	}
	tight := map[string][]deviceRow{}
	for user, added := range more {
		if has[user]+len(added) <= api.MaxDevices {
			continue
		}
		have, err := devicesOf(ctx, tx, user)
		if err != nil {
			return nil, err
		}
		tight[user] = have
	}
	return tight, nil
}
