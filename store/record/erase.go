package record

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// The kinds of data that are counted when a user is erased.
const (
	ErasedDevices  = "devices"
	ErasedLive     = "activities"
	ErasedSettings = "settings" // opt-outs and mutes
	ErasedTopics   = "topics"
	ErasedContacts = "contacts"
	ErasedUploads  = "uploads"
	ErasedAnswers  = "idempotency_records"
)

// ErasedName stands for an erased user in the revocations, so that the end of the user's tokens
// stays on record without the user's name. It is no identifier, so no user has it.
func ErasedName(user string) string {
	sum := sha256.Sum256([]byte(user))
	return erasedMark + base64.RawURLEncoding.EncodeToString(sum[:])
}

const erasedMark = "#"

// IsErasedName reports whether a name was made by ErasedName.
func IsErasedName(name string) bool { return strings.HasPrefix(name, erasedMark) }

// StartErasure begins the operation that erases a user, and ends all tokens of the user that were
// issued up to that second of Redis' clock, as RevokeTokens does. While such an operation runs, its id
// is returned and nothing changes. redisMS is Redis' clock in ms since the Unix epoch. The operation
// counts as begun at the end of the second, by each clock.
func (db *DB) StartErasure(ctx context.Context, user string, redisMS int64) (id string, err error) {
	o := NewOperation{Action: api.ActionErase, Subject: user, Kind: KindErase, Since: endOfSecond(redisMS)}
	id, _, err = db.startOperation(ctx, o, api.Idempotency{}, func(ctx context.Context, tx *sqlx.Tx, id string, now int64) error {
		if err := db.raise(ctx, tx, VersionUserTokens); err != nil {
			return err
		}
		second := redisMS / 1000
		if _, err := tx.ExecContext(ctx, "UPDATE operations SET created_at = ? WHERE id = ?", endOfSecond(now), id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE operations SET settled_at = created_at WHERE id = ? AND EXISTS (SELECT 1 FROM user_settings WHERE user_id = ?)", id, user)
		return errors.Join(err, db.revoke(ctx, tx, user, second), db.revoke(ctx, tx, ErasedName(user), second))
	})
	return id, err
}

func endOfSecond(ms int64) int64 { return ms/1000*1000 + 999 }

// EndErasure puts on record that a user is erased, and what was kept, by kind. The revocation of
// the user's tokens stays under ErasedName alone.
func (db *DB) EndErasure(ctx context.Context, o *Operation, kept map[string]int64) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE operations SET kept = ? WHERE id = ?", countsText(kept), o.ID); err != nil {
			return err
		}
		if err := db.endOperation(ctx, tx, o.ID); err != nil {
			return err
		}
		if err := db.raise(ctx, tx, VersionUserTokens); err != nil {
			return err
		}
		var upTo []int64
		if err := tx.SelectContext(ctx, &upTo, "SELECT up_to FROM token_revocations WHERE user_id = ?"+db.d.forUpdate, o.Subject); err != nil || len(upTo) == 0 {
			return err
		}
		if err := db.revoke(ctx, tx, ErasedName(o.Subject), upTo[0]); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM token_revocations WHERE user_id = ?", o.Subject)
		return err
	})
}

// EraseSettings removes the devices, activities, opt-outs, mutes and topics that a user had when the operation
// began, counts them, and puts on record when that was.
func (db *DB) EraseSettings(ctx context.Context, o *Operation) (c Change, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		c = Change{}
		users, now, err := db.lockSettings(ctx, tx, []string{o.Subject})
		if err != nil {
			return err
		}
		old := " WHERE user_id = ? AND "
		var tokens []string
		if err := tx.SelectContext(ctx, &tokens, "SELECT token FROM devices"+old+"registered_at <= ?", o.Subject, o.CreatedAt); err != nil {
			return err
		}
		removed := map[string]int64{}
		for _, table := range []struct{ kind, rows string }{
			{ErasedDevices, "devices" + old + "object = '' AND registered_at"}, {ErasedLive, "devices" + old + "registered_at"}, {ErasedSettings, "opt_outs" + old + "created_at"},
			{ErasedSettings, "mutes" + old + "created_at"}, {ErasedTopics, "topic_members" + old + "joined_at"},
		} {
			if err := deleteCounted(ctx, tx, removed, table.kind, "DELETE FROM "+table.rows+" <= ?", o.Subject, o.CreatedAt); err != nil {
				return err
			}
		}
		if len(removed) == 0 {
			return errUnchanged
		}
		if _, err := tx.ExecContext(ctx, "UPDATE operations SET settled_at = ? WHERE id = ?", now, o.ID); err != nil {
			return err
		}
		out := append(guardRows(tokens, o.ID), newOutboxRow(KindSettings, o.Subject, o.ID))
		c = Change{Users: users}
		return errors.Join(db.announce(ctx, tx, out), db.countRemoved(ctx, tx, o.ID, removed))
	})
	return c, err
}

// deleteCounted deletes rows and adds their number to counts, if there are any.
func deleteCounted(ctx context.Context, tx *sqlx.Tx, counts map[string]int64, kind, query string, args ...any) error {
	n, err := affected(execIn(ctx, tx, query, args...))
	if n > 0 {
		counts[kind] += n
	}
	return err
}

// EraseUploads forgets a page of the uploads that a user had when the operation began, deleted
// ones too, counts them, and returns how many they were. OpenErasure sees fan-outs of theirs that
// still run.
func (db *DB) EraseUploads(ctx context.Context, o *Operation) (n int, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var uploads []string
		err := tx.SelectContext(ctx, &uploads, "SELECT id FROM uploads WHERE owner = ? AND created_at <= ? LIMIT ?"+db.d.forUpdate, o.Subject, o.CreatedAt, chunk)
		if n = len(uploads); err != nil || n == 0 {
			return err
		}
		for _, query := range []string{"DELETE FROM uploads WHERE id IN (?)", "UPDATE outbox SET payload = '" + o.ID + "' WHERE kind = '" + KindUpload + "' AND subject IN (?)"} {
			if _, err := execIn(ctx, tx, query, uploads); err != nil {
				return err
			}
		}
		return db.countRemoved(ctx, tx, o.ID, map[string]int64{ErasedUploads: int64(n)})
	})
	return n, err
}

// EraseContacts forgets a page of the relationships of a user, in both directions: those that were
// there when the operation began, and ended ones. It counts them, and returns how many they were.
// Users who had this user as a contact are announced: their outbox rows with the relationships.
func (db *DB) EraseContacts(ctx context.Context, o *Operation) (n int, rows map[string]Pair, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		contacts, err := db.eraseContacts(ctx, tx, o, "owner", "contact")
		if err != nil {
			return err
		}
		owners, err := db.eraseContacts(ctx, tx, o, "contact", "owner")
		if err != nil {
			return err
		}
		rows = make(map[string]Pair, len(owners))
		if len(owners) > 0 {
			out := make([]OutboxRow, len(owners))
			for i, owner := range owners {
				p := Pair{Owner: owner, Contact: o.Subject, Operation: o.ID}
				out[i] = p.outbox()
				rows[out[i].ID] = p
			}
			if err := db.announce(ctx, tx, out); err != nil {
				return err
			}
		}
		if n = len(contacts) + len(owners); n == 0 {
			return nil
		}
		return db.countRemoved(ctx, tx, o.ID, map[string]int64{ErasedContacts: int64(n)})
	})
	return n, rows, err
}

// eraseContacts deletes a page of the relationships that have the user in one column, and returns the other column of
// each. It locks them first: PostgreSQL would leave out a row that changes while a DELETE waits for it.
func (db *DB) eraseContacts(ctx context.Context, tx *sqlx.Tx, o *Operation, user, other string) (others []string, err error) {
	err = tx.SelectContext(ctx, &others, "SELECT "+other+" FROM contacts WHERE "+user+" = ? AND (deleted = TRUE OR updated_at <= ?) LIMIT ?"+db.d.forUpdate, o.Subject, o.CreatedAt, chunk)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	_, err = execIn(ctx, tx, "DELETE FROM contacts WHERE "+user+" = ? AND "+other+" IN (?)", o.Subject, others)
	return others, err
}

// EraseAnswers takes a user's name out of the answers that are kept for idempotency keys, from an
// id on ("" for the first page). It returns where the next page begins; "" after the last one.
func (db *DB) EraseAnswers(ctx context.Context, o *Operation, after string) (next string, n int, err error) {
	owner := `"owner":"` + o.Subject + `"`
	var page []struct {
		ID    string `db:"id"`
		Named bool   `db:"named"`
	}
	err = db.list(ctx, &page, "SELECT id, "+db.d.position+"(answer, ?) > 0 AND created_at <= ? AS named FROM idempotency WHERE id > ? ORDER BY id LIMIT ?", owner, o.CreatedAt, after, answersPage)
	if err != nil {
		return "", 0, err
	}
	var named []string
	for _, row := range page {
		if row.Named {
			named = append(named, row.ID)
		}
	}
	if n = len(named); n > 0 {
		err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
			_, err := execIn(ctx, tx, "UPDATE idempotency SET answer = REPLACE(answer, ?, ?) WHERE id IN (?)", owner, `"owner":""`, named)
			if err != nil {
				return err
			}
			return db.countRemoved(ctx, tx, o.ID, map[string]int64{ErasedAnswers: int64(n)})
		})
	}
	if len(page) == answersPage {
		next = page[answersPage-1].ID
	}
	return next, n, err
}

// answersPage and ordersPage are how many rows one statement looks at.
const answersPage, ordersPage = 2000, 5000

// OpenErasure counts the rows of the outbox that name a user or belong to the operation, and were
// there when it began or made by it, and the facts that name the user of what happened at most late after that: those of a name that
// goes on being used never end. Rows of guards name nobody. All that were there when it began count, because a guard that is not
// written may still name the user.
func (db *DB) OpenErasure(ctx context.Context, o *Operation, late time.Duration) (n int64, err error) {
	quoted, named := `"`+o.Subject+`"`, db.d.position+"(payload, ?) > 0"
	err = db.get(ctx, &n, "SELECT COUNT(*) FROM outbox WHERE kind IN (?, ?, ?, ?, ?, ?, ?, ?) AND ("+named+" OR kind = ? AND created_at <= ? AND "+named+
		" OR created_at <= ? AND (kind = ? OR kind IN (?, ?, ?, ?) AND subject = ? OR kind IN (?, ?, ?) AND "+named+"))",
		KindSettings, KindGuard, KindContact, KindUpload, KindRebuild, KindContacts, KindDevices, KindFact, o.ID, KindFact, o.CreatedAt+late.Milliseconds(), quoted, o.CreatedAt,
		KindGuard, KindSettings, KindContact, KindContacts, KindRebuild, o.Subject, KindContact, KindContacts, KindDevices, quoted)
	return n, err
}

// OpenUploads counts the fan-outs of uploads that the operation has removed.
func (db *DB) OpenUploads(ctx context.Context, o *Operation) (n int64, err error) {
	err = db.get(ctx, &n, "SELECT COUNT(*) FROM outbox WHERE kind = ? AND payload = ?", KindUpload, o.ID)
	return n, err
}

// ForgetSettings removes the row with the version of a user's settings, unless the user has any. It
// reports whether there is no row, and a version above all those that there were.
func (db *DB) ForgetSettings(ctx context.Context, user string) (gone bool, version int64, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		gone = false
		if err := db.lockUsers(ctx, tx, []string{user}); err != nil {
			return err
		}
		for _, table := range []string{"devices", "opt_outs", "mutes", "topic_members"} {
			var n int
			if err := tx.GetContext(ctx, &n, "SELECT COUNT(*) FROM "+table+" WHERE user_id = ?", user); err != nil || n > 0 {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM user_settings WHERE user_id = ?", user); err != nil {
			return err
		}
		gone = true
		version, err = db.now(ctx, tx)
		return err
	})
	return gone, version, err
}

// OrdersOf counts the orders of a user. It goes through all orders, in pages.
func (db *DB) OrdersOf(ctx context.Context, user string) (n int64, err error) {
	for after := ""; ; {
		var page struct {
			Last string `db:"last"`
			Rows int    `db:"seen"`
			Own  int64  `db:"own"`
		}
		err := db.get(ctx, &page, "SELECT COALESCE(MAX(reservation), '') AS last, COUNT(*) AS seen, COUNT(CASE WHEN user_id = ? THEN 1 END) AS own"+
			" FROM (SELECT reservation, user_id FROM orders WHERE reservation > ? ORDER BY reservation LIMIT ?) page", user, after, ordersPage)
		if err != nil {
			return 0, err
		}
		n, after = n+page.Own, page.Last
		if page.Rows < ordersPage {
			return n, nil
		}
	}
}
