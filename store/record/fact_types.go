package record

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
)

// FactType is a type of facts that are written, and from when on (Unix ms) none is missing.
type FactType struct {
	Type  string `db:"type"`
	Since int64  `db:"since"`
}

// FactTypes reads the types of which facts are written, by name.
func (db *DB) FactTypes(ctx context.Context) ([]FactType, error) {
	var found []FactType
	err := db.list(ctx, &found, "SELECT type, since FROM fact_types ORDER BY type")
	return found, err
}

// PutFactTypes makes these types, and no others, those of which facts are written, and returns them by name. A type that was
// among them before keeps its time. The time of another one is so many ms from now, by which all processes must know of it. A
// change raises VersionFacts.
func (db *DB) PutFactTypes(ctx context.Context, types []string, known int64) (set []FactType, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		set = nil
		if err := db.raise(ctx, tx, VersionFacts); err != nil { // its row lock makes changes wait for each other
			return err
		}
		var old []FactType
		if err := tx.SelectContext(ctx, &old, "SELECT type, since FROM fact_types ORDER BY type"); err != nil {
			return err
		}
		now, err := db.now(ctx, tx)
		if err != nil {
			return err
		}
		var added []FactType
		for _, t := range slices.Sorted(slices.Values(types)) {
			if i := slices.IndexFunc(old, func(o FactType) bool { return o.Type == t }); i >= 0 {
				set = append(set, old[i])
				continue
			}
			added = append(added, FactType{t, now + known})
			set = append(set, FactType{t, now + known})
		}
		if len(added) == 0 && len(set) == len(old) {
			return errUnchanged
		}
		return writeFactTypes(ctx, tx, old, set, added)
	})
	if err != nil {
		return nil, fmt.Errorf("put fact types: %w", err)
	}
	return set, nil
}

// writeFactTypes removes the old types that are not in the set, and adds others.
func writeFactTypes(ctx context.Context, tx *sqlx.Tx, old, set, added []FactType) error {
	for _, o := range old {
		if slices.Contains(set, o) {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM fact_types WHERE type = ?", o.Type); err != nil {
			return err
		}
	}
	for _, a := range added {
		if _, err := tx.ExecContext(ctx, "INSERT INTO fact_types (type, since) VALUES (?, ?)", a.Type, a.Since); err != nil {
			return err
		}
	}
	return nil
}
