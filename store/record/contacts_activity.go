package record

import (
	"context"
	"strings"

	"fanfare/api"
)

// Activity is a contact as a viewer sees it now.
type Activity struct {
	Contact      string
	Relationship api.Relationship // what the viewer calls the contact
	Shown        api.Relationship // what the contact calls the viewer; "": nothing
	// LastUpload is the time of the newest upload of the contact that the viewer
	// may see, in ms since the Unix epoch; nil when there is none.
	LastUpload *int64
}

type activityRow struct {
	Contact      string  `db:"contact"`
	Relationship string  `db:"relationship"`
	Shown        *string `db:"shown"`
	Public       *int64  `db:"newest_public"`
	Contacts     *int64  `db:"newest_contacts"`
	Friends      *int64  `db:"newest_friends"`
	Family       *int64  `db:"newest_family"`
}

func (r activityRow) activity() Activity {
	a := Activity{Contact: r.Contact, Relationship: api.Relationship(r.Relationship)}
	if r.Shown != nil {
		a.Shown = api.Relationship(*r.Shown)
	}
	for _, at := range []*int64{r.Public, r.Contacts, r.Friends, r.Family} {
		if at != nil && (a.LastUpload == nil || *at > *a.LastUpload) {
			a.LastUpload = at
		}
	}
	return a
}

// newestUpload finds an owner's newest upload of one visibility: one read of
// the end of a range of the index uploads_newest, however many uploads.
func newestUpload(v api.Visibility) string {
	return "(SELECT u.uploaded_at FROM uploads u WHERE u.owner = c.contact AND u.visibility = '" + string(v) +
		"' AND u.deleted = FALSE ORDER BY u.uploaded_at DESC, u.id DESC LIMIT 1)"
}

// activitySelect reads contacts with what decides what the viewer may see of
// them. It is all index look-ups: one for the contact, one for the way back, and
// one for each visibility that the viewer is shown.
func activitySelect() string {
	return "SELECT c.contact, c.relationship, r.relationship AS shown, " +
		newestUpload(api.VisiblePublic) + " AS newest_public, " +
		"CASE WHEN r.relationship IS NOT NULL THEN " + newestUpload(api.VisibleContacts) + " END AS newest_contacts, " +
		"CASE WHEN r.relationship = 'friend' THEN " + newestUpload(api.VisibleFriends) + " END AS newest_friends, " +
		"CASE WHEN r.relationship = 'family' THEN " + newestUpload(api.VisibleFamily) + " END AS newest_family " +
		"FROM contacts c LEFT JOIN contacts r ON r.owner = c.contact AND r.contact = c.owner AND r.deleted = FALSE " +
		"WHERE c.owner = ? AND c.deleted = FALSE "
}

// Activities reads, in one query, which of these are contacts of the viewer
// now, and what the viewer may see of them. Others are absent.
func (db *DB) Activities(ctx context.Context, viewer string, contacts []string) (map[string]Activity, error) {
	found := make(map[string]Activity, len(contacts))
	if len(contacts) == 0 {
		return found, nil
	}
	query, args, err := in(activitySelect()+"AND c.contact IN (?)", viewer, contacts)
	if err != nil {
		return nil, err
	}
	list, err := db.activities(ctx, query, args...)
	for _, a := range list {
		found[a.Contact] = a
	}
	return found, err
}

// ActivityPage reads a viewer's contacts with their activity by name, at most
// limit of them, beginning after a name.
func (db *DB) ActivityPage(ctx context.Context, viewer, after string, limit int) ([]Activity, error) {
	return db.activities(ctx, activitySelect()+activityPage(), viewer, after, limit)
}

func activityPage() string { return "AND c.contact > ? ORDER BY c.contact LIMIT ?" }

func (db *DB) activities(ctx context.Context, query string, args ...any) ([]Activity, error) {
	var list []activityRow
	if err := db.list(ctx, &list, query, args...); err != nil {
		return nil, err
	}
	out := make([]Activity, len(list))
	for i, r := range list {
		out[i] = r.activity()
	}
	return out, nil
}

// Follower is someone who may have to hear of an owner's upload.
type Follower struct {
	User    string           `db:"follower"`
	Follows bool             `db:"follows"` // calls the owner a contact
	Shown   api.Relationship `db:"shown"`   // what the owner calls the follower; "": nothing
}

// Followers reads a page of those who may see an owner's uploads of a
// visibility, by name: for public ones everyone who calls the owner a contact,
// else everyone whom the owner calls something. The cost of a page does not
// grow with its position nor with how few on it may see the upload.
func (db *DB) Followers(ctx context.Context, owner string, v api.Visibility, after string, limit int) ([]Follower, error) {
	var page []Follower
	var err error
	if v == api.VisiblePublic {
		err = db.list(ctx, &page, "SELECT owner AS follower, TRUE AS follows, '' AS shown FROM contacts"+whereContactIs(), owner, owner, after, limit)
	} else {
		err = db.list(ctx, &page, calledSelect(), owner, after, limit)
	}
	return page, err
}

// calledSelect reads a page of those whom an owner calls something, and whether
// they call the owner a contact.
func calledSelect() string {
	return "SELECT r.contact AS follower, c.owner IS NOT NULL AS follows, r.relationship AS shown FROM contacts r " +
		"LEFT JOIN contacts c ON c.owner = r.contact AND c.contact = r.owner AND c.deleted = FALSE " +
		"WHERE r.owner = ? AND r.deleted = FALSE AND r.contact > ? ORDER BY r.contact LIMIT ?"
}

// NewestUploads lists an owner's newest uploads that a viewer may see whom the
// owner calls shown, newest first, at most limit.
func (db *DB) NewestUploads(ctx context.Context, owner string, shown api.Relationship, limit int) ([]api.RecentUpload, error) {
	var parts []string
	var args []any
	for _, v := range []api.Visibility{api.VisiblePublic, api.VisibleContacts, api.VisibleFriends, api.VisibleFamily} {
		if v.Shows(shown) {
			parts = append(parts, "SELECT * FROM (SELECT id, visibility, uploaded_at FROM uploads WHERE owner = ? AND visibility = ? AND deleted = FALSE "+
				"ORDER BY uploaded_at DESC, id DESC LIMIT ?) of_"+string(v))
			args = append(args, owner, string(v), limit)
		}
	}
	var list []uploadRow
	err := db.list(ctx, &list, strings.Join(parts, " UNION ALL ")+" ORDER BY uploaded_at DESC, id DESC LIMIT ?", append(args, limit)...)
	out := make([]api.RecentUpload, len(list))
	for i, r := range list {
		out[i] = api.RecentUpload{ID: r.ID, UploadedAt: api.AtMillis(r.UploadedAt), Visibility: api.Visibility(r.Visibility)}
	}
	return out, err
}
