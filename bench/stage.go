package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver of most stages' database

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/webpush/webpushtest"
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
	users int  // number of users, each with a device; 0: there is no stand-in for APNs either
	fans  int  // number of followers of the user "star", each with a device
	topic bool // the followers are in the topic "star", too
	// others is the number of users with a device of FCM, and of those with a browser. If it is not 0, one
	// stand-in for all platforms takes the place of that for APNs.
	others int
	fill   func(into inserter) // writes more rows into the database
	maria  bool                // the database is MariaDB, not SQLite
	bare   bool                // the baselines are started as well
	env    []string            // settings of fanfare
}

// stage is a whole set-up: Redis, a database, fanfare, the baselines, and the stand-in for APNs,
// which runs in this process.
type stage struct {
	*world
	apns          *apnstest.Server
	browsers      *webpushtest.Server // makes subscriptions
	redis, server *process
	bare          *process
	database      database
	users         int
	env           []string
	taken, wrong  atomic.Int64
	late          atomic.Int64 // after how many ns the stand-in for all platforms answers, about
	waiting       sync.Map     // by token, a chan time.Time that gets the time of the arrival
}

// stage starts a stage.
func (w *world) stage(p plan) *stage {
	s := &stage{world: w, users: p.users, redis: w.redis()}
	s.database = database{"sqlite:" + s.redis.cmd.Dir + "/fanfare.db", "sqlite", s.redis.cmd.Dir + "/fanfare.db"}
	if p.maria {
		s.database = w.mariadb()
	}
	s.env = []string{"FANFARE_DATABASE_URL=" + s.database.url}
	if p.users > 0 {
		s.apns = got(apnstest.New(apnstest.Options{CountsOnly: true, OnRequest: s.note}))
		w.ends = append(w.ends, func() { _ = s.apns.Close() })
		s.env = append(s.env, s.apns.Env()...)
	}
	if p.others > 0 {
		s.env = append(s.env, s.allPlatforms()...)
	}
	if p.users > 0 || p.fill != nil {
		s.fill(p)
	}
	if p.bare {
		s.bare = w.bare(s.redis)
	}
	s.server = s.join(p.env...)
	return s
}

// join starts another process of fanfare on the stage.
func (s *stage) join(env ...string) *process {
	return s.fanfare(s.redis, append(s.env[:len(s.env):len(s.env)], env...)...)
}

// note counts an arrival and tells the caller that waits for it.
func (s *stage) note(r *apnstest.Request) {
	if r.Status != http.StatusOK {
		s.wrong.Add(1)
	}
	if arrived, ok := s.waiting.LoadAndDelete(r.Token); ok {
		arrived.(chan time.Time) <- r.At
	}
	s.taken.Add(1)
}

// fill makes the tables before fanfare starts and writes a device for each user.
func (s *stage) fill(p plan) {
	cmd := exec.CommandContext(s.ctx, s.program, "migrate")
	cmd.Env = []string{"FANFARE_DATABASE_URL=" + s.database.url}
	if out, err := cmd.CombinedOutput(); err != nil {
		failf("make tables: %w\n%s", err, out)
	}
	db := s.database.open()
	defer db.Close()
	into := inserter{db}
	into.devices("user-%d", 0, p.users, apnstest.DefaultTopic)
	into.devices("fan-%d", fanToken, p.fans, apnstest.DefaultTopic)
	if p.others > 0 {
		into.others(p.others, s.browsers)
	}
	into.contacts(p.fans, func(i int) (string, string) { return fmt.Sprintf("fan-%d", i), "star" })
	if p.topic {
		into.rows("topic_members (topic, user_id, joined_at)", p.fans, func(i int) string { return fmt.Sprintf("('star','fan-%d',1)", i) })
	}
	if p.fill != nil {
		p.fill(into)
	}
}

func (d database) open() *sql.DB { return got(sql.Open(d.driver, d.dsn)) }

// inserter writes rows directly into tables.
type inserter struct{ db *sql.DB }

// devices writes a device for each of n users.
func (in inserter) devices(user string, first, n int, topic string) {
	in.rows("devices (token, user_id, platform, topic, environment, state, registered_at)", n, func(i int) string {
		return fmt.Sprintf("('%s','"+user+"','apns','%s','production','active',1)", token(first+i), i, topic)
	})
}

// contacts writes n contacts.
func (in inserter) contacts(n int, of func(i int) (owner, contact string)) {
	in.rows("contacts (owner, contact, relationship, version, deleted, created_at, updated_at)", n, func(i int) string {
		owner, contact := of(i)
		return fmt.Sprintf("('%s','%s','friend',1,0,0,0)", owner, contact)
	})
}

// rows writes n rows, with many in each statement.
func (in inserter) rows(table string, n int, row func(i int) string) {
	const chunk = 5000
	for from := 0; from < n; from += chunk {
		rows := make([]string, 0, chunk)
		for i := from; i < min(from+chunk, n); i++ {
			rows = append(rows, row(i))
		}
		got(in.db.Exec("INSERT INTO " + table + " VALUES " + strings.Join(rows, ",")))
	}
}

// flood is a side that sends a load to a process of the stage.
func (s *stage) flood(name string, to *process, l *load) side {
	return side{name, l.run, []*process{s.redis, to}}
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
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"user-%d"`, (first+i)%of)
	}
	return toAudience(`{"users":[` + strings.Join(list, ",") + `]}`)
}

// batch renders n events, each to one of the users, whose names have the given form.
func batch(user string, first, n, of int) []byte {
	list := make([]string, n)
	for i := range list {
		list[i] = event(fmt.Sprintf(`{"users":["`+user+`"]}`, (first+i)%of))
	}
	return request(http.MethodPost, "/v1/events/batch", `{"events":[`+strings.Join(list, ",")+`]}`)
}

// postMany posts n events, each to one of the users, whose names have the given form.
func (s *stage) postMany(user string, n, of int) {
	const size = 100 // events in a request
	each(s.ctx, s.server.addr, (n+size-1)/size, func(c *caller, i int) {
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
func (s *stage) await(all int64) { awaitAll(s.ctx, all, s.taken.Load) }

// postToFans posts an event to all followers over a new connection, because the server closes
// connections that were idle for long.
func (s *stage) postToFans() {
	each(s.ctx, s.server.addr, 1, func(c *caller, _ int) { must(c.send(toFans, http.StatusAccepted)) })
}

// stats are the figures of /v1/stats that the benchmark uses.
type stats struct {
	Queues []struct {
		Name                              string
		Depth, Blocked, Scheduled, Parked int
		InFlight                          int `json:"in_flight"`
	}
	Sales struct {
		Waiting int `json:"waiting_orders"`
	}
	Contacts struct{ Pending int }
}

// depth is the number of jobs of a queue in any state.
func (s *stage) depth(queue string) int {
	for _, q := range s.stats().Queues {
		if q.Name == queue {
			return q.Depth + q.Blocked + q.Scheduled + q.Parked + q.InFlight
		}
	}
	failf("there is no queue %s", queue)
	return 0
}

func (s *stage) stats() (all stats) {
	must(json.Unmarshal(get(s.server.addr, "/v1/stats"), &all))
	return all
}

// rest waits until some queues are empty.
func (s *stage) rest(queues ...string) {
	eventually(s.ctx, 10*time.Minute, "empty queues", func() bool {
		for _, name := range queues {
			if s.depth(name) > 0 {
				pause(s.ctx, 100*time.Millisecond) // each question takes processor time
				return false
			}
		}
		return true
	})
}

// keepFile keeps Redis from rewriting its file as it grows, because memory cannot be measured
// during a rewrite.
func (s *stage) keepFile() {
	must(s.redis.db.ConfigSet(s.ctx, "auto-aof-rewrite-percentage", "0").Err())
}

// memory is the memory that Redis reports, in bytes, when no rewrite of its file is under way.
func (s *stage) memory() (used float64) {
	eventually(s.ctx, time.Minute, "Redis to be at rest", func() bool {
		info := got(s.redis.db.InfoMap(s.ctx, "memory", "persistence").Result())
		used = got(strconv.ParseFloat(info["Memory"]["used_memory"], 64))
		p := info["Persistence"]
		return p["aof_rewrite_in_progress"] == "0" && p["aof_rewrite_scheduled"] == "0"
	})
	return used
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		must(ctx.Err())
	}
}
