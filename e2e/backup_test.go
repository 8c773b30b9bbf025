package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// mustBackupLines reads the shell blocks of docs/operations.md about backups: how to make one, how to
// load the database, how Redis writes its append-only file again, and how everything in Redis that
// another state of the database made wrong is deleted.
func mustBackupLines(t testing.TB) (backup, load, persist, clear string) {
	t.Helper()
	_, text, _ := strings.Cut(storetest.RepositoryFile(t, "docs/operations.md"), "\n## Backups\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").FindAllStringSubmatch(text, -1)
	if len(blocks) != 4 {
		t.Fatalf("%d blocks about backups", len(blocks))
	}
	return blocks[0][1], blocks[1][1], blocks[2][1], blocks[3][1]
}

// mustWriteClient writes my.cnf for a database, and returns the line that names the database.
func (s *scene) mustWriteClient(database, dir string) string {
	s.Helper()
	u, err := url.Parse(database)
	storetest.Must(s, err)
	password, _ := u.User.Password()
	text := fmt.Sprintf("[client]\nhost=%s\nport=%s\nuser=%s\npassword=%s\n", u.Hostname(), u.Port(), u.User.Username(), password)
	storetest.Must(s, os.WriteFile(filepath.Join(dir, "my.cnf"), []byte(text), 0o600))
	return "DB=" + strings.TrimPrefix(u.Path, "/") + "\n"
}

// item is an item of a sale.
type item struct{ Total, Available, Held, Sold int }

// mustSpring reads the sale of these tests.
func (p *program) mustSpring() item {
	p.t.Helper()
	var sale struct{ Items []item }
	storetest.Eventually(p.t, 30*time.Second, "the sale", func() bool { // after a restore it is read from SQL
		status, _, err := p.try("GET", "/v1/sales/spring", nil)
		return err == nil && status == 200
	})
	p.must(200, &sale, "GET", "/v1/sales/spring", nil)
	return sale.Items[0]
}

// reserve reserves units of the sale and returns the reservation.
func (p *program) reserve(user string, quantity int) string {
	p.t.Helper()
	var made struct{ ID string }
	p.must(201, &made, "POST", "/v1/sales/spring/reservations", map[string]any{"user": user, "lines": []any{map[string]any{"sku": "shoe", "quantity": quantity}}})
	return made.ID
}

// mustOrders waits until the sale has n orders on record.
func (p *program) mustOrders(n int) {
	p.t.Helper()
	storetest.Eventually(p.t, 30*time.Second, fmt.Sprint(n, " orders"), func() bool {
		var orders struct{ Items []any }
		p.must(200, &orders, "GET", "/v1/sales/spring/orders", nil)
		return len(orders.Items) == n
	})
}

// fillForBackup makes some of everything that a backup should have.
func (p *program) fillForBackup() {
	p.t.Helper()
	p.must(201, nil, "PUT", "/v1/event-types/greeting", map[string]any{"title": "{{.actor}}"})
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1), phone)
	p.must(204, nil, "PUT", "/v1/users/bob/topics/news", nil)
	p.must(204, nil, "PUT", "/v1/users/bob/opt-outs/noise", nil)
	p.must(201, nil, "PUT", "/v1/users/carol/contacts/bob", map[string]string{"relationship": "friend"})
	p.must(202, nil, "POST", "/v1/uploads", map[string]string{"id": "photo", "owner": "bob", "visibility": "public"})
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "team", "creator": "alice", "members": []string{"bob"}})
	p.mustSay("team", "alice", "one", "two", "three")
	p.must(200, nil, "POST", "/v1/users/bob/messages/ack", map[string]any{"acks": map[string]int{"team": 1}})
	p.must(201, nil, "PUT", "/v1/sales/spring", map[string]any{
		"items": []any{map[string]any{"sku": "shoe", "stock": 10}}, "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
	})
	p.must(200, nil, "POST", "/v1/sales/spring/reservations/"+p.reserve("alice", 2)+"/confirm", nil)
	p.mustOrders(1)
	p.reserve("ann", 1) // a hold
	p.must(201, nil, "PUT", "/v1/values/theme", map[string]any{"value": "dark"})
	p.must(201, nil, "PUT", "/v1/counters/downloads", map[string]any{"value": 7})
	p.must(200, nil, "PUT", "/v1/users/bob/badge", map[string]any{"count": 3})
	p.must(200, nil, "POST", "/v1/locks/report/acquire", map[string]any{"lease_ms": time.Hour.Milliseconds()})
	p.must(202, nil, "POST", "/v1/queues/emails/jobs", map[string]any{"type": "welcome"})
}

// checkOnlyInRedis checks that values, counters, badges, locks and workers' jobs are there, of which only Redis has a copy.
func (p *program) checkOnlyInRedis() {
	p.t.Helper()
	for path, want := range map[string]string{
		"/v1/values/theme":       `"value":"dark"`,
		"/v1/counters/downloads": `"value":7`,
		"/v1/users/bob/badge":    `"count":3`,
		"/v1/locks/report":       `"state":"held"`,
		"/v1/queues/emails":      `"depth":1`,
	} {
		if status, answer, err := p.try("GET", path, nil); err != nil || status != 200 || !strings.Contains(string(answer), want) {
			p.t.Errorf("%s: %d %s %v, want %s", path, status, answer, err, want)
		}
	}
}

// checkRestored requires what counts: the record as it was at the backup, chats, and that everything
// works on. messages is how many messages the chat has.
func (p *program) checkRestored(messages int) {
	p.t.Helper()
	var settings struct {
		Devices []struct{ Token string }
		OptOuts []string `json:"opt_outs"`
	}
	p.must(200, &settings, "GET", "/v1/users/bob/notification-settings", nil)
	if len(settings.Devices) != 1 || settings.Devices[0].Token != deviceToken(1) || len(settings.OptOuts) != 1 {
		p.t.Errorf("bob's settings: %+v", settings)
	}
	p.must(200, &settings, "GET", "/v1/users/dave/notification-settings", nil)
	if len(settings.Devices) != 0 {
		p.t.Errorf("a device from after the backup: %+v", settings)
	}
	for _, audience := range []map[string]any{{"users": []string{"bob"}}, {"topic": "news"}, {"contacts_of": "bob"}} {
		p.checkReached(audience)
	}
	var recent struct {
		Items    []struct{ Contact string }
		Complete bool
	}
	p.must(200, &recent, "GET", "/v1/users/carol/recent-contacts", nil)
	if len(recent.Items) != 1 || recent.Items[0].Contact != "bob" {
		p.t.Errorf("recent contacts: %+v", recent)
	}
	p.checkChat(messages)
	p.checkOnlyInRedis()
	if got := p.mustSpring(); got != (item{Total: 10, Available: 8, Sold: 2}) {
		p.t.Errorf("the sale: %+v", got)
	}
	p.mustOrders(1)
	p.must(200, nil, "POST", "/v1/sales/spring/reservations/"+p.reserve("zoe", 8)+"/confirm", nil)
	p.mustOrders(2)
	p.must(409, nil, "POST", "/v1/sales/spring/reservations", map[string]any{"user": "yan", "lines": []any{map[string]any{"sku": "shoe", "quantity": 1}}})
	if status, answer, err := p.try("GET", "/v1/dead-letters", nil); err != nil || string(answer) != "{\"items\":[]}\n" {
		p.t.Errorf("dead letters: %d %s %v", status, answer, err)
	}
}

// checkReached posts an event whose audience has bob or, as bob's contact, carol.
func (p *program) checkReached(audience map[string]any) {
	p.t.Helper()
	var event struct{ ID string }
	p.must(202, &event, "POST", "/v1/events", map[string]any{"type": "greeting", "actor": "alice", "audience": audience})
	want := 1
	if audience["contacts_of"] != nil {
		want = 0 // carol has no device
	}
	storetest.Eventually(p.t, 30*time.Second, fmt.Sprint("an event to ", audience), func() bool {
		got := mustReport(p.t, p, event.ID)
		return got.State == "done" && got.Recipients == 1 && got.Delivered == want
	})
}

// checkChat requires that the chat has its messages and takes the next one.
func (p *program) checkChat(messages int) {
	p.t.Helper()
	var pending struct {
		Chats []struct {
			ID     string
			Unread int
			Items  []struct{ ID int }
		}
	}
	p.must(200, &pending, "GET", "/v1/users/bob/messages/pending", nil)
	if len(pending.Chats) != 1 || pending.Chats[0].Unread != messages-1 || pending.Chats[0].Items[0].ID != 2 {
		p.t.Errorf("pending: %+v", pending)
	}
	var sent struct{ ID int }
	p.must(201, &sent, "POST", "/v1/chats/team/messages", map[string]string{"sender": "bob", "text": "next"})
	if sent.ID != messages+1 {
		p.t.Errorf("the next message is %d, not %d", sent.ID, messages+1)
	}
}

// A backup by the lines of docs/operations.md, the loss of the database with or without Redis, and
// the restore by the same lines: the record and what only Redis has are back, and everything works on.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	backup, load, persist, clear := mustBackupLines(t)
	for name, redisToo := range map[string]bool{"TheDatabaseIsLost": false, "BothAreLost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, database := &scene{T: t}, storetest.EmptyMySQL(t)
			redis := s.serve("FANFARE_DATABASE_URL=" + database)
			db := s.mustWriteClient(database, s.server.dir)
			s.server.fillForBackup()
			s.mustRunLines(db + backup)

			// What comes after the backup is lost with what had it.
			s.server.must(201, nil, "PUT", "/v1/users/dave/devices/"+deviceToken(2), phone)
			s.server.must(200, nil, "POST", "/v1/sales/spring/reservations/"+s.server.reserve("dave", 3)+"/confirm", nil)
			s.server.mustSay("team", "alice", "four")
			s.server.mustOrders(2)
			s.server.kill()
			files := s.server.dir
			admin := mustOpenSQL(t, database)
			defer admin.Close()
			name := strings.TrimSpace(strings.TrimPrefix(db, "DB="))
			for _, statement := range []string{"DROP DATABASE " + name, "CREATE DATABASE " + name} {
				_, err := admin.Exec(statement)
				storetest.Must(t, err)
			}
			messages, lines := 4, db+load+clear
			if redisToo {
				redis.Kill()
				dir := t.TempDir()
				storetest.Must(t, os.Rename(filepath.Join(files, "fanfare.rdb"), filepath.Join(dir, "dump.rdb")))
				redis = storetest.Redis(t, "--dir", dir)
				s.redis = redis.URL()
				messages, lines = 3, db+load+persist+clear
			}
			s.mustRunLines(lines)
			s.serveOn(redis.URL(), "FANFARE_DATABASE_URL="+database)
			s.server.checkRestored(messages)
		})
	}
}
