package e2e

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

const (
	// eraseMe is a user whose name is in no other name, and marker is what the user wrote.
	eraseMe = "zoe.mallory:7"
	marker  = "MARKER-of-what-was-written"
)

// operation is the answer of GET /v1/operations/{id}.
type operation struct {
	ID, Action, State string
	Removed, Kept     map[string]int64
}

// mustLiveALife leaves traces of the user everywhere: on record, in Redis, in queues, in dead
// letters. One of the user's apps is paused. What is kept by design is left out.
func (p *program) mustLiveALife(t *testing.T, apns *apnstest.Server) {
	t.Helper()
	user := "/v1/users/" + eraseMe
	device := map[string]string{"platform": "apns", "topic": apnstest.DefaultTopic, "environment": "production"}
	parked := map[string]string{"platform": "apns", "topic": "com.example.refused", "environment": "production"}
	p.must(201, nil, "PUT", user+"/devices/"+deviceToken(1), device)
	p.must(201, nil, "PUT", user+"/devices/"+deviceToken(2), parked)
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(3), device)
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(4), parked)
	p.must(201, nil, "PUT", user+"/activities/"+deviceToken(5), map[string]string{
		"platform": "apns", "topic": apnstest.DefaultTopic, "environment": "production", "kind": "update", "object": "match:7",
	})
	p.must(201, nil, "PUT", user+"/devices/"+deviceToken(6), device)
	p.must(201, nil, "PUT", "/v1/users/dora/devices/"+deviceToken(6), device) // the user has lost it
	p.must(204, nil, "PUT", user+"/opt-outs/like", nil)
	p.must(204, nil, "PUT", user+"/mutes/album:1", nil)
	p.must(204, nil, "PUT", user+"/topics/news", nil)
	p.must(200, nil, "PUT", user+"/badge", map[string]any{"count": 3})
	p.must(200, nil, "POST", user+"/badge", map[string]any{"delta": 2}, "Idempotency-Key", "badge")

	friend := map[string]string{"relationship": "friend"}
	for _, other := range []string{"bob", "carol"} {
		p.must(201, nil, "PUT", user+"/contacts/"+other, friend)
		p.must(201, nil, "PUT", "/v1/users/"+other+"/contacts/"+eraseMe, friend)
	}
	p.must(204, nil, "DELETE", user+"/contacts/carol", nil)
	for i := range 3 {
		p.must(202, nil, "POST", "/v1/uploads", map[string]any{"id": fmt.Sprint("photo-", i), "owner": eraseMe, "visibility": "contacts"}, "Idempotency-Key", fmt.Sprint("up-", i))
	}
	p.must(204, nil, "DELETE", "/v1/uploads/photo-0", nil)
	for _, who := range []string{eraseMe, "bob"} {
		storetest.Eventually(t, 30*time.Second, "the index is there", func() bool {
			status, answer, err := p.try("GET", "/v1/users/"+who+"/recent-contacts", nil)
			return err == nil && status == 200 && (who != "bob" || strings.Contains(string(answer), eraseMe))
		})
	}
	p.must(202, nil, "POST", user+"/recent-contacts/rebuild", nil, "Idempotency-Key", "rebuild")

	say := func(chat, key string) {
		p.must(201, nil, "POST", "/v1/chats/"+chat+"/messages", map[string]any{"sender": eraseMe, "text": marker, "data": map[string]string{"more": marker}}, "Idempotency-Key", key)
	}
	for _, chat := range []string{"in", "left", "alone"} {
		members := []string{"bob"}
		if chat == "alone" {
			members = nil
		}
		p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": chat, "creator": eraseMe, "members": members, "message": marker}, "Idempotency-Key", chat)
		say(chat, chat+"-1")
		if chat != "alone" {
			p.mustSay(chat, "bob", "an answer")
			say(chat, chat+"-2")
		}
	}
	p.must(204, nil, "DELETE", "/v1/chats/left/members/"+eraseMe, nil)

	p.must(201, nil, "PUT", "/v1/sales/spring", map[string]any{
		"items": []any{map[string]any{"sku": "shoe", "stock": 9}}, "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
	})
	for _, key := range []string{"held", "released"} {
		var r struct{ ID string }
		p.must(201, &r, "POST", "/v1/sales/spring/reservations", map[string]any{"user": eraseMe, "lines": []any{map[string]any{"sku": "shoe", "quantity": 2}}}, "Idempotency-Key", key)
		if key == "released" {
			p.must(200, nil, "POST", "/v1/sales/spring/reservations/"+r.ID+"/release", nil, "Idempotency-Key", key)
		}
	}

	bug := apnstest.Fail(400, "BadPriority")
	for _, token := range []string{deviceToken(1), deviceToken(3)} {
		apns.Script(token, bug)
	}
	apns.ScriptTopic("com.example.refused", refusal())
	for actor, to := range map[string]string{eraseMe: "bob", "carol": eraseMe} {
		event := greeting(to)
		event["actor"], event["data"] = actor, map[string]string{"text": marker}
		event["alert"] = map[string]string{"title": actor, "body": marker}
		p.must(202, nil, "POST", "/v1/events", event, "Idempotency-Key", "event-by-"+actor)
	}
	storetest.Eventually(t, parkedWithin, "notifications are parked and dead letters written", func() bool {
		return p.parked() == "2" && p.metric(`fanfare_queue_dead_letters{queue="notifications"}`) == "2"
	})
}

// E7: nothing in Redis and in SQL has the name of an erased user, or what the user wrote, once the
// operation says that it is done, although the process that worked on it was killed in between.
func TestE7_NothingIsLeftOfAnErasedUser(t *testing.T) {
	t.Parallel()
	nothingIsLeft := func(t *testing.T, database string) {
		redis, apns, dir := storetest.Redis(t), apnstest.Start(t, apnstest.Options{CountsOnly: true}), t.TempDir()
		vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+database, "FANFARE_APP_PROBE_INTERVAL=1h")...)
		key := mustCreateKey(t, dir, "admin", vars...)
		serve := func() *program {
			p := mustServeMany(t, 1, vars...)[0]
			p.key = key
			return p
		}
		first, last := serve(), serve()
		first.mustTellFacts(api.FactTypes...)
		first.mustLiveALife(t, apns)
		opened := first.mustOpen(eraseMe)
		var made, ticket map[string]string
		first.must(201, &made, "POST", "/v1/users/"+eraseMe+"/tokens", map[string]any{"scopes": []string{"chat"}})
		token := "Bearer " + made["token"]
		first.must(201, &ticket, "POST", "/v1/users/"+eraseMe+"/tickets", nil, "Authorization", token)
		stream := last.mustFollow(eraseMe, "")
		db := storetest.Open(t, redis.URL())
		storetest.Eventually(t, time.Minute, "a fact names the user", func() bool {
			return slices.ContainsFunc(storetest.KeysWith(t, db, eraseMe), func(key string) bool { return strings.HasSuffix(key, ":facts") })
		})
		if keys, tables := storetest.KeysWith(t, db, eraseMe), mustTablesWith(t, database, eraseMe); len(keys) < 16 || len(tables) < 7 {
			t.Fatalf("only the keys %v and the tables %v name the user: too little is tested", keys, tables)
		}

		var begun, again operation
		first.must(202, &begun, "DELETE", "/v1/users/"+eraseMe, nil)
		last.must(202, &again, "DELETE", "/v1/users/"+eraseMe, nil)
		if again.ID != begun.ID || begun.State != "running" {
			t.Errorf("%+v, then %+v", begun, again)
		}
		first.kill()
		got := last.mustErased(t, begun.ID)
		stream.ended()
		// The step at which the process was killed may have removed things that it did not count.
		uncounted := map[string]bool{}
		for kind, step := range map[string]string{
			"devices": "", "activities": "", "settings": "", "topics": "", "contacts": "", "uploads": "", "idempotency_records": "", // counted where they are removed
			"memberships": "memberships", "notifications": "notifications", "dead_letters": "notifications", "reservations": "reservations",
			"messages": "keys", "tickets": "keys", "facts": "facts",
		} {
			if got.Removed[kind] == 0 {
				uncounted[step] = true
			}
		}
		if uncounted[""] || len(uncounted) > 1 {
			t.Errorf("steps %v counted nothing: %+v", uncounted, got)
		}
		if len(got.Kept) != 2 || got.Kept["orders"] != 0 || got.Kept["sold_reservations"] != 0 {
			t.Errorf("kept %v", got.Kept)
		}
		if status := last.statusOf(token); status != 401 {
			t.Errorf("the user's token gets %d", status)
		}
		for _, text := range []string{eraseMe, marker} {
			if keys := storetest.KeysWith(t, db, text); len(keys) > 0 {
				t.Errorf("%s is in the keys %v", text, keys)
			}
			if tables := mustTablesWith(t, database, text); len(tables) > 0 {
				t.Errorf("%s is in the tables %v", text, tables)
			}
			for _, p := range []*program{first, last} {
				if strings.Contains(p.stderr.String(), text) {
					t.Errorf("%s is in the log", text)
				}
			}
		}
		last.must(404, nil, "POST", opened+"/opened", map[string]any{"user": eraseMe})
		var report api.EventReport
		if last.must(200, &report, "GET", opened, nil); *report.Opened != 1 {
			t.Errorf("%d users opened the event", *report.Opened)
		}
		var sale struct {
			Items []struct{ Available, Held int }
		}
		last.must(200, &sale, "GET", "/v1/sales/spring", nil)
		if sale.Items[0].Available != 9 || sale.Items[0].Held != 0 {
			t.Errorf("the sale has %+v", sale)
		}
	}
	storetest.EachSQL(t, nothingIsLeft)
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		nothingIsLeft(t, storetest.Postgres(t))
	})
}

// mustOpen posts an event that counts who opens it, lets a user open it, and returns its path.
func (p *program) mustOpen(user string) (path string) {
	p.t.Helper()
	p.must(201, nil, "PUT", "/v1/event-types/seen", map[string]any{"title": "New photo", "opened": true})
	var posted struct{ ID string }
	p.must(202, &posted, "POST", "/v1/events", map[string]any{"type": "seen", "audience": map[string]any{"users": []string{user}}})
	path = "/v1/events/" + posted.ID
	storetest.Eventually(p.t, time.Minute, "the user has a notification", func() bool {
		status, _, err := p.try("POST", path+"/opened", map[string]any{"user": user})
		return err == nil && status == 204
	})
	return path
}

// statusOf is the status with which a server answers the erased user's token.
func (p *program) statusOf(token string) int {
	status, _, err := p.try("GET", "/v1/users/"+eraseMe+"/chats", nil, "Authorization", token)
	storetest.Must(p.t, err)
	return status
}

// mustErased waits until an operation is done.
func (p *program) mustErased(t testing.TB, id string) (o operation) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the operation is %+v", o)
		}
	}()
	storetest.Eventually(t, 2*time.Minute, "the user is erased", func() bool {
		p.must(200, &o, "GET", "/v1/operations/"+id, nil)
		return o.State == "done"
	})
	return o
}

// E2: a user who registers again while the operation runs keeps what is new.
func TestE2_WhoComesBackMeanwhileKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, database string) {
		apns := apnstest.Start(t, apnstest.Options{CountsOnly: true})
		p := mustServeMany(t, 1, quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database, "FANFARE_APP_PROBE_INTERVAL=1h")...)...)[0]
		p.mustLiveALife(t, apns)
		var begun operation
		p.must(202, &begun, "DELETE", "/v1/users/"+eraseMe, nil)
		user := "/v1/users/" + eraseMe
		p.must(201, nil, "PUT", user+"/devices/"+deviceToken(9), map[string]string{"platform": "apns", "topic": "com.example.other", "environment": "production"})
		p.must(204, nil, "PUT", user+"/topics/sports", nil)
		p.must(200, nil, "PUT", user+"/badge", map[string]any{"count": 1})
		p.must(201, nil, "PUT", user+"/contacts/dave", map[string]string{"relationship": "family"})
		p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "new", "creator": eraseMe, "members": []string{"bob"}, "message": "back again"})
		p.must(202, nil, "POST", "/v1/uploads", map[string]any{"id": "photo-new", "owner": eraseMe, "visibility": "public"})
		p.must(201, nil, "POST", "/v1/sales/spring/reservations", map[string]any{"user": eraseMe, "lines": []any{map[string]any{"sku": "shoe", "quantity": 1}}})
		p.mustErased(t, begun.ID)
		for path, want := range map[string]string{
			user + "/devices": deviceToken(9), user + "/topics": `"topic":"sports"`, user + "/contacts": `"contact":"dave"`, user + "/chats": `"id":"new"`, user + "/badge": `{"count":1,`,
			"/v1/chats/new/messages?user=bob": `"sender":"` + eraseMe + `","text":"back again"`, "/v1/sales/spring/reservations?user=" + eraseMe: `"state":"held"`,
		} {
			status, answer, err := p.try("GET", path, nil)
			if err != nil || status != 200 || strings.Count(string(answer), `{"`) > 3 || !strings.Contains(string(answer), want) {
				t.Errorf("%s: %d %s, %v; want %s alone", path, status, answer, err, want)
			}
		}
		p.must(200, nil, "POST", "/v1/uploads", map[string]any{"id": "photo-new", "owner": eraseMe, "visibility": "public"})
		event := greeting(eraseMe)
		var posted struct{ ID string }
		p.must(202, &posted, "POST", "/v1/events", event)
		storetest.Eventually(t, 30*time.Second, "a push arrives at the new device", func() bool { return mustReport(t, p, posted.ID).Delivered == 1 })
	})
}

// mustTablesWith lists the tables that have a text in any column of any row.
func mustTablesWith(t testing.TB, database, text string) (found []string) {
	t.Helper()
	var db *sql.DB
	var err error
	names := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if file, lite := strings.CutPrefix(database, "sqlite:"); lite {
		db, err = sql.Open("sqlite", file)
		storetest.Must(t, err)
	} else {
		db, names = mustOpenSQL(t, database), "SELECT table_name FROM information_schema.tables WHERE table_schema IN (DATABASE())"
	}
	if strings.HasPrefix(database, "postgres:") {
		names = strings.Replace(names, "DATABASE()", "current_schema()", 1)
	}
	defer db.Close()
	for _, table := range mustRows(t, db, names) {
		for _, row := range mustRows(t, db, "SELECT * FROM "+table[0]) {
			if strings.Contains(strings.Join(row, "\n"), text) {
				found = append(found, table[0])
				break
			}
		}
	}
	if len(found) == 0 && len(mustRows(t, db, names)) < 15 {
		t.Fatal("there are too few tables")
	}
	return found
}

// mustRows reads all rows as texts.
func mustRows(t testing.TB, db *sql.DB, query string) (all [][]string) {
	t.Helper()
	rows, err := db.Query(query)
	storetest.Must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	storetest.Must(t, err)
	for rows.Next() {
		row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		storetest.Must(t, rows.Scan(into...))
		texts := make([]string, len(row))
		for i := range row {
			texts[i] = row[i].String
		}
		all = append(all, texts)
	}
	storetest.Must(t, rows.Err())
	return all
}
