package devices

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"fanfare/store/queue"
	"fanfare/store/record"
)

// guardRounds is how often a guard is written again because the record changed while the
// guard was written.
const guardRounds = 4

// Outbox returns the handlers that relay changes of settings to Redis, by kind of row. They
// repeat what a writer has already relayed itself.
func (s *Store) Outbox() map[string]record.OutboxHandler {
	return map[string]record.OutboxHandler{
		record.KindSettings: relaySubjects(s.relayUsers),
		record.KindGuard: relaySubjects(func(ctx context.Context, tokens []string) error {
			return s.writeGuards(ctx, tokens...)
		}),
		record.KindDevices: record.RowByRow(s.relayBatch),
	}
}

// relayBatch relays the users and then the tokens of a batch of devices.
func (s *Store) relayBatch(ctx context.Context, row record.OutboxRow) error {
	var of record.BatchSubjects
	if err := json.Unmarshal([]byte(row.Payload), &of); err != nil {
		return err
	}
	if err := s.relayUsers(ctx, of.Users); err != nil {
		return err
	}
	return s.writeGuards(ctx, of.Tokens...)
}

// relaySubjects relays the subjects of rows, each once: either all are done, or none is.
func relaySubjects(relay func(context.Context, []string) error) record.OutboxHandler {
	return func(ctx context.Context, rows []record.OutboxRow) ([]string, error) {
		ids, subjects := make([]string, len(rows)), make(map[string]struct{}, len(rows))
		for i, r := range rows {
			ids[i], subjects[r.Subject] = r.ID, struct{}{}
		}
		if err := relay(ctx, slices.Sorted(maps.Keys(subjects))); err != nil {
			return nil, err
		}
		return ids, nil
	}
}

// relayUsers stores the versions on record. It reads them when it runs, so that a late or
// repeated call does no harm.
func (s *Store) relayUsers(ctx context.Context, users []string) error {
	found, err := s.rec.UserVersions(ctx, users)
	if err != nil {
		return err
	}
	versions := make([]record.UserVersion, 0, len(found))
	for u, v := range found {
		versions = append(versions, record.UserVersion{User: u, Version: v})
	}
	return s.storeVersions(ctx, "", versions)
}

// writeGuards writes the guards of these tokens as the record has them. Two writers may do so at
// once in any order: each reads the record again after writing, and writes the guards of devices
// that changed meanwhile once more.
func (s *Store) writeGuards(ctx context.Context, tokens ...string) error {
	truth, err := s.rec.DevicesByToken(ctx, tokens...)
	if err != nil {
		return err
	}
	return s.writeGuardsOf(ctx, tokens, truth)
}

// writeGuardsOf is writeGuards for a caller that has read or written the devices.
func (s *Store) writeGuardsOf(ctx context.Context, tokens []string, truth map[string]record.OwnedDevice) error {
	for range guardRounds {
		if err := s.setGuards(ctx, s.guardsOf(tokens, truth)); err != nil {
			return err
		}
		now, err := s.rec.DevicesByToken(ctx, tokens...)
		if err != nil {
			return err
		}
		tokens = slices.DeleteFunc(slices.Clone(tokens), func(t string) bool { return guardIn(truth, t) == guardIn(now, t) })
		if len(tokens) == 0 {
			return nil
		}
		truth = now
	}
	return errors.New("write guards: the devices keep changing")
}

func (s *Store) guardsOf(tokens []string, truth map[string]record.OwnedDevice) []queue.Guard {
	guards := make([]queue.Guard, len(tokens))
	for i, t := range tokens {
		guards[i] = queue.Guard{Shard: s.guards.Route(t), Name: GuardName(t), Value: guardIn(truth, t)}
	}
	return guards
}

func guardIn(truth map[string]record.OwnedDevice, token string) string {
	d, known := truth[token]
	return guardOf(d, known)
}
