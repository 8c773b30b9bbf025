package devices

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"fanfare/store/queue"
	"fanfare/store/record"
)

// guardRounds is how often a guard is written again because another writer was faster, so that as many
// writers at once all succeed.
const guardRounds = 30

// Outbox returns the handlers that relay changes of settings to Redis, by kind of row. They
// repeat what a writer has already relayed itself.
func (s *Store) Outbox() map[string]record.OutboxHandler {
	return map[string]record.OutboxHandler{
		record.KindSettings: s.relaySettings,
		record.KindGuard: relaySubjects(func(ctx context.Context, tokens []string) ([]string, error) {
			return s.writeGuards(ctx, settingsChange{tokens: tokens})
		}),
		record.KindDevices: record.RowByRow(s.relayBatch),
	}
}

// relaySettings relays the users of rows. A row that names activities which made room is done once the rows of their guards that
// were made with it or before are. Later ones do not count: a user who registers the same tokens again and again always has some.
func (s *Store) relaySettings(ctx context.Context, rows []record.OutboxRow) (done []string, err error) {
	done, err = relaySubjects(s.relayUsers)(ctx, rows)
	waiting := map[string][]string{} // the ids of rows, by token
	for _, r := range rows {
		for _, token := range r.Gone() {
			waiting[token] = append(waiting[token], r.ID)
		}
	}
	oldest, failed := s.rec.OldestGuards(ctx, slices.Sorted(maps.Keys(waiting)))
	waits := map[string]bool{}
	for token, ids := range waiting {
		open, found := oldest[token]
		for _, id := range ids {
			waits[id] = waits[id] || failed != nil || found && open <= id
		}
	}
	return slices.DeleteFunc(done, func(row string) bool { return waits[row] }), cmp.Or(err, failed)
}

// relayBatch relays the users and then the tokens of a batch of devices.
func (s *Store) relayBatch(ctx context.Context, row record.OutboxRow) error {
	var of record.BatchSubjects
	if err := json.Unmarshal([]byte(row.Payload), &of); err != nil {
		return err
	}
	_, err := s.relayUsers(ctx, of.Users)
	_, failed := s.writeGuards(ctx, settingsChange{tokens: of.Tokens}) // also if a user's master is away
	return errors.Join(err, failed)
}

// relaySubjects relays the subjects of rows, each once. The rows of those that relay returns are done: a
// master that is away holds up no rows of others.
func relaySubjects(relay func(context.Context, []string) ([]string, error)) record.OutboxHandler {
	return func(ctx context.Context, rows []record.OutboxRow) (done []string, err error) {
		subjects := map[string][]string{} // the ids of their rows
		for _, r := range rows {
			subjects[r.Subject] = append(subjects[r.Subject], r.ID)
		}
		relayed, err := relay(ctx, slices.Sorted(maps.Keys(subjects)))
		for _, subject := range relayed {
			done = append(done, subjects[subject]...)
		}
		return done, err
	}
}

// relayUsers stores the versions on record, and returns the users for whom Redis did so. It reads the
// versions when it runs, so that a late or repeated call does no harm.
func (s *Store) relayUsers(ctx context.Context, users []string) ([]string, error) {
	found, err := s.rec.UserVersions(ctx, users)
	if err != nil {
		return nil, err
	}
	versions := make([]record.UserVersion, len(users))
	for i, u := range users {
		versions[i] = record.UserVersion{User: u, Version: found[u]} // 0 for an erased user stores nothing
	}
	return s.storeVersions(ctx, "", versions)
}

// writeGuards writes the guards of a change's tokens as the record has them, and returns the tokens for which
// Redis did so. A guard is written only if it has not changed since it was read, which was before the record
// was read: the guard that is written last has the newest record, however many writers there are.
func (s *Store) writeGuards(ctx context.Context, c settingsChange) (written []string, err error) {
	var failed error
	tokens, devices, old := c.tokens, c.devices, map[string]string{}
	maps.Copy(old, c.guards)
	for round := 0; len(tokens) > 0; round++ {
		if round == guardRounds {
			return written, errors.New("write guards: the devices keep changing")
		}
		if devices == nil {
			if devices, err = s.rec.DevicesByToken(ctx, tokens...); err != nil {
				return written, err
			}
		}
		guards := s.guardsOf(tokens, old, devices)
		failed = cmp.Or(failed, s.setGuards(ctx, guards))
		var again []string
		for i, g := range guards {
			switch {
			case g.Err != nil:
			case g.Old == g.Value:
				written = append(written, tokens[i])
			default:
				again, old[tokens[i]] = append(again, tokens[i]), g.Old
			}
		}
		tokens, devices = again, nil
	}
	return written, failed
}

// guardsOf makes the guards of tokens. old is what was read of them, and devices has the devices on record.
func (s *Store) guardsOf(tokens []string, old map[string]string, devices map[string]record.OwnedDevice) []queue.Guard {
	guards := make([]queue.Guard, len(tokens))
	for i, t := range tokens {
		d, known := devices[t]
		guards[i] = queue.Guard{Shard: s.guards.Route(t), Name: GuardName(t), Old: old[t], Value: guardOf(d, known)}
	}
	return guards
}
