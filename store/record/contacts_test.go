package record_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

func TestPutContact(t *testing.T) {
	t.Parallel()
	version := func(t *testing.T, db *record.DB) (v int64) {
		t.Helper()
		storetest.Must(t, db.SQL().Get(&v, "SELECT version FROM contacts WHERE owner = 'alice' AND contact = 'bob'"))
		return v
	}
	eachConnection(t, func(t *testing.T, db *record.DB) {
		steps := []struct {
			relationship string // "": removed
			created      bool
			announced    bool
			version      int64
		}{
			{"friend", true, true, 1}, {"friend", false, false, 1}, {"family", false, true, 2},
			{"", false, true, 3}, {"", false, false, 3}, {"contact", true, true, 4},
		}
		announced := 0
		for i, s := range steps {
			var w record.ContactWrite
			if s.relationship != "" {
				w = mustPutContact(t, db, "alice", "bob", s.relationship)
			} else {
				var err error
				w, err = db.RemoveContact(t.Context(), "alice", "bob")
				storetest.Must(t, err)
			}
			if w.Created != s.created || (w.Outbox != "") != s.announced || version(t, db) != s.version {
				t.Fatalf("step %d: %+v, version %d; want %+v", i, w, version(t, db), s)
			}
			if s.announced {
				announced++
			}
		}
		open := mustOpenRows(t, db, record.KindContact)
		if len(open) != announced || open[0].Payload != `{"owner":"alice","contact":"bob"}` {
			t.Fatalf("outbox: %+v", open)
		}
	})
}

func TestContactsPages(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		for _, name := range []string{"c", "a", "B", "b"} {
			mustPutContact(t, db, "alice", name, "friend")
		}
		storetest.Must(t, db.DeleteContact(t.Context(), "alice", "b"))
		first, err := db.Contacts(t.Context(), "alice", "", 2)
		storetest.Must(t, err)
		rest, err := db.Contacts(t.Context(), "alice", first[1].Contact, 2)
		storetest.Must(t, err)
		if got := fmt.Sprint(first, rest); got != "[{B friend} {a friend}] [{c friend}]" {
			t.Fatal(got)
		}
	})
}

// R9: who may see what.
func TestActivities(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		at := map[api.Visibility]int64{"public": 10, "contacts": 20, "friends": 30, "family": 40, "private": 50}
		for v, ms := range at {
			mustPutUpload(t, db, upload("o-"+string(v), "owner", v, ms))
			mustPutUpload(t, db, upload("older-"+string(v), "owner", v, 1))
		}
		mustPutUpload(t, db, upload("gone", "owner", "public", 1000))
		storetest.Must(t, db.DeleteUpload(t.Context(), "gone"))
		for shown, want := range map[string]int64{"": 10, "contact": 20, "friend": 30, "family": 40} {
			viewer := "viewer-" + shown
			mustPutContact(t, db, viewer, "owner", "contact")
			mustPutContact(t, db, viewer, "silent", "family")
			if shown != "" {
				mustPutContact(t, db, "owner", viewer, shown)
			}
			wantActivities(t, db, record.ActivityQuery{Viewer: viewer, Contacts: []string{"owner", "silent", "stranger"}}, fmt.Sprintf("owner@%d silent -", want))
			page, err := db.ActivityPage(t.Context(), viewer, "", 10)
			storetest.Must(t, err)
			if len(page) != 2 || page[0].Contact != "owner" || *page[0].LastUpload != want {
				t.Errorf("%s: page %+v", viewer, page)
			}
			newest, err := db.NewestUploads(t.Context(), viewer, "owner", 2)
			storetest.Must(t, err)
			if len(newest) != 2 || newest[0].UploadedAt.UnixMilli() != want || !newest[1].Visibility.Shows(api.Relationship(shown)) {
				t.Errorf("%s: newest %+v", viewer, newest)
			}
		}
		storetest.Must(t, db.DeleteContact(t.Context(), "owner", "viewer-family"))
		ended := record.ActivityQuery{Viewer: "viewer-family", Contacts: []string{"owner"}}
		wantActivities(t, db, ended, "owner@10")
		// what a viewer may see goes by what is true when the uploads are read.
		newest, err := db.NewestUploads(t.Context(), "viewer-family", "owner", 10)
		if err != nil || len(newest) != 2 || newest[0].ID != "o-public" || newest[1].ID != "older-public" {
			t.Errorf("uploads after the relationship ended: %+v, %v", newest, err)
		}
		storetest.Must(t, db.DeleteContact(t.Context(), "viewer-family", "owner"))
		wantActivities(t, db, ended, "-")
		newest, err = db.NewestUploads(t.Context(), "viewer-family", "owner", 10)
		if err != nil || len(newest) != 0 {
			t.Errorf("uploads of one who is no contact: %+v, %v", newest, err)
		}
	})
}

// wantActivities asks once and wants "name@time" for each contact, "name" for one
// with nothing to show and "-" for one who is none.
func wantActivities(t testing.TB, db *record.DB, q record.ActivityQuery, want string) {
	t.Helper()
	got, err := db.Activities(t.Context(), q)
	storetest.Must(t, err)
	if text := activityText(got[0]); text != want {
		t.Errorf("%+v: %s, want %s", q, text, want)
	}
}

func activityText(list []record.Activity) string {
	words := make([]string, len(list))
	for i, a := range list {
		switch {
		case a.Contact == "":
			words[i] = "-"
		case a.LastUpload == nil:
			words[i] = a.Contact
		default:
			words[i] = fmt.Sprintf("%s@%d", a.Contact, *a.LastUpload)
		}
	}
	return strings.Join(words, " ")
}

// One statement answers many viewers, each for itself: also a viewer who asks
// twice, contacts named twice, names that cannot be and times before 1970.
func TestActivitiesOfMany(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		var queries []record.ActivityQuery
		var want []string
		for i := range 40 {
			viewer, owner := fmt.Sprint("v", i), fmt.Sprint("o", i)
			mustPutContact(t, db, viewer, owner, "contact")
			mustPutContact(t, db, viewer, "o0", "friend")
			mustPutUpload(t, db, upload("u"+owner, owner, "public", int64(i-1)))
			queries = append(queries, record.ActivityQuery{Viewer: viewer, Contacts: []string{owner, fmt.Sprint("o", i+1), "o0", owner}})
			want = append(want, fmt.Sprintf("%s@%d - o0@-1 %s@%d", owner, i-1, owner, i-1))
		}
		odd := []string{`"]}`, `\`, "o1\x00", "\xff", "ö", strings.Repeat("x", 300), ""}
		queries = append(queries, queries[1], record.ActivityQuery{Viewer: `v"1`, Contacts: []string{"o1"}},
			record.ActivityQuery{Viewer: "v2", Contacts: append(odd, "o2")}, record.ActivityQuery{Viewer: "v3"})
		want = append(want, want[1], "-", strings.Repeat("- ", len(odd))+"o2@1", "")
		got, err := db.Activities(t.Context(), queries...)
		storetest.Must(t, err)
		for i, list := range got {
			if text := activityText(list); text != want[i] {
				t.Errorf("%+v: %s, want %s", queries[i], text, want[i])
			}
		}
	})
}

// R10: a page costs the same wherever it is, and all pages together are exactly
// those who may see the upload.
func TestFollowers(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		calls := []string{"", "contact", "friend", "family"}
		want := map[api.Visibility][]string{}
		for i := range 40 {
			user := fmt.Sprintf("u%02d", i)
			follows, shown := i%5 != 0, calls[i%4]
			if follows {
				mustPutContact(t, db, user, "star", "contact")
			}
			if shown != "" {
				mustPutContact(t, db, "star", user, shown)
			}
			for _, v := range []api.Visibility{"public", "contacts", "friends", "family"} {
				if follows && v.Shows(api.Relationship(shown)) {
					want[v] = append(want[v], user)
				}
			}
		}
		for v := range want {
			var got []string
			for after := ""; ; {
				page, err := db.Followers(t.Context(), "star", v, after, 7)
				storetest.Must(t, err)
				for _, f := range page {
					after = f.User
					if f.Follows && v.Shows(f.Shown) {
						got = append(got, f.User)
					}
				}
				if len(page) < 7 {
					break
				}
			}
			if !slices.Equal(got, want[v]) {
				t.Errorf("%s: %v, want %v", v, got, want[v])
			}
		}
	})
}

func TestOutboxPage(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		for i := range 25 {
			mustPutUpload(t, db, upload(fmt.Sprint("u", i), "alice", "public", 1))
		}
		seen := map[string]bool{}
		after := record.OpenRow{}
		for {
			page, err := db.OutboxPage(t.Context(), record.KindUpload, 0, after, 10)
			storetest.Must(t, err)
			for _, r := range page {
				if seen[r.ID] {
					t.Fatalf("%s twice", r.ID)
				}
				seen[r.ID], after = true, r
			}
			if len(page) < 10 {
				break
			}
		}
		if len(seen) != 25 {
			t.Fatalf("%d of 25 rows", len(seen))
		}
		if page, err := db.OutboxPage(t.Context(), record.KindUpload, 60_000, record.OpenRow{}, 10); err != nil || len(page) != 0 {
			t.Fatalf("rows younger than a minute: %v, %v", page, err)
		}
		if open, age, err := db.OutboxLag(t.Context(), record.KindUpload); err != nil || open != 25 || age < 0 || age > 60_000 {
			t.Fatalf("lag: %d rows, %d ms, %v", open, age, err)
		}
	})
}

// The queries behind a read must be look-ups: their cost may not grow with how
// much a contact uploaded.
func TestActivityQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.SQLite(t)) // MariaDB's plan depends on its statistics
	var plan []struct {
		ID      int    `db:"id"`
		Parent  int    `db:"parent"`
		NotUsed int    `db:"notused"`
		Detail  string `db:"detail"`
	}
	storetest.Must(t, db.SQL().Select(&plan, "EXPLAIN QUERY PLAN "+db.ActivitySelect(), "alice"))
	for _, p := range plan {
		scan := strings.HasPrefix(p.Detail, "SCAN") && !strings.Contains(p.Detail, "VIRTUAL TABLE") // the names are one
		if scan || strings.Contains(p.Detail, "TEMP B-TREE") {
			t.Errorf("not a look-up: %s", p.Detail)
		}
	}
}

// P6, R10: on SQLite a page begins with a search by all that comes before its end: the
// plan's search ends with the name that the page begins after.
func TestPagesBeginWithASearch(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.SQLite(t))
	for query, names := range db.PageQueries("star") {
		plan := mustPlan(t, db, query, append(names, "u09000", 50)...)
		if !strings.Contains(plan, ">?)") || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN") {
			t.Errorf("%s: %s", query, plan)
		}
		if search := plan[strings.Index(plan, "("):strings.Index(plan, ")")]; strings.Count(search, "=?") != strings.Count(search, "AND") {
			t.Errorf("%s: a search by a range in front: %s", query, plan)
		}
	}
}

// P6, R10: a page at the end of a long list reads as few rows as one at its
// beginning. MariaDB counts what it reads.
func TestPagesCostTheSameAnywhere(t *testing.T) {
	t.Parallel()
	db := setup(t, storetest.MySQL(t))
	const n, limit = 10_000, 50
	mustPutStar(t, db, n)
	mustInsert(t, db, devicesInto, n, func(i int) string { return deviceValues(i, api.DeviceActive) })
	conn, err := db.SQL().Connx(t.Context())
	storetest.Must(t, err)
	defer conn.Close()
	for query, names := range db.PageQueries("star") {
		if page, read := mustCountReads(t, conn, query, append(names, "u09000", limit)...); page != limit || read > 20*limit {
			t.Errorf("%d rows read for a page of %d: %s", read, page, query)
		}
	}
}

// mustPutStar gives the user star n contacts, u00000 and so on, who have star as a contact and are the members of the topic
// star.
func mustPutStar(t testing.TB, db *record.DB, n int) {
	t.Helper()
	var rows []record.Contact
	for i := range n {
		name := fmt.Sprintf("u%05d", i)
		rows = append(rows, record.Contact{Owner: name, Contact: "star", Relationship: "contact"}, record.Contact{Owner: "star", Contact: name, Relationship: "friend"})
	}
	for part := range slices.Chunk(rows, 1000) { // all at once take longer than a call may, on a busy machine
		storetest.Must(t, db.PutContacts(t.Context(), part...))
	}
	mustInsert(t, db, "topic_members (topic, user_id, joined_at)", n, func(i int) string { return fmt.Sprintf("('star', 'u%05d', 1)", i) })
}

// mustCountReads runs a query, and counts its rows and the rows that MariaDB read for it.
func mustCountReads(t testing.TB, conn *sqlx.Conn, query string, args ...any) (rows, read int) {
	t.Helper()
	_, err := conn.ExecContext(t.Context(), "FLUSH STATUS")
	storetest.Must(t, err)
	got, err := conn.QueryxContext(t.Context(), query, args...)
	storetest.Must(t, err)
	defer got.Close()
	for got.Next() {
		rows++
	}
	storetest.Must(t, got.Err())
	storetest.Must(t, conn.GetContext(t.Context(), &read, "SELECT SUM(VARIABLE_VALUE) FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME LIKE 'HANDLER_READ%'"))
	return rows, read
}

// mustInsert writes n rows into a table, many at once.
func mustInsert(t testing.TB, db *record.DB, into string, n int, row func(i int) string) {
	t.Helper()
	rows := make([]string, n)
	for i := range rows {
		rows[i] = row(i)
	}
	for part := range slices.Chunk(rows, 1000) {
		_, err := db.SQL().Exec("INSERT INTO " + into + " VALUES " + strings.Join(part, ", "))
		storetest.Must(t, err)
	}
}

const devicesInto = "devices (token, user_id, platform, topic, environment, state, registered_at)"

// deviceValues is a device of the user u<i>.
func deviceValues(i int, state api.DeviceState) string {
	return fmt.Sprintf("('%s', 'u%05d', 'apns', 'com.example.app', 'production', '%s', 1)", token(i), i, state)
}
