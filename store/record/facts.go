package record

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// KindFact is the kind of the rows of facts that steps on record made true. The subject is the fact's key, the payload the Fact as
// JSON (store/facts).
const KindFact = "fact"

// Fact is what a row of KindFact tells.
type Fact struct {
	Type string `json:"t"`
	// At is when it happened, by the database's clock, in ms since the Unix epoch.
	At   int64           `json:"a"`
	Data json.RawMessage `json:"d"`
}

// row is the row that tells a fact about a key.
func (f Fact) row(key string) OutboxRow {
	payload, _ := json.Marshal(f) // the data is valid JSON
	return newOutboxRow(KindFact, key, string(payload))
}

// tellFacts writes the rows of facts as part of the transaction that makes them true, and returns their keys, each once.
func (db *DB) tellFacts(ctx context.Context, tx *sqlx.Tx, out []OutboxRow) (keys []string, err error) {
	for _, row := range out {
		keys = append(keys, row.Subject)
	}
	slices.Sort(keys)
	return slices.Compact(keys), db.announce(ctx, tx, out)
}

// OpenFacts reads the open rows of KindFact about some keys. Those of a key come in the order in which they were made.
func (db *DB) OpenFacts(ctx context.Context, keys []string) (open []OutboxRow, err error) {
	for part := range slices.Chunk(keys, chunk) {
		var found []OutboxRow
		err := db.list(ctx, &found, "SELECT id, kind, subject, payload FROM outbox WHERE kind = ? AND subject IN (?) ORDER BY created_at, id", KindFact, part)
		if err != nil {
			return nil, err
		}
		open = append(open, found...)
	}
	return open, nil
}

// ReasonMoved is why a user has lost a device that another user registered.
const ReasonMoved = "moved"

// droppedFact is what is told of a device that its user has lost.
type droppedFact struct {
	User        string          `json:"user"`
	Device      string          `json:"device"` // as in dead letters: the begin of its token
	Platform    api.Platform    `json:"platform"`
	Topic       string          `json:"topic,omitempty"`
	Environment api.Environment `json:"environment,omitempty"`
	Reason      string          `json:"reason"`
}

// dropped is the row that tells that the user has lost the device.
func (r *deviceRow) dropped(reason string, now int64) OutboxRow {
	env := api.Environment(r.Environment)
	data, _ := json.Marshal(droppedFact{User: r.User, Device: api.ShortToken(r.Token), Platform: api.PlatformOf(r.Token, env), Topic: r.Topic,
		Environment: env, Reason: reason}) // texts always marshal
	return Fact{Type: api.FactDeviceDropped, At: now, Data: data}.row(api.TokenDigest(r.Token))
}

// movedDevices are the rows that tell which users have lost a device to the rows that are registered. old has those that were on
// record.
func movedDevices(list []deviceRow, old map[string]deviceRow, now int64) (out []OutboxRow) {
	for _, r := range list {
		had, known := old[r.Token]
		if known && had.User != r.User && had.Object == "" && had.State != string(api.DeviceDropped) {
			out = append(out, had.dropped(ReasonMoved, now))
		}
	}
	return out
}
