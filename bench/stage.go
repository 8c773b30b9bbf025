package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the database of the stage

	"fanfare/delivery/apns/apnstest"
)

// population is how many users take part, with a phone each.
type population int

const (
	devices population = 2000
	// crowd is for backlogs: in an outage most of what waits is for a device of
	// its own.
	crowd population = 100_000
)

// followers is how many users hear of the star of a stage.
const followers = 100_000

// token makes the n-th device token; those of followers begin at fanToken.
func token(n int) string { return fmt.Sprintf("%064x", 0xabc0000000+n) }

const fanToken = 1 << 24

// database is where fanfare finds its tables, and how we do.
type database struct{ url, driver, dsn string }

// stage is a whole set-up: Redis, the stand-in for APNs in this process, an
// SQLite or another database, fanfare, and a device for each user.
type stage struct {
	apns          *apnstest.Server
	redis, server *process
	database      database
	devices       population
	taken, wrong  atomic.Int64
	arrivals      arrivals
}

// stage starts one. With fans, that many users follow the user "star".
func (w *world) stage(ctx context.Context, n population, fans int, env ...string) (*stage, error) {
	return w.stageOn(ctx, database{}, n, fans, env...)
}

// stageOn starts one on an empty database, the zero one: an SQLite beside Redis.
func (w *world) stageOn(ctx context.Context, db database, n population, fans int, env ...string) (*stage, error) {
	s := &stage{devices: n, database: db, arrivals: arrivals{waiting: map[string]chan time.Time{}}}
	var err error
	if s.apns, err = apnstest.New(apnstest.Options{CountsOnly: true, OnRequest: s.note}); err != nil {
		return nil, err
	}
	if s.redis, err = w.redis(); err != nil {
		return nil, err
	}
	if db.url == "" {
		file := s.redis.cmd.Dir + "/fanfare.db"
		s.database = database{"sqlite:" + file, "sqlite", file}
	}
	if err := w.migrate(ctx, s.database.url); err != nil {
		return s, err
	}
	if err := s.fill(fans); err != nil {
		return s, err
	}
	s.server, err = w.join(ctx, s, env...)
	return s, err
}

// join starts a fanfare on the stage.
func (w *world) join(ctx context.Context, s *stage, env ...string) (*process, error) {
	env = append(append(s.apns.Env(), "FANFARE_DATABASE_URL="+s.database.url), env...)
	return w.fanfare(ctx, s.redis, env...)
}

// close ends the stand-in; the processes end with the subject.
func (s *stage) close() {
	if s != nil && s.apns != nil {
		_ = s.apns.Close()
	}
}

// note counts what arrives and tells who waits for it.
func (s *stage) note(r *apnstest.Request) {
	if r.Status != http.StatusOK {
		s.wrong.Add(1)
	}
	s.arrivals.note(r)
	s.taken.Add(1)
}

// fill gives each user a device, and the star followers with a device each.
func (s *stage) fill(fans int) error {
	db, err := sql.Open(s.database.driver, s.database.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := insertDevices(db, "user-%d", 0, int(s.devices), apnstest.DefaultTopic); err != nil || fans == 0 {
		return err
	}
	if err := insertDevices(db, "fan-%d", fanToken, fans, apnstest.DefaultTopic); err != nil {
		return err
	}
	return insert(db, "contacts (owner, contact, relationship, version, deleted, created_at, updated_at)", fans, func(i int) string {
		return fmt.Sprintf("('fan-%d','star','contact',1,0,0,0)", i)
	})
}

// insertDevices writes a device for each of n users.
func insertDevices(db *sql.DB, user string, first, n int, topic string) error {
	return insert(db, "devices (token, user_id, platform, topic, environment, state, registered_at)", n, func(i int) string {
		return fmt.Sprintf("('%s','"+user+"','apns','%s','production','active',1)", token(first+i), i, topic)
	})
}

// insert writes n rows, many at once.
func insert(db *sql.DB, into string, n int, row func(i int) string) error {
	const chunk = 5000
	for from := 0; from < n; from += chunk {
		rows := make([]string, 0, chunk)
		for i := from; i < min(from+chunk, n); i++ {
			rows = append(rows, row(i))
		}
		if _, err := db.Exec("INSERT INTO " + into + " VALUES " + strings.Join(rows, ",")); err != nil {
			return err
		}
	}
	return nil
}

// event is one event as JSON, to an audience.
func event(audience string) string {
	return `{"type":"greeting","audience":` + audience + `,"alert":{"title":"Hello","body":"from the benchmark"}}`
}

// users is the audience of n users, beginning with the first-th.
func (p population) users(first, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"user-%d"`, (first+i)%int(p))
	}
	return `{"users":[` + strings.Join(list, ",") + `]}`
}

// post renders an event to n users.
func (p population) post(first, n int) []byte {
	return request(http.MethodPost, "/v1/events", []byte(event(p.users(first, n))))
}

// batch renders n events to one user each.
func (p population) batch(first, n int) []byte { return batch("user-%d", first, n, int(p)) }

// batch renders n events, to one user each of so many whose name has this form.
func batch(user string, first, n, of int) []byte {
	list := make([]string, n)
	for i := range list {
		list[i] = event(fmt.Sprintf(`{"users":["`+user+`"]}`, (first+i)%of))
	}
	return request(http.MethodPost, "/v1/events/batch", []byte(`{"events":[`+strings.Join(list, ",")+`]}`))
}
