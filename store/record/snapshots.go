package record

import (
	"context"
	"slices"

	"fanfare/api"
)

// snapshotChunk is the most users one query reads: a whole page of targeting.
const snapshotChunk = 1000

// Snapshot has the data of one user that targeting needs: the settings, and the devices and activities that get
// notifications, active and suspect. It is at least as new as Version.
type Snapshot struct {
	Version int64
	Devices []api.Device
	OptOuts []string
	Mutes   []api.Mute
}

// Snapshots reads many users at once, one query per table for each 1,000 users.
// Users without settings have an empty snapshot. Mutes that are over are left out.
func (db *DB) Snapshots(ctx context.Context, users []string) (map[string]*Snapshot, error) {
	found := make(map[string]*Snapshot, len(users))
	for _, u := range users {
		found[u] = &Snapshot{}
	}
	for part := range slices.Chunk(users, snapshotChunk) {
		// Versions come first: settings that are read after them are never older.
		for _, read := range []func(context.Context, []string, map[string]*Snapshot) error{
			db.readVersions, db.readDevices, db.readOptOuts, db.readMutes,
		} {
			if err := read(ctx, part, found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// UserVersions reads the versions of many users; a user never written has 0.
func (db *DB) UserVersions(ctx context.Context, users []string) (map[string]int64, error) {
	found := make(map[string]*Snapshot, len(users))
	for _, u := range users {
		found[u] = &Snapshot{}
	}
	for part := range slices.Chunk(users, snapshotChunk) {
		if err := db.readVersions(ctx, part, found); err != nil {
			return nil, err
		}
	}
	versions := make(map[string]int64, len(found))
	for u, s := range found {
		versions[u] = s.Version
	}
	return versions, nil
}

func (db *DB) readVersions(ctx context.Context, users []string, found map[string]*Snapshot) error {
	var list []UserVersion
	if err := db.list(ctx, &list, "SELECT user_id, version FROM user_settings WHERE user_id IN (?)", users); err != nil {
		return err
	}
	for _, r := range list {
		found[r.User].Version = r.Version
	}
	return nil
}

func (db *DB) readDevices(ctx context.Context, users []string, found map[string]*Snapshot) error {
	var list []deviceRow
	err := db.list(ctx, &list, "SELECT "+deviceColumns+" FROM devices WHERE user_id IN (?) AND state <> 'dropped' ORDER BY token", users)
	if err != nil {
		return err
	}
	for _, r := range list {
		found[r.User].Devices = append(found[r.User].Devices, r.device())
	}
	return nil
}

func (db *DB) readOptOuts(ctx context.Context, users []string, found map[string]*Snapshot) error {
	var list []struct {
		User string `db:"user_id"`
		Type string `db:"type"`
	}
	if err := db.list(ctx, &list, "SELECT user_id, type FROM opt_outs WHERE user_id IN (?) ORDER BY type", users); err != nil {
		return err
	}
	for _, r := range list {
		found[r.User].OptOuts = append(found[r.User].OptOuts, r.Type)
	}
	return nil
}

func (db *DB) readMutes(ctx context.Context, users []string, found map[string]*Snapshot) error {
	var list []muteRow
	err := db.list(ctx, &list, "SELECT user_id, object, until FROM mutes WHERE user_id IN (?) AND (until IS NULL OR until > "+db.d.now+
		") ORDER BY object", users)
	if err != nil {
		return err
	}
	for _, r := range list {
		found[r.User].Mutes = append(found[r.User].Mutes, api.Mute{Object: r.Object, Until: timeOf(r.Until)})
	}
	return nil
}

// Devices lists a user's devices, dropped ones too, by token. Activities are none.
func (db *DB) Devices(ctx context.Context, user string) ([]api.Device, error) {
	var list []deviceRow
	if err := db.list(ctx, &list, "SELECT "+deviceColumns+" FROM devices WHERE user_id = ? AND object = '' ORDER BY token", user); err != nil {
		return nil, err
	}
	devices := make([]api.Device, 0, len(list))
	for _, r := range list {
		devices = append(devices, r.device())
	}
	return devices, nil
}

// Settings reads a user's opt-outs, mutes that have not ended, and all devices.
func (db *DB) Settings(ctx context.Context, user string) (*api.NotificationSettings, error) {
	found := map[string]*Snapshot{user: {OptOuts: []string{}, Mutes: []api.Mute{}}}
	if err := db.readOptOuts(ctx, []string{user}, found); err != nil {
		return nil, err
	}
	if err := db.readMutes(ctx, []string{user}, found); err != nil {
		return nil, err
	}
	devices, err := db.Devices(ctx, user)
	if err != nil {
		return nil, err
	}
	return &api.NotificationSettings{OptOuts: found[user].OptOuts, Mutes: found[user].Mutes, Devices: devices}, nil
}
