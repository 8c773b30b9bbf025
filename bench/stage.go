package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/go-sql-driver/mysql" // to fill tables
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver of most stages' database

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

const (
	// devices is how many users take part, each with one phone.
	devices = 2000
	// crowd is the number of users for backlogs, because in an outage most waiting notifications
	// are for different devices.
	crowd = 100_000
	// followers is how many users follow the star of a stage.
	followers = 100_000
	// fanToken is the first token of the followers.
	fanToken = 1 << 24
)

// token makes the n-th device token.
func token(n int) string { return fmt.Sprintf("%064x", 0xabc0000000+n) }

// plan says what a stage has in addition to Redis and fanfare.
type plan struct {
	users int                   // number of users, each with a device; 0: there is no stand-in for APNs either
	fans  int                   // number of followers of the user "star", each with a device
	fill  func(into tables)     // writes more rows into the database
	maria bool                  // the database is MariaDB, not SQLite
	bare  bool                  // the baselines are started as well
	env   []string              // settings of the first fanfare
	also  func(*stage) []string // starts something else, and returns settings of every fanfare
}

// stage is a whole set-up: Redis, a database, fanfare, the baselines, and the stand-in for APNs,
// which runs in this process.
type stage struct {
	*world
	apns         *apnstest.Server
	redis        *redis.Client
	server, bare *process
	users        int
	env          []string
	taken        atomic.Int64 // notifications that have arrived
	waiting      sync.Map     // by token, a chan time.Time that gets the time of the arrival
}

// stage starts a stage.
func (w *world) stage(p plan) *stage {
	store := w.redis()
	s := &stage{world: w, users: p.users, redis: store.Client().(*redis.Client).WithTimeout(time.Minute)}
	database := storetest.EmptySQLite(w)
	if p.maria {
		database = storetest.PrivateMySQL(w, "--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=0").URL()
	}
	s.env = []string{"FANFARE_REDIS_URL=" + store.URL(), "FANFARE_DATABASE_URL=" + database}
	if p.users > 0 {
		s.apns = apnstest.Start(w, apnstest.Options{CountsOnly: true, OnRequest: s.note})
		s.env = append(s.env, s.apns.Env()...)
	}
	if p.also != nil {
		s.env = append(s.env, p.also(s)...)
	}
	if p.users > 0 || p.fill != nil {
		s.fill(database, p)
	}
	if p.bare {
		addr := w.freeAddr()
		s.bare = w.serve("bare server", addr, nil, self("bare", addr, store.Addr())...)
	}
	s.server = s.join(p.env...)
	return s
}

// join starts another process of fanfare on the stage.
func (s *stage) join(env ...string) *process {
	addr := s.freeAddr()
	more := []string{"FANFARE_ADDR=" + addr, "FANFARE_LOG_LEVEL=error", "BENCH_PPROF_ADDR=" + s.pprof}
	return s.serve("fanfare", addr, s.known(slices.Concat(more, s.env, env)), s.program)
}

// note counts an arrival and tells the caller that waits for it. If the stand-in refuses a request, the
// benchmark fails.
func (s *stage) note(r *apnstest.Request) {
	if r.Status > http.StatusOK {
		s.fail(fmt.Errorf("the stand-in refused a request: %d %s", r.Status, r.Reason))
	}
	if arrived, ok := s.waiting.LoadAndDelete(r.Token); ok {
		arrived.(chan time.Time) <- r.At
	}
	s.taken.Add(1)
}

// fill makes the tables before fanfare starts and writes a device for each user.
func (s *stage) fill(database string, p plan) {
	s.output([]string{"FANFARE_DATABASE_URL=" + database}, s.program, "migrate")
	driver, source, _ := strings.Cut(database, ":")
	if p.maria {
		at := got(url.Parse(database))
		source = at.User.String() + "@tcp(" + at.Host + ")" + at.Path
	}
	into := tables{got(sql.Open(driver, source))}
	defer into.Close()
	into.devices("user-%d", 0, p.users, apnstest.DefaultTopic)
	into.devices("fan-%d", fanToken, p.fans, apnstest.DefaultTopic)
	into.contacts(p.fans, func(i int) (string, string) { return fmt.Sprintf("fan-%d", i), "star" })
	if p.fill != nil {
		p.fill(into)
	}
}

// tables is a database into which rows are written directly.
type tables struct{ *sql.DB }

// devices writes a device for each of n users.
func (in tables) devices(user string, first, n int, topic string) {
	in.rows("devices (token, user_id, platform, topic, environment, state, registered_at)", n, func(i int) string {
		return fmt.Sprintf("('%s','"+user+"','apns','%s','production','active',1)", token(first+i), i, topic)
	})
}

// contacts writes n contacts.
func (in tables) contacts(n int, of func(i int) (owner, contact string)) {
	in.rows("contacts (owner, contact, relationship, version, deleted, created_at, updated_at)", n, func(i int) string {
		owner, contact := of(i)
		return fmt.Sprintf("('%s','%s','friend',1,0,0,0)", owner, contact)
	})
}

// rows writes n rows, with many in each statement.
func (in tables) rows(table string, n int, row func(i int) string) {
	const chunk = 5000
	for from := 0; from < n; from += chunk {
		rows := listed(min(chunk, n-from), func(i int) string { return row(from + i) })
		got(in.Exec("INSERT INTO " + table + " VALUES " + rows))
	}
}

// listed joins n items with commas.
func listed(n int, item func(i int) string) string { return strings.Join(made(n, item), ",") }

// made makes a list of n items.
func made[T any](n int, item func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = item(i)
	}
	return list
}

// names makes names of a form with the numbers from first on.
func names(form string, first, n int) []string {
	return made(n, func(i int) string { return fmt.Sprintf(form, first+i) })
}

// flood is a side of 64 callers that send some requests to a process of the stage in turn, and expect
// the same status in every answer.
func (s *stage) flood(name string, to *process, status int, requests ...[]byte) *side {
	return &side{name: name, stage: s, servers: []*process{to}, status: status, requests: requests}
}

// event is one event as JSON, to an audience.
func event(audience string) string {
	return `{"type":"greeting","audience":` + audience + `,"alert":{"title":"Hello","body":"from the benchmark"}}`
}

// toFans is a POST of an event to all followers.
var toFans = toAudience(`{"contacts_of":"star"}`)

// toAudience renders a POST of an event to an audience.
func toAudience(audience string) []byte {
	return request(http.MethodPost, "/v1/events", event(audience))
}

// post renders an event to n of the users, beginning with user number first.
func post(first, n, of int) []byte {
	users := listed(n, func(i int) string { return fmt.Sprintf(`"user-%d"`, (first+i)%of) })
	return toAudience(`{"users":[` + users + `]}`)
}

// batch renders n events, each to one of the users, whose names have the given form.
func batch(user string, first, n, of int) []byte {
	events := listed(n, func(i int) string { return event(fmt.Sprintf(`{"users":["`+user+`"]}`, (first+i)%of)) })
	return request(http.MethodPost, "/v1/events/batch", `{"events":[`+events+`]}`)
}

// each calls a function n times from several goroutines, each with its own connection to the server.
func (s *stage) each(n int, do func(c *caller, i int)) {
	const goroutines = 16
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	parallel(min(goroutines, n), func(g int) {
		c := dial(ctx, s.server.addr)
		for i := g; i < n; i += goroutines {
			do(c, i)
			must(context.Cause(ctx))
		}
	})
}

// postMany posts n events, each to one of the users, whose names have the given form.
func (s *stage) postMany(user string, n, of int) {
	const size = 100 // events in a request
	s.each((n+size-1)/size, func(c *caller, i int) {
		must(c.send(batch(user, i*size, min(size, n-i*size), of), http.StatusAccepted))
	})
}

// warm sends one event to each user whose name has the given form, and waits for the arrivals, so
// that the settings of these users are cached. An event to all of them would use cached settings,
// but would not add any.
func (s *stage) warm(user string, n int) {
	before := s.taken.Load()
	s.postMany(user, n, n)
	s.await(before + int64(n))
}

// await waits until a number of notifications have arrived in all.
func (s *stage) await(all int64) {
	eventually(s.ctx, "all notifications", func() bool { return s.taken.Load() >= all })
}

// postToFans posts an event to all followers over a new connection, because the server closes
// connections that were idle for long.
func (s *stage) postToFans() {
	s.each(1, func(c *caller, _ int) { must(c.send(toFans, http.StatusAccepted)) })
}

func (s *stage) stats() (all api.Stats) {
	must(json.Unmarshal(get(s.server.addr, "/v1/stats"), &all))
	return all
}

// depth is the number of jobs of a queue in any state.
func (s *stage) depth(queue string) (n int64) {
	for _, q := range s.stats().Queues {
		if q.Name == queue {
			n = q.Depth + q.Blocked + q.Scheduled + q.Parked + q.InFlight
		}
	}
	return n
}

// rest waits until some queues are empty.
func (s *stage) rest(queues ...string) {
	eventually(s.ctx, "empty queues", func() bool {
		for _, name := range queues {
			if s.depth(name) > 0 {
				s.pause(100 * time.Millisecond) // each question takes processor time
				return false
			}
		}
		return true
	})
}

// memory is the memory that Redis reports, in bytes, when no rewrite of its file is under way. From
// then on Redis does not rewrite its file as it grows.
func (s *stage) memory() (used float64) {
	must(s.redis.ConfigSet(s.ctx, "auto-aof-rewrite-percentage", "0").Err())
	eventually(s.ctx, "Redis to be at rest", func() bool {
		info := got(s.redis.InfoMap(s.ctx, "memory", "persistence").Result())
		used = got(strconv.ParseFloat(info["Memory"]["used_memory"], 64))
		p := info["Persistence"]
		return p["aof_rewrite_in_progress"] == "0" && p["aof_rewrite_scheduled"] == "0"
	})
	return used
}

// redisCPU is the user and system time that Redis has used, in µs.
func (s *stage) redisCPU() float64 {
	info := got(s.redis.InfoMap(s.ctx, "cpu").Result())["CPU"]
	seconds := func(field string) float64 { return got(strconv.ParseFloat(info[field], 64)) }
	return (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6
}

// pause waits for a while.
func (w *world) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
		must(context.Cause(w.ctx))
	}
}
