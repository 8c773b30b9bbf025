package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// contactsTraffic is users who have each other as contacts and upload things. Only the worker of a
// user changes the user's data, so that the worker knows what must be there.
type contactsTraffic struct {
	s     *soak
	users []*uploader
}

// uploader is a user with uploads and relationships.
type uploader struct {
	name    string
	uploads map[string]api.Visibility // "": deleted
	calls   map[string]api.Relationship
	ids     []string
}

const uploaders = 16

var (
	relationships = []api.Relationship{"contact", "friend", "family"}
	visibilities  = []api.Visibility{"public", "contacts", "friends", "family", "private"}
)

func (s *soak) prepareContacts() *contactsTraffic {
	c := &contactsTraffic{s: s}
	for n := range uploaders {
		u := &uploader{name: fmt.Sprint("friend-", n), uploads: map[string]api.Visibility{}, calls: map[string]api.Relationship{}}
		c.users = append(c.users, u)
		s.work(u.name, 0, 3*time.Second, func(r *rand.Rand, i int) { c.act(r, u, i) })
	}
	return c
}

// act changes some data of the user, or reads.
func (c *contactsTraffic) act(r *rand.Rand, u *uploader, i int) {
	s, other := c.s, fmt.Sprint("friend-", r.IntN(uploaders))
	switch kind := r.IntN(12); {
	case other != u.name && kind < 3:
		rel := relationships[r.IntN(3)]
		if s.want(r, nil, []int{200, 201}, "PUT", "/v1/users/"+u.name+"/contacts/"+other, map[string]any{"relationship": rel}) {
			u.calls[other] = rel
		}
	case kind == 3:
		if s.want(r, nil, []int{204}, "DELETE", "/v1/users/"+u.name+"/contacts/"+other, nil) {
			delete(u.calls, other)
		}
	case kind < 7:
		id, visibility := fmt.Sprintf("%s:%d", u.name, i), visibilities[r.IntN(5)]
		at := time.Now().Add(-between(r, time.Minute)).UTC().Format("2006-01-02T15:04:05.000Z")
		if s.want(r, nil, []int{200, 202}, "POST", "/v1/uploads", map[string]any{"id": id, "owner": u.name, "visibility": visibility, "uploaded_at": at}) {
			u.uploads[id] = visibility
			u.ids = append(u.ids, id)
			s.count("uploads accepted", 1)
		}
	case kind < 9 && len(u.ids) > 0:
		c.change(r, u, u.ids[max(0, len(u.ids)-1-r.IntN(4))])
	default:
		c.read(r, u)
	}
}

// change gives an upload another visibility, or deletes it.
func (c *contactsTraffic) change(r *rand.Rand, u *uploader, id string) {
	visibility := visibilities[r.IntN(5)]
	switch {
	case u.uploads[id] == "":
	case r.IntN(3) == 0:
		if c.s.want(r, nil, []int{204}, "DELETE", "/v1/uploads/"+id, nil) {
			u.uploads[id] = ""
		}
	default:
		if c.s.want(r, nil, []int{200}, "PATCH", "/v1/uploads/"+id, map[string]any{"visibility": visibility}) {
			u.uploads[id] = visibility
		}
	}
}

// read reads the recent contacts, which must be newest first.
func (c *contactsTraffic) read(r *rand.Rand, u *uploader) {
	var got api.RecentContacts
	if !c.s.want(r, &got, []int{200}, "GET", "/v1/users/"+u.name+"/recent-contacts?limit=10", nil) {
		return
	}
	if !slices.IsSortedFunc(got.Items, func(a, b api.RecentContact) int { return b.LastUploadAt.Compare(a.LastUploadAt.Time) }) {
		c.s.failf("%s's recent contacts are out of order: %v", u.name, got.Items)
	}
	c.s.count("readings of recent contacts", 1)
}

// check compares the record with the answers, and the recent contacts with the record.
func (c *contactsTraffic) check() {
	rec := c.mustRead()
	for _, u := range c.users {
		for id, visibility := range u.uploads {
			if rec.visibility[id] != string(visibility) {
				c.s.failf("upload %s is %q on record, it was answered as %q", id, rec.visibility[id], visibility)
			}
		}
		for other, rel := range u.calls {
			if rec.calls[u.name][other] != string(rel) {
				c.s.failf("%s calls %s %q on record, it was answered as %q", u.name, other, rec.calls[u.name][other], rel)
			}
		}
		if len(rec.calls[u.name]) != len(u.calls) {
			c.s.failf("%s has %d contacts on record, not %d", u.name, len(rec.calls[u.name]), len(u.calls))
		}
	}
	var wrong string
	if !c.s.eventually(2*time.Minute, "recent contacts are those of the record", func() bool {
		wrong = c.different(rec)
		return wrong == ""
	}) {
		c.s.failf("%s", wrong)
	}
}

// onRecord is the data in SQL.
type onRecord struct {
	calls      map[string]map[string]string // owner, contact: relationship
	visibility map[string]string            // by upload; "" when deleted
	newest     map[string]map[string]int64  // owner, visibility: time of the newest
}

// mustRead reads the record.
func (c *contactsTraffic) mustRead() onRecord {
	c.s.t.Helper()
	db := mustOpenSQL(c.s.t, c.s.sql.URL())
	defer db.Close()
	rec := onRecord{map[string]map[string]string{}, map[string]string{}, map[string]map[string]int64{}}
	for _, u := range c.users {
		rec.calls[u.name], rec.newest[u.name] = map[string]string{}, map[string]int64{}
	}
	rows, err := db.QueryContext(c.s.t.Context(), "SELECT owner, contact, relationship FROM contacts WHERE NOT deleted AND contact <> 'star'")
	storetest.Must(c.s.t, err)
	defer rows.Close()
	for rows.Next() {
		var owner, contact, rel string
		storetest.Must(c.s.t, rows.Scan(&owner, &contact, &rel))
		rec.calls[owner][contact] = rel
	}
	storetest.Must(c.s.t, rows.Err())
	ups, err := db.QueryContext(c.s.t.Context(), "SELECT id, owner, visibility, deleted, uploaded_at FROM uploads")
	storetest.Must(c.s.t, err)
	defer ups.Close()
	for ups.Next() {
		var id, owner, visibility string
		var deleted bool
		var at int64
		storetest.Must(c.s.t, ups.Scan(&id, &owner, &visibility, &deleted, &at))
		if deleted {
			continue
		}
		rec.visibility[id] = visibility
		rec.newest[owner][visibility] = max(rec.newest[owner][visibility], at)
	}
	storetest.Must(c.s.t, ups.Err())
	return rec
}

// recent are a viewer's recent contacts according to the contract (R9).
func (rec *onRecord) recent(viewer string) string {
	type active struct {
		contact string
		at      int64
	}
	var all []active
	for contact := range rec.calls[viewer] {
		at := rec.newest[contact]["public"]
		seen := map[string][]string{"contact": {"contacts"}, "friend": {"contacts", "friends"}, "family": {"contacts", "family"}}
		for _, visibility := range seen[rec.calls[contact][viewer]] {
			at = max(at, rec.newest[contact][visibility])
		}
		if at > 0 {
			all = append(all, active{contact, at})
		}
	}
	slices.SortFunc(all, func(a, b active) int {
		if a.at != b.at {
			return int(b.at - a.at)
		}
		return strings.Compare(b.contact, a.contact)
	})
	text := ""
	for _, a := range all[:min(10, len(all))] {
		text += a.contact + " " + time.UnixMilli(a.at).UTC().Format("15:04:05.000") + " "
	}
	return text
}

// different returns a user whose answer differs from the record; "" if there is none.
func (c *contactsTraffic) different(rec onRecord) string {
	for _, u := range c.users {
		var got api.RecentContacts
		c.s.mustBe(200, &got, "GET", "/v1/users/"+u.name+"/recent-contacts?limit=10", nil)
		text := ""
		for _, item := range got.Items {
			text += item.Contact + " " + item.LastUploadAt.UTC().Format("15:04:05.000") + " "
		}
		if want := rec.recent(u.name); text != want || !got.Complete {
			return fmt.Sprintf("%s's recent contacts are %s (complete: %v), by the record %s", u.name, text, got.Complete, want)
		}
	}
	return ""
}
