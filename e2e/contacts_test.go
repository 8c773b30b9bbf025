package e2e

import (
	"testing"
	"time"

	"fanfare/store/storetest"
)

// recentContacts is the answer of GET /v1/users/{user}/recent-contacts.
type recentContacts struct {
	Items []struct {
		Contact string
	}
	Complete bool
}

// names lists the contacts in the order of the answer.
func (r *recentContacts) names() (names string) {
	for _, item := range r.Items {
		names += item.Contact + " "
	}
	return names
}

// A whole server indexes uploads, is killed with kill -9 between them, and then answers correctly
// again. The index may be in a separate Redis, and it is rebuilt after that Redis loses it.
func TestRecentContacts(t *testing.T) {
	t.Parallel()
	t.Run("RealRedisOfItsOwnAndMariaDB", func(t *testing.T) {
		t.Parallel()
		index := storetest.Redis(t)
		vars := []string{"FANFARE_REDIS_URL=" + storetest.Redis(t).URL(), "FANFARE_CONTACTS_REDIS_URL=" + index.URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t)}
		p := mustServe(t, t.TempDir(), vars...)
		befriend(p)
		upload(p, "bob", "p1", 4*time.Hour)
		p.kill()
		p = mustServe(t, t.TempDir(), vars...)
		upload(p, "dave", "p2", 3*time.Hour)
		awaitRecent(t, p, "dave bob ")
		if n, err := index.Client().DBSize(t.Context()).Result(); err != nil || n == 0 {
			t.Errorf("the index's own Redis holds %d keys, error %v", n, err)
		}
		if err := index.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		awaitRecent(t, p, "dave bob ")
	})
	t.Run("Embedded", func(t *testing.T) {
		t.Parallel()
		p := mustServe(t, t.TempDir())
		befriend(p)
		upload(p, "bob", "p1", 4*time.Hour)
		upload(p, "dave", "p2", 3*time.Hour)
		awaitRecent(t, p, "dave bob ")
	})
}

// befriend makes bob and dave contacts of carol.
func befriend(p *program) {
	for _, contact := range []string{"bob", "dave"} {
		p.must(201, nil, "PUT", "/v1/users/carol/contacts/"+contact, map[string]string{"relationship": "friend"})
	}
}

// upload posts a public upload of some time ago.
func upload(p *program, owner, id string, ago time.Duration) {
	p.must(202, nil, "POST", "/v1/uploads", map[string]any{
		"id": id, "owner": owner, "visibility": "public", "uploaded_at": time.Now().Add(-ago).UTC().Format(time.RFC3339),
	})
}

// awaitRecent waits until carol's recent contacts are the expected ones. After that, an answer that
// says that it is complete must never lack a contact.
func awaitRecent(t *testing.T, p *program, want string) {
	t.Helper()
	var got recentContacts
	storetest.Eventually(t, 20*time.Second, "carol's recent contacts", func() bool {
		got = recentContacts{}
		p.must(200, &got, "GET", "/v1/users/carol/recent-contacts?limit=10", nil)
		return got.Complete && got.names() == want
	})
}
