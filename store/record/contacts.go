package record

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// KindContact says that a relationship changed; subject is its owner, payload the Pair
// as JSON (store/contacts).
const KindContact = "contact"

// KindContacts says that a batch of relationships changed; subject is their owner, payload the names
// of the contacts as a JSON list (store/contacts). Builds that do not know the kind leave the row
// alone.
const KindContacts = "contacts"

// contactKinds are the kinds of rows whose subject is the owner of relationships.
const contactKinds = "kind IN ('" + KindContact + "', '" + KindContacts + "')"

// Pair names a relationship: the owner, and the contact.
type Pair struct {
	Owner   string `json:"owner"`
	Contact string `json:"contact"`
	// Operation is the id of the operation that ended the relationship, if one did.
	Operation string `json:"operation,omitempty"`
}

// Contact says that Contact is a contact, friend or family of Owner.
type Contact struct {
	Owner        string `db:"owner"`
	Contact      string `db:"contact"`
	Relationship string `db:"relationship"`
	// Version is the first version of a new row. It must be above all versions of an earlier row
	// of the same pair that was purged. Default: 1.
	Version int64 `db:"-"`
}

// ContactWrite is the work that remains after a committed write of a relationship: the outbox row
// to announce, "" if nothing changed.
type ContactWrite struct {
	Created bool
	Outbox  string
}

type contactRow struct {
	Relationship string `db:"relationship"`
	Deleted      bool   `db:"deleted"`
}

// PutContact writes one relationship and, when that changes something, leaves
// an outbox row. The row's version rises under its row lock.
func (db *DB) PutContact(ctx context.Context, c Contact) (w ContactWrite, err error) {
	out := Pair{Owner: c.Owner, Contact: c.Contact}.outbox()
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		old, err := db.lockContact(ctx, tx, c)
		if err != nil {
			return err
		}
		created := old == nil || old.Deleted
		if w = (ContactWrite{}); !created && old.Relationship == c.Relationship {
			return errUnchanged
		}
		if err := db.putContacts(ctx, tx, []Contact{c}); err != nil {
			return err
		}
		w = ContactWrite{Created: created, Outbox: out.ID}
		return db.announce(ctx, tx, []OutboxRow{out})
	})
	return w, err
}

// PutContactBatch writes relationships of one owner, all or none, once per idempotency key. It
// returns the outbox row of those that it changed; if it changed none, the row has no id.
func (db *DB) PutContactBatch(ctx context.Context, owner string, contacts []Contact, once api.Idempotency) (row OutboxRow, replayed bool, err error) {
	contacts = slices.Clone(contacts)
	slices.SortFunc(contacts, func(a, b Contact) int { return strings.Compare(a.Contact, b.Contact) }) // batches lock rows in one order
	var done struct{}
	replayed, err = db.onceInTurn(ctx, once, &done, func(ctx context.Context, tx *sqlx.Tx) error {
		row = OutboxRow{}
		changed, err := db.lockChanged(ctx, tx, owner, contacts)
		if err != nil || len(changed) == 0 {
			return err
		}
		for part := range slices.Chunk(changed, chunk) {
			if err := db.putContacts(ctx, tx, part); err != nil {
				return err
			}
		}
		row = contactsOutbox(owner, changed)
		return db.announce(ctx, tx, []OutboxRow{row})
	})
	if err != nil || replayed {
		return OutboxRow{}, replayed, err
	}
	return row, false, nil
}

// lockChanged locks the rows of an owner's contacts and returns those contacts whose row would
// change.
func (db *DB) lockChanged(ctx context.Context, tx *sqlx.Tx, owner string, contacts []Contact) ([]Contact, error) {
	same := make(map[string]string, len(contacts))
	for part := range slices.Chunk(contacts, chunk) {
		names := make([]string, len(part))
		for i, c := range part {
			names[i] = c.Contact
		}
		var found []Contact
		query := "SELECT contact, relationship FROM contacts WHERE owner = ? AND contact IN (?) AND deleted = FALSE ORDER BY contact" + db.d.forUpdate
		if err := selectIn(ctx, tx, &found, query, owner, names); err != nil {
			return nil, err
		}
		for _, c := range found {
			same[c.Contact] = c.Relationship
		}
	}
	return slices.DeleteFunc(slices.Clone(contacts), func(c Contact) bool { return same[c.Contact] == c.Relationship }), nil
}

func contactsOutbox(owner string, contacts []Contact) OutboxRow {
	names := make([]string, len(contacts))
	for i, c := range contacts {
		names[i] = c.Contact
	}
	payload, _ := json.Marshal(names) // strings always marshal
	return newOutboxRow(KindContacts, owner, string(payload))
}

// lockContact reads a relationship under its lock; nil when there never was one.
func (db *DB) lockContact(ctx context.Context, tx *sqlx.Tx, c Contact) (*contactRow, error) {
	var row contactRow
	err := tx.GetContext(ctx, &row, "SELECT relationship, deleted FROM contacts WHERE owner = ? AND contact = ?"+db.d.forUpdate, c.Owner, c.Contact)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &row, err
}

// outbox makes the row that says that a relationship changed.
func (p Pair) outbox() OutboxRow {
	payload, _ := json.Marshal(p) // strings always marshal
	return newOutboxRow(KindContact, p.Owner, string(payload))
}

// PutContacts writes relationships, any number, for imports. It leaves no outbox rows, so the
// owners' recent contacts must be rebuilt afterwards. Each row's version rises under its row
// lock, also when the row comes back after a deletion.
func (db *DB) PutContacts(ctx context.Context, contacts ...Contact) error {
	contacts = slices.SortedFunc(slices.Values(contacts), func(a, b Contact) int { // imports lock rows in one order
		return cmp.Or(strings.Compare(a.Owner, b.Owner), strings.Compare(a.Contact, b.Contact))
	})
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		for part := range slices.Chunk(contacts, chunk) {
			if err := db.putContacts(ctx, tx, part); err != nil {
				return err
			}
		}
		return nil
	})
}

func (db *DB) putContacts(ctx context.Context, tx *sqlx.Tx, contacts []Contact) error {
	args := make([]any, 0, 4*len(contacts))
	for _, c := range contacts {
		args = append(args, c.Owner, c.Contact, c.Relationship, max(c.Version, 1))
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO contacts (owner, contact, relationship, version, deleted, created_at, updated_at) VALUES "+
		rows("(?, ?, ?, ?, FALSE, "+db.d.now+", "+db.d.now+")", len(contacts))+
		db.d.onConflict("contacts", "owner, contact", []string{"relationship", "deleted", "updated_at"}, "version"), args...)
	return err
}

// DeleteContact ends a relationship. If there is none, nothing changes.
func (db *DB) DeleteContact(ctx context.Context, owner, contact string) error {
	_, err := db.RemoveContact(ctx, owner, contact)
	return err
}

// RemoveContact ends a relationship and, when there was one, leaves an outbox
// row. The row stays for a while with a higher version, so that an older addition
// cannot win later.
func (db *DB) RemoveContact(ctx context.Context, owner, contact string) (w ContactWrite, err error) {
	out := Pair{Owner: owner, Contact: contact}.outbox()
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		w.Outbox = ""
		err := changed(tx.ExecContext(ctx, "UPDATE contacts SET deleted = TRUE, version = version + 1, updated_at = "+db.d.now+
			" WHERE owner = ? AND contact = ? AND deleted = FALSE", owner, contact))
		if err != nil {
			return err
		}
		w.Outbox = out.ID
		return db.announce(ctx, tx, []OutboxRow{out})
	})
	return w, err
}

// Contacts lists a user's contacts by name, at most limit of them, beginning
// after a name ("" for the first page).
func (db *DB) Contacts(ctx context.Context, user, after string, limit int) ([]api.Contact, error) {
	var found []Contact
	err := db.list(ctx, &found, "SELECT contact, relationship FROM contacts WHERE owner = ? AND deleted = FALSE AND contact > ? ORDER BY contact LIMIT ?",
		user, after, limit)
	out := make([]api.Contact, len(found))
	for i, c := range found {
		out[i] = api.Contact{Contact: c.Contact, Relationship: api.Relationship(c.Relationship)}
	}
	return out, err
}

// ContactsOf lists everyone who has that user as a contact, by name, at most limit of them,
// beginning after a name ("" for the first page). It reads only the index contacts_by_contact, so
// that its cost does not grow with the position of the page.
func (db *DB) ContactsOf(ctx context.Context, user, after string, limit int) ([]string, error) {
	var owners []string
	err := db.list(ctx, &owners, "SELECT owner FROM contacts"+db.d.whereContactIs(), user, user, after, limit)
	return owners, err
}

// whereContactIs selects a page of the users who have a user as a contact, by name, and reads
// nothing before the page. The user is an argument twice.
func (d dialect) whereContactIs() string {
	return " WHERE " + d.is("contact") + " AND deleted = FALSE AND owner > ? ORDER BY contact, deleted, owner LIMIT ?"
}
