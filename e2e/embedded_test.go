package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/storetest"
)

// embeddedWorld is what a server was told, for a look after its next start.
type embeddedWorld struct {
	event, job, sold, held string
	due                    string // when the event is sent
	lock                   api.LockHold
}

// mustTell tells a server about everything of which something is in Redis, and of which something is in SQL.
func mustTell(p *program) (w embeddedWorld) {
	p.t.Helper()
	p.must(201, nil, "PUT", "/v1/event-types/hello", map[string]any{"title": "Hello"})
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1), map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "sandbox"})
	p.must(204, nil, "PUT", "/v1/users/bob/opt-outs/other", nil)
	p.must(204, nil, "PUT", "/v1/users/bob/mutes/album", map[string]any{})
	p.must(201, nil, "PUT", "/v1/users/carol/contacts/bob", map[string]any{"relationship": "friend"})
	p.must(202, nil, "POST", "/v1/uploads", map[string]any{"id": "photo", "owner": "bob", "visibility": "public"})
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "team", "creator": "alice", "members": []string{"bob"}, "message": "hello"})
	p.must(201, nil, "PUT", "/v1/values/color", map[string]any{"value": "blue"})
	w.job = p.enqueue("emails", map[string]any{"type": "mail", "payload": 1})
	w.lock = p.acquire("report", map[string]any{"lease_ms": time.Hour.Milliseconds()})
	p.must(201, nil, "PUT", "/v1/sales/spring", map[string]any{
		"items": []any{map[string]any{"sku": "a", "stock": 5}}, "hold_ms": 3600_000, "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
	})
	reserve := func() string {
		var made struct{ ID string }
		p.must(201, &made, "POST", "/v1/sales/spring/reservations", map[string]any{"user": "alice", "lines": []any{map[string]any{"sku": "a", "quantity": 1}}})
		return made.ID
	}
	w.sold = reserve()
	p.must(200, nil, "POST", "/v1/sales/spring/reservations/"+w.sold+"/confirm", nil)
	w.held = reserve()
	storetest.Eventually(p.t, 30*time.Second, "the order on record", func() bool { return len(p.orders()) == 1 })
	w.due = time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	w.event = p.sendOnce(w.due)
	return w
}

// sendOnce posts the event that is scheduled once, and returns its id.
func (p *program) sendOnce(due string) string {
	p.t.Helper()
	var event struct{ ID string }
	p.must(202, &event, "POST", "/v1/events", map[string]any{
		"type": "hello", "audience": map[string]any{"users": []string{"bob"}}, "send_at": due,
	}, "Idempotency-Key", "once")
	return event.ID
}

// orders are the reservations whose orders are on record.
func (p *program) orders() (list []struct{ Reservation string }) {
	p.t.Helper()
	var page struct {
		Items []struct{ Reservation string }
	}
	p.must(200, &page, "GET", "/v1/sales/spring/orders", nil)
	return page.Items
}

// stock is how many units of the sale there are in all, available, held and sold.
func (p *program) stock() string {
	p.t.Helper()
	var sale struct {
		Items []struct{ Total, Available, Held, Sold int }
	}
	p.must(200, &sale, "GET", "/v1/sales/spring", nil)
	return fmt.Sprint(sale.Items)
}

// mustHaveRecord checks that the server has what is in SQL.
func (w embeddedWorld) mustHaveRecord(p *program) {
	p.t.Helper()
	var settings struct {
		OptOuts []string `json:"opt_outs"`
		Mutes   []any
		Devices []any
	}
	p.must(200, &settings, "GET", "/v1/users/bob/notification-settings", nil)
	if len(settings.OptOuts) != 1 || len(settings.Mutes) != 1 || len(settings.Devices) != 1 {
		p.t.Errorf("settings: %+v", settings)
	}
	p.must(200, nil, "GET", "/v1/event-types/hello", nil)
	var recent struct{ Items []any }
	storetest.Eventually(p.t, 30*time.Second, "contacts and uploads", func() bool {
		p.must(200, &recent, "GET", "/v1/users/carol/recent-contacts", nil)
		return len(recent.Items) == 1
	})
	if list := p.orders(); len(list) != 1 || list[0].Reservation != w.sold {
		p.t.Errorf("orders: %+v", list)
	}
}

// mustHaveAll checks that the server has all of the world.
func (w embeddedWorld) mustHaveAll(p *program) {
	p.t.Helper()
	w.mustHaveRecord(p)
	var event struct{ State string }
	if p.must(200, &event, "GET", "/v1/events/"+w.event, nil); event.State != "scheduled" {
		p.t.Errorf("the event is %s", event.State)
	}
	if again := p.sendOnce(w.due); again != w.event {
		p.t.Error("the Idempotency-Key of the event was lost")
	}
	var chat struct{ Items []struct{ Text string } }
	if p.must(200, &chat, "GET", "/v1/chats/team/messages?user=bob", nil); len(chat.Items) != 1 || chat.Items[0].Text != "hello" {
		p.t.Errorf("the chat: %+v", chat)
	}
	var value struct{ Value string }
	if p.must(200, &value, "GET", "/v1/values/color", nil); value.Value != "blue" {
		p.t.Errorf("the value is %q", value.Value)
	}
	var job struct{ State string }
	if p.must(200, &job, "GET", "/v1/jobs/"+w.job, nil); job.State != "queued" {
		p.t.Errorf("the job is %s", job.State)
	}
	var lock struct{ Fence int64 }
	if p.must(200, &lock, "POST", "/v1/locks/report/renew", map[string]any{"token": w.lock.Token}); lock.Fence != w.lock.Fence {
		p.t.Errorf("the lock has the fence %d, want %d", lock.Fence, w.lock.Fence)
	}
	if got := p.stock(); got != "[{5 3 1 1}]" {
		p.t.Errorf("total, available, held and sold: %s", got)
	}
	var held struct{ State string }
	if p.must(200, &held, "GET", "/v1/sales/spring/reservations/"+w.held, nil); held.State != "held" {
		p.t.Errorf("the reservation is %s", held.State)
	}
}

// server is what fanfare notes about its embedded Redis server.
type server struct {
	PID              int
	Socket, Password string
}

func mustServer(t testing.TB, dir string) (s server) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "fanfare-data", "redis.json"))
	storetest.Must(t, err)
	storetest.Must(t, json.Unmarshal(text, &s))
	return s
}

// endServer ends the embedded server that the process leaves behind when it is killed.
func (p *program) endServer() {
	folder := filepath.Join(p.dir, "fanfare-data")
	text, err := os.ReadFile(filepath.Join(folder, "redis.json"))
	var s server
	if err == nil && json.Unmarshal(text, &s) == nil && running(s.PID) {
		_ = syscall.Kill(s.PID, syscall.SIGKILL)
	}
}

// mustKillServer kills the embedded server, after it has written to its file what it has answered: writes wait while
// the disk is busy.
func mustKillServer(t testing.TB, dir string) {
	t.Helper()
	s := mustServer(t, dir)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket, Password: s.Password, Protocol: 2, DisableIdentity: true})
	defer c.Close()
	storetest.Eventually(t, 30*time.Second, "all is written", func() bool {
		info, err := c.InfoMap(t.Context(), "persistence").Result()
		return err == nil && info["Persistence"]["aof_buffer_length"] == "0"
	})
	storetest.Must(t, syscall.Kill(s.PID, syscall.SIGKILL))
}

// running reports whether a process is a server that has not ended.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), "(redis-server)") && !strings.Contains(string(text), ") Z ")
}

// A server with nothing configured but an embedded Redis of either kind has everything after a clean stop and the
// next start. It says which kind it has, and tells callers without a key no paths.
func TestEmbeddedKeepsItsData(t *testing.T) {
	t.Parallel()
	for mode, note := range map[string]string{
		"memory": "Redis is embedded, in the memory of this one process (FANFARE_EMBEDDED=memory): a clean stop keeps what it has",
		"redis":  "Redis is embedded, for this one process: redis ",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := mustServe(t, dir, "FANFARE_EMBEDDED="+mode)
			if _, body, err := p.try("GET", "/readyz", nil); err != nil || !strings.Contains(string(body), note) {
				t.Errorf("readyz: %s %v", body, err)
			} else if strings.Contains(string(body), "fanfare-data") {
				t.Errorf("readyz tells callers without a key where the data is: %s", body)
			}
			storetest.Eventually(t, 30*time.Second, "the note at start", func() bool {
				return strings.Contains(p.stderr.String(), note) && strings.Contains(p.stderr.String(), "fanfare-data/")
			})
			w := mustTell(p)
			for range 2 {
				if code, _ := p.terminate(); code != 0 {
					t.Fatalf("exit code %d", code)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "fanfare-data", "redis.[js]*")); len(left) > 0 {
					t.Errorf("after the stop there is %q", left)
				}
				p = mustServe(t, dir, "FANFARE_EMBEDDED="+mode)
				w.mustHaveAll(p)
			}
			p.must(200, nil, "POST", "/v1/sales/spring/reservations/"+w.held+"/confirm", nil)
			if got := p.stock(); got != "[{5 3 0 2}]" {
				t.Errorf("total, available, held and sold: %s", got)
			}
		})
	}
}

// With an embedded redis-server nothing is lost by kill -9 of fanfare, whose next start takes the data over, and nothing
// that was written by kill -9 of the server, which is started again while fanfare answers.
func TestEmbeddedServerSurvivesKills(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ff-") // short enough for the socket to be beside the data, as the document has it
	storetest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := mustServe(t, dir, "FANFARE_EMBEDDED=redis")
	w := mustTell(p)
	first := mustServer(t, dir)
	p.kill()
	if !running(first.PID) {
		t.Error("the server ended with fanfare")
	}
	p = mustServe(t, dir, "FANFARE_EMBEDDED=redis")
	second := mustServer(t, dir)
	if running(first.PID) || !running(second.PID) {
		t.Error("not one server works, but none or two")
	}
	w.mustHaveAll(p)
	look := exec.Command("bash", "-euo", "pipefail", "-c", mustBlocks(t, "docs/operations.md", "The embedded Redis"))
	look.Dir = dir
	if out, err := look.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("process_id:%d", second.PID)) {
		t.Errorf("the line of the document: %v\n%s", err, out)
	}

	mustKillServer(t, dir)
	storetest.Eventually(t, 30*time.Second, "the server is told of and started again", func() bool {
		return strings.Contains(p.stderr.String(), "the embedded Redis ended, and is started again") && mustServer(t, dir).PID != second.PID
	})
	p.awaitReady()
	w.mustHaveAll(p)
	third := mustServer(t, dir)
	if code, _ := p.terminate(); code != 0 || running(third.PID) {
		t.Errorf("exit code %d; the server runs: %v", code, running(third.PID))
	}
}

// After a crash, an embedded Redis in memory begins empty rather than with what it had at an earlier stop, and SQL
// has the rest. That is what the note at start says.
func TestEmbeddedMemoryAfterACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := mustServe(t, dir)
	w := mustTell(p)
	if code, _ := p.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	p = mustServe(t, dir)
	w.mustHaveAll(p)
	note := "a crash loses all of it: queued work and dead letters, reports of events, jobs, locks, values, counters, chats, " +
		"open holds of sales and Idempotency-Keys of events, chats and sales; the database keeps event types, devices, preferences, contacts, uploads, sales, orders, schedules, webhooks, API keys, and the keys and revocations of user tokens"
	if !strings.Contains(p.stderr.String(), note) {
		t.Errorf("the note at start is missing:\n%s", p.stderr.String())
	}
	p.kill()
	p = mustServe(t, dir)
	w.mustHaveRecord(p)
	p.must(404, nil, "GET", "/v1/events/"+w.event, nil)
	p.must(404, nil, "GET", "/v1/chats/team", nil)
	p.must(404, nil, "GET", "/v1/values/color", nil)
	p.must(404, nil, "GET", "/v1/jobs/"+w.job, nil)
	p.must(409, nil, "POST", "/v1/locks/report/renew", map[string]any{"token": w.lock.Token})
	if again := p.sendOnce(w.due); again == w.event {
		t.Error("the key of the event was kept")
	}
	if got := p.stock(); got != "[{5 4 0 1}]" {
		t.Errorf("total, available, held and sold: %s", got)
	}
}

// A snapshot that is torn is told of and kept under another name, and the start goes on with an empty Redis.
func TestEmbeddedMemoryWithATornSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := mustServe(t, dir)
	w := mustTell(p)
	if code, _ := p.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	file := filepath.Join(dir, "fanfare-data", "memory.snapshot")
	text, err := os.ReadFile(file)
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(file, text[:len(text)/2], 0o600))
	p = mustServe(t, dir)
	if aside, _ := filepath.Glob(file + ".2*"); len(aside) != 1 || !strings.Contains(p.stderr.String(), "is put aside") {
		t.Errorf("put aside: %q; it said:\n%s", aside, p.stderr.String())
	}
	w.mustHaveRecord(p)
	p.must(404, nil, "GET", "/v1/values/color", nil)
}

// The snapshot of an embedded Redis in memory moves into a redis-server when one can be had. Data of a redis-server
// is never left behind unnoticed when there is none any more.
func TestEmbeddedChangesItsKind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nowhere := []string{"FANFARE_EMBEDDED=auto", "PATH=" + t.TempDir()}
	p := mustServe(t, dir, nowhere...)
	if want := "in the memory of this one process (there is no redis-server on PATH, there is no valkey-server on PATH)"; !strings.Contains(p.stderr.String(), want) {
		t.Errorf("the start does not say %q:\n%s", want, p.stderr.String())
	}
	w := mustTell(p)
	if code, _ := p.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	p = mustServe(t, dir, "FANFARE_EMBEDDED=auto")
	mustServer(t, dir)
	w.mustHaveAll(p)
	if code, _ := p.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	p = mustServe(t, dir, "FANFARE_EMBEDDED=auto")
	w.mustHaveAll(p)
	if code, _ := p.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	for name, tc := range map[string]struct{ mode, dir, want string }{
		"NoServer":   {"redis", t.TempDir(), "FANFARE_EMBEDDED: there is no redis-server on PATH"},
		"DataOfOne":  {"auto", dir, "fanfare-data has the data of a redis-server or valkey-server, which cannot be used"},
		"NoServerIt": {"redis", dir, "FANFARE_EMBEDDED: there is no redis-server on PATH"},
	} {
		code, _, errs := mustRun(t, tc.dir, nil, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED="+tc.mode, nowhere[1])
		if code != 1 || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
}

// A start with FANFARE_EMBEDDED=memory puts the data of a server aside, and says where. It never comes back by itself, neither
// over what the Redis in memory kept at a clean stop nor after its crash; moved back, it is there again.
func TestEmbeddedOldDataStaysAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "fanfare-data", "appendonlydir")
	color := func(p *program) (value string) {
		var answer struct{ Value string }
		if status, body, err := p.try("GET", "/v1/values/color", nil); err != nil || status == 200 && json.Unmarshal(body, &answer) != nil {
			t.Errorf("%d %s %v", status, body, err)
		}
		return answer.Value
	}
	stop := func(p *program) {
		if code, _ := p.terminate(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	paint := func(mode, was, next string) *program {
		p := mustServe(t, dir, "FANFARE_EMBEDDED="+mode)
		if got := color(p); got != was {
			t.Errorf("with %s the color is %q, want %q", mode, got, was)
		}
		if status, body, err := p.try("PUT", "/v1/values/color", map[string]any{"value": next}); err != nil || status/100 != 2 {
			t.Fatalf("%d %s %v", status, body, err)
		}
		return p
	}
	stop(paint("redis", "", "blue"))
	p := paint("memory", "", "red")
	aside, err := filepath.Glob(data + ".2*")
	storetest.Must(t, err)
	if len(aside) != 1 || !strings.Contains(p.stderr.String(), "starts without the data of the server that was used before") || !strings.Contains(p.stderr.String(), filepath.Base(aside[0])) {
		t.Fatalf("aside are %q, and the start does not say so:\n%s", aside, p.stderr.String())
	}
	stop(p)
	stop(paint("auto", "red", "green"))
	paint("memory", "", "white").kill()
	stop(paint("redis", "", "black"))
	storetest.Must(t, os.RemoveAll(data))
	storetest.Must(t, os.Rename(aside[0], data))
	stop(paint("redis", "blue", "blue"))
}

// Data of an embedded Redis is older than the database once fanfare has run with another one. A start with an embedded Redis
// refuses it with a sentence that names the ways on: with the other Redis, with the data, and with neither.
func TestEmbeddedDataIsOutdatedByAnotherRedis(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"memory", "redis"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir, other := t.TempDir(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL()
			folder := filepath.Join(dir, "fanfare-data")
			run := func(wantStatus int, vars ...string) {
				t.Helper()
				p := mustServe(t, dir, vars...)
				p.must(wantStatus, nil, "GET", "/v1/values/color", nil)
				p.must(map[int]int{404: 201, 200: 200}[wantStatus], nil, "PUT", "/v1/values/color", map[string]any{"value": "blue"})
				if code, _ := p.terminate(); code != 0 {
					t.Fatalf("exit code %d", code)
				}
			}
			run(404, "FANFARE_EMBEDDED="+mode)
			run(200, "FANFARE_EMBEDDED="+mode)
			run(404, other)
			run(200, other)
			refused := func(vars ...string) {
				t.Helper()
				code, _, errs := mustRun(t, dir, nil, append([]string{"FANFARE_ADDR=127.0.0.1:0"}, vars...)...)
				for _, want := range []string{
					"FANFARE_EMBEDDED: the data in " + folder + " is older than the database: fanfare has used another Redis (FANFARE_REDIS_URL) since 2",
					"; set FANFARE_REDIS_URL again to go on with that Redis; or move the folder away to start with an empty one; or delete " + filepath.Join(folder, "outdated") + " to go on with the data in the folder",
				} {
					if code != 1 || !strings.Contains(errs, want) {
						t.Errorf("exit code %d, without %q: %s", code, want, errs)
					}
				}
			}
			refused("FANFARE_EMBEDDED=" + mode)
			refused("FANFARE_EMBEDDED=auto")
			if mode == "redis" { // which cannot be had any more
				refused("FANFARE_EMBEDDED=auto", "PATH="+t.TempDir())
			}
			storetest.Must(t, os.Remove(filepath.Join(folder, "outdated")))
			run(200, "FANFARE_EMBEDDED="+mode)
			run(200, other)
			storetest.Must(t, os.Rename(folder, folder+".old"))
			run(404, "FANFARE_EMBEDDED="+mode)
			run(200, "FANFARE_EMBEDDED="+mode)
		})
	}
}

// A run on one database of a server with another Redis says nothing about the data that another database has from an embedded
// one in the same directory.
func TestEmbeddedDataIsNotOutdatedByAnotherDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shop, news := "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_DATABASE_URL="+storetest.MySQL(t)
	run := func(want int, vars ...string) {
		t.Helper()
		p := mustServe(t, dir, vars...)
		p.must(want, nil, "PUT", "/v1/values/color", map[string]any{"value": "blue"})
		if code, _ := p.terminate(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	run(201, shop)
	run(201, news, "FANFARE_REDIS_URL="+storetest.Redis(t).URL())
	run(200, shop)
	run(201, shop, "FANFARE_REDIS_URL="+storetest.Redis(t).URL())
	code, _, errs := mustRun(t, dir, nil, "FANFARE_ADDR=127.0.0.1:0", shop)
	if name := shop[strings.LastIndex(shop, "/")+1:]; code != 1 || !strings.Contains(errs, "is older than the database") || !strings.Contains(errs, "-"+name+" to go on with the data") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	notes, err := filepath.Glob(filepath.Join(dir, "fanfare-mysql-data", "outdated-*"))
	storetest.Must(t, err)
	if len(notes) != 2 {
		t.Errorf("the notes are %q", notes)
	}
}

// A start in memory uses no data of a server, so data that is older than the database does not keep it from starting: it is put
// aside. What the Redis in memory has from then on is not outdated, nor is what a later server has.
func TestEmbeddedMemoryPutsOutdatedDataAside(t *testing.T) {
	t.Parallel()
	dir, other, none := t.TempDir(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "PATH="+t.TempDir()
	run := func(want int, vars ...string) *program {
		t.Helper()
		p := mustServe(t, dir, vars...)
		p.must(want, nil, "PUT", "/v1/values/color", map[string]any{"value": "blue"})
		if code, _ := p.terminate(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		return p
	}
	run(201, "FANFARE_EMBEDDED=redis")
	run(201, other)
	p := run(201, "FANFARE_EMBEDDED=memory", none)
	if !strings.Contains(p.stderr.String(), "starts without the data of the server that was used before") {
		t.Errorf("the start does not say that data is put aside:\n%s", p.stderr.String())
	}
	run(200, "FANFARE_EMBEDDED=memory", none)
	run(200, "FANFARE_EMBEDDED=redis")
	run(200, other)
	code, _, errs := mustRun(t, dir, nil, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED=redis")
	if code != 1 || !strings.Contains(errs, "is older than the database") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// Two processes never keep the data of a Redis in memory in one folder.
func TestEmbeddedMemoryLocksItsFolder(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	mustServe(t, dir)
	storetest.Must(t, os.Symlink(filepath.Join(dir, "fanfare-data"), filepath.Join(other, "fanfare-data")))
	code, _, errs := mustRun(t, other, nil, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED=memory")
	if want := "fanfare-data/lock is locked: another fanfare uses this folder"; code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A snapshot that is larger than the maxmemory of a server ends the start with a sentence that says what to do. With the Redis
// in memory it is read as before.
func TestEmbeddedSnapshotIsTooLarge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := mustServe(t, dir)
	p.must(201, nil, "PUT", "/v1/values/color", map[string]any{"value": "blue"})
	for i := range 120 {
		p.must(201, nil, "PUT", fmt.Sprintf("/v1/values/large-%d", i), map[string]any{"value": strings.Repeat("x", 16_000)})
	}
	if code, _ := p.terminate(); code != 0 || !strings.Contains(p.stderr.String(), "the snapshot of Redis was written") {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	small := t.TempDir() // a redis-server with little memory, whatever its settings say
	server, err := exec.LookPath("redis-server")
	storetest.Must(t, err)
	script := "#!/bin/sh\nif [ \"$1\" = - ]; then exec " + server + " - --maxmemory 2mb; fi\nexec " + server + " \"$@\"\n"
	storetest.Must(t, os.WriteFile(filepath.Join(small, "redis-server"), []byte(script), 0o755))
	for range 2 {
		code, _, errs := mustRun(t, dir, nil, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED=auto", "PATH="+small+":"+os.Getenv("PATH"))
		if want := "the server's maxmemory is too small for it (2097152 bytes); give it more memory, start with FANFARE_EMBEDDED=memory"; code != 1 || !strings.Contains(errs, want) {
			t.Errorf("exit code %d; it lacks %q: %s", code, want, errs)
		}
	}
	p = mustServe(t, dir)
	var value struct{ Value string }
	if p.must(200, &value, "GET", "/v1/values/color", nil); value.Value != "blue" {
		t.Errorf("the value is %q", value.Value)
	}
}

// A start on data that is damaged, or that a newer server wrote, ends with a sentence that says what to do, and
// leaves the data alone.
func TestEmbeddedDataThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := mustServe(t, dir, "FANFARE_EMBEDDED=redis")
	p.must(201, nil, "PUT", "/v1/values/color", map[string]any{"value": "blue"})
	if code, _ := p.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	refused := func(parts ...string) {
		t.Helper()
		code, _, errs := mustRun(t, dir, nil, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_EMBEDDED=redis")
		for _, part := range parts {
			if code != 1 || !strings.Contains(errs, part) {
				t.Errorf("exit code %d; it lacks %q: %s", code, part, errs)
			}
		}
	}
	version := filepath.Join(dir, "fanfare-data", "redis.version")
	was, err := os.ReadFile(version)
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(version, []byte("redis 99.0.0\n"), 0o600))
	refused("FANFARE_EMBEDDED", "was last written by redis 99.0.0", "install redis 99.0.0 or newer")
	storetest.Must(t, os.WriteFile(version, was, 0o600))

	files, err := filepath.Glob(filepath.Join(dir, "fanfare-data", "appendonlydir", "*.incr.aof"))
	storetest.Must(t, err)
	text, err := os.ReadFile(files[0])
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(files[0], append([]byte("*x\r\n"), text...), 0o600))
	refused("FANFARE_EMBEDDED", "its data is damaged", "check-aof --fix")
	storetest.Must(t, os.WriteFile(files[0], text[:len(text)-2], 0o600)) // as a crash of the machine may leave it
	p = mustServe(t, dir, "FANFARE_EMBEDDED=redis")
	p.awaitReady()
}
