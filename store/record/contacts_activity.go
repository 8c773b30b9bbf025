package record

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"fanfare/api"
)

// Activity is a contact as a viewer sees it now.
type Activity struct {
	Contact      string
	Relationship api.Relationship // what the contact is to the viewer
	// LastUpload is the time of the newest upload of the contact that the viewer
	// may see, in ms since the Unix epoch; nil when there is none.
	LastUpload *int64
}

// noUpload stands for no upload in queries: it is earlier than any time that
// RFC 3339 can write.
const noUpload = -1 << 62

// newestUpload finds the time of an owner's newest upload of one visibility. It reads one end of
// a range of the index uploads_newest, however many uploads there are.
func newestUpload(v api.Visibility) string {
	return "COALESCE((SELECT u.uploaded_at FROM uploads u WHERE u.owner = c.contact AND u.visibility = '" + string(v) +
		"' AND u.deleted = FALSE ORDER BY u.uploaded_at DESC, u.id DESC LIMIT 1), " + strconv.Itoa(noUpload) + ")"
}

// activitySelect reads contacts with the newest upload that their viewer may see. It consists of
// index look-ups only: one for the contact, one for the opposite relationship, and one for each
// visibility that the viewer may see. from ends with the rows of contacts.
func (d dialect) activitySelect(from string) string {
	none := strconv.Itoa(noUpload)
	return "SELECT c.owner, c.contact, c.relationship, " + d.greatest + "(" + newestUpload(api.VisiblePublic) +
		", CASE WHEN r.relationship IS NULL THEN " + none + " ELSE " + d.greatest + "(" + newestUpload(api.VisibleContacts) +
		", CASE r.relationship WHEN 'friend' THEN " + newestUpload(api.VisibleFriends) +
		" WHEN 'family' THEN " + newestUpload(api.VisibleFamily) + " ELSE " + none + " END) END) AS last_upload " +
		"FROM " + from + " LEFT JOIN " + d.relationship("r", "c.contact", "c.owner")
}

// ActivityQuery asks for some contacts of a viewer.
type ActivityQuery struct {
	Viewer   string
	Contacts []string
}

// Activities reads which of these users are now contacts of their viewers, and which uploads the
// viewers may see. It is one statement for all queries, and it begins after the call. The result
// has the shape of the queries; a user who is not a contact has an entry without a name.
func (db *DB) Activities(ctx context.Context, queries ...ActivityQuery) ([][]Activity, error) {
	var found *activities
	names := db.d.names.arguments(queries)
	err := db.read(ctx, db.activities.query, func(ctx context.Context) error {
		found = newActivities(queries)
		rows, err := db.activities.rows(ctx, db.sql, names...)
		if err != nil {
			return err
		}
		return eachActivity(rows, found.add)
	})
	if err != nil {
		return nil, err
	}
	return found.list, nil
}

// arguments are the names of some queries, as their statement takes them.
func (f namesForm) arguments(queries []ActivityQuery) []any {
	if !f.arrays {
		return []any{f.document(queries)}
	}
	viewers, contacts := []string{}, []string{}
	for _, q := range queries {
		for _, name := range q.Contacts {
			viewers, contacts = append(viewers, postgresText(q.Viewer)), append(contacts, postgresText(name))
		}
	}
	return []any{viewers, contacts}
}

// postgresText is a name, or another text that is no name if PostgreSQL cannot have it.
func postgresText(name string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", notAName), notAName)
}

const notAName = "\ufffd"

// document writes the names of some queries.
func (f namesForm) document(queries []ActivityQuery) string {
	text := []byte(f.begin)
	for i, q := range queries {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendQuote(append(text, f.viewer...), q.Viewer)
		text = append(text, f.contacts...)
		for j, name := range q.Contacts {
			if j > 0 {
				text = append(text, ',')
			}
			text = appendQuote(text, name)
		}
		text = append(text, f.to...)
	}
	return string(append(text, f.end...))
}

// appendQuote writes a name as JSON; a text that is not UTF-8 cannot be a name.
func appendQuote(text []byte, name string) []byte {
	text, _ = jsontext.AppendQuote(text, name)
	return text
}

// activities puts rows into the places of their queries. A viewer may occur in several queries.
type activities struct {
	queries []ActivityQuery
	viewers map[string][]int
	list    [][]Activity
}

func newActivities(queries []ActivityQuery) *activities {
	a := &activities{queries: queries, viewers: make(map[string][]int, len(queries)), list: make([][]Activity, len(queries))}
	for i, q := range queries {
		a.viewers[q.Viewer] = append(a.viewers[q.Viewer], i)
		a.list[i] = make([]Activity, len(q.Contacts))
	}
	return a
}

func (a *activities) add(viewer string, found Activity) {
	for _, i := range a.viewers[viewer] {
		for j, name := range a.queries[i].Contacts {
			if name == found.Contact {
				a.list[i][j] = found
			}
		}
	}
}

// eachActivity reads the rows of an activitySelect.
func eachActivity(rows *sql.Rows, add func(viewer string, a Activity)) error {
	defer rows.Close()
	var viewer, contact, relationship string
	var at int64
	for rows.Next() {
		if err := rows.Scan(&viewer, &contact, &relationship, &at); err != nil {
			return err
		}
		a := Activity{Contact: contact, Relationship: api.Relationship(relationship)}
		if last := at; last != noUpload {
			a.LastUpload = &last
		}
		add(viewer, a)
	}
	return rows.Err()
}

// ActivityPage reads a viewer's contacts with their activity by name, at most
// limit of them, beginning after a name.
func (db *DB) ActivityPage(ctx context.Context, viewer, after string, limit int) (page []Activity, err error) {
	query := db.d.activityPage()
	err = db.read(ctx, query, func(ctx context.Context) error {
		rows, err := db.sql.QueryContext(ctx, query, viewer, after, limit)
		if err != nil {
			return err
		}
		page = page[:0]
		return eachActivity(rows, func(_ string, a Activity) { page = append(page, a) })
	})
	return page, err
}

func (d dialect) activityPage() string {
	return d.activitySelect("contacts c") + " WHERE c.owner = ? AND c.deleted = FALSE AND c.contact > ? ORDER BY c.contact LIMIT ?"
}

// Follower is a user whose recent contacts an owner's upload may change.
type Follower struct {
	User    string           `db:"follower"`
	Follows bool             `db:"follows"` // has the owner as a contact
	Shown   api.Relationship `db:"shown"`   // what the follower is to the owner; "": not a contact
}

// Followers reads a page of the users who may see an owner's uploads of a visibility, by name. For
// public uploads these are all users who have the owner as a contact, and otherwise all contacts of
// the owner. The cost of a page grows neither with its position nor if few users on it may see the
// upload.
func (db *DB) Followers(ctx context.Context, owner string, v api.Visibility, after string, limit int) ([]Follower, error) {
	var page []Follower
	var err error
	if v == api.VisiblePublic {
		err = db.list(ctx, &page, "SELECT owner AS follower, TRUE AS follows, '' AS shown FROM contacts"+db.d.whereContactIs(), owner, owner, after, limit)
	} else {
		err = db.list(ctx, &page, db.d.calledSelect(), owner, after, limit)
	}
	return page, err
}

// calledSelect reads a page of the contacts of an owner, and whether they have the owner as a
// contact.
func (d dialect) calledSelect() string {
	return "SELECT r.contact AS follower, c.owner IS NOT NULL AS follows, r.relationship AS shown FROM contacts r " +
		"LEFT JOIN " + d.relationship("c", "r.contact", "r.owner") +
		" WHERE r.owner = ? AND r.deleted = FALSE AND r.contact > ? ORDER BY r.contact LIMIT ?"
}

// NewestUploads lists a contact's newest uploads that a viewer may see, newest first, at most
// limit. The list is empty if the user is not a contact. One statement reads both relationships and
// applies them.
func (db *DB) NewestUploads(ctx context.Context, viewer, contact string, limit int) ([]api.RecentUpload, error) {
	var parts []string
	var args []any
	for _, v := range []api.Visibility{api.VisiblePublic, api.VisibleContacts, api.VisibleFriends, api.VisibleFamily} {
		parts = append(parts, "SELECT * FROM (SELECT u.id, u.visibility, u.uploaded_at FROM contacts c"+wayBack(v)+
			" JOIN uploads u ON u.owner = c.contact WHERE c.owner = ? AND c.contact = ? AND c.deleted = FALSE"+
			" AND u.visibility = ? AND u.deleted = FALSE ORDER BY u.uploaded_at DESC, u.id DESC LIMIT ?) of_"+string(v))
		args = append(args, viewer, contact, string(v), limit)
	}
	var list []uploadRow
	err := db.list(ctx, &list, strings.Join(parts, " UNION ALL ")+" ORDER BY uploaded_at DESC, id DESC LIMIT ?", append(args, limit)...)
	out := make([]api.RecentUpload, len(list))
	for i, r := range list {
		out[i] = api.RecentUpload{ID: r.ID, UploadedAt: api.AtMillis(r.UploadedAt), Visibility: api.Visibility(r.Visibility)}
	}
	return out, err
}

// wayBack joins the relationship of the contact to its viewer, as far as a visibility needs it.
func wayBack(v api.Visibility) string {
	var shown []string
	for _, r := range []api.Relationship{api.RelationContact, api.RelationFriend, api.RelationFamily} {
		if v.Shows(r) {
			shown = append(shown, "'"+string(r)+"'")
		}
	}
	if v.Shows("") {
		return ""
	}
	return " JOIN contacts r ON r.owner = c.contact AND r.contact = c.owner AND r.deleted = FALSE AND r.relationship IN (" + strings.Join(shown, ", ") + ")"
}
