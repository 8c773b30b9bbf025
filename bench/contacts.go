package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Who asks for recent contacts: many users with ten contacts each, of as many
// people with three uploads each; one user with very many; and one whom many
// others follow.
const (
	askers   = 2000
	people   = 1000
	manyOf   = 100_000
	baseTime = 1_700_000_000_000
	// fansOf is how many have the same star as their only contact.
	fansOf = 100_000
)

// benchContacts compares recent-contacts with a bare handler that reads a sorted
// set, on SQLite and on MariaDB, and a large address book with a small one.
func benchContacts(ctx context.Context, w *world) (found, error) {
	store, err := w.redis()
	if err != nil {
		return found{}, err
	}
	bare, err := w.bare(store)
	if err != nil {
		return found{}, err
	}
	if err := putRecent(ctx, store); err != nil {
		return found{}, err
	}
	file := store.cmd.Dir + "/fanfare.db"
	var lite, large *process
	var fails [2]error
	var filled sync.WaitGroup
	filled.Go(func() { lite, fails[0] = w.contactsOn(ctx, store, "sqlite:"+file, "sqlite", file) })
	filled.Go(func() { large, fails[1] = w.contactsOnMariaDB(ctx) })
	filled.Wait()
	if err := errors.Join(fails[:]...); err != nil {
		return found{}, err
	}
	m, err := w.turns(ctx,
		w.flood("sqlite", asking(lite.addr)), w.flood("mariadb", asking(large.addr)), w.flood("bare", asking(bare.addr)),
		w.flood("small", askingFor(lite.addr, "user-0")), w.flood("big", askingFor(lite.addr, "big")),
		side{"upload", func(ctx context.Context, d time.Duration) (sample, error) {
			return uploads(ctx, large.addr, w.few(fansOf), d)
		}})
	const work, baseline = "recent-contacts, 64 callers, ", "bare chi handler, one ZREVRANGE"
	return found{rows: []row{
		{work + "SQLite", m.of("sqlite", "rate"), "/s", m.of("bare", "rate"), baseline, atLeast(.5)},
		{work + "MariaDB", m.of("mariadb", "rate"), "/s", m.of("bare", "rate"), baseline, atLeast(.4)},
		{"recent-contacts with 100,000 contacts, one caller, p50", m.of("big", "p50"), "ms", m.of("small", "p50"), "with 10 contacts", atMost(1.2)},
		{"upload, indexes of its followers, MariaDB", m.of("upload", "rate"), "/s", 0, "", valueAtLeast(100_000)},
	}}, err
}

// contactsOn starts a fanfare on a database that it fills.
func (w *world) contactsOn(ctx context.Context, store *process, url, driver, dsn string, env ...string) (*process, error) {
	if err := w.migrate(ctx, url); err != nil {
		return nil, err
	}
	if err := fillContacts(driver, dsn, w.few(manyOf), w.few(fansOf)); err != nil {
		return nil, fmt.Errorf("fill %s: %w", driver, err)
	}
	p, err := w.fanfare(ctx, store, append(env, "FANFARE_DATABASE_URL="+url, "FANFARE_ROLES=api,jobs")...)
	if err != nil {
		return nil, err
	}
	return p, warmContacts(ctx, p.addr)
}

// contactsOnMariaDB starts one on MariaDB, with a Redis of its own.
func (w *world) contactsOnMariaDB(ctx context.Context) (*process, error) {
	maria, err := w.mariadb(ctx)
	if err != nil {
		return nil, err
	}
	store, err := w.redis()
	if err != nil {
		return nil, err
	}
	if err := putFans(ctx, store, w.few(fansOf)); err != nil {
		return nil, err
	}
	return w.contactsOn(ctx, store, maria.url, "mysql", maria.dsn)
}

// fillContacts writes contacts and uploads straight into the tables.
func fillContacts(driver, dsn string, many, fans int) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	const contacts = "contacts (owner, contact, relationship, version, deleted, created_at, updated_at)"
	const uploads = "uploads (id, owner, visibility, deleted, uploaded_at, created_at, updated_at)"
	err = insert(db, contacts, askers*10, func(i int) string {
		return fmt.Sprintf("('user-%d','person-%d','friend',1,0,0,0)", i/10, (i/10*7+i%10*97)%people)
	})
	if err != nil {
		return err
	}
	if err := insert(db, contacts, many, func(i int) string { return fmt.Sprintf("('big','far-%d','friend',1,0,0,0)", i) }); err != nil {
		return err
	}
	if err := insert(db, contacts, fans, func(i int) string { return fmt.Sprintf("('fan-%d','star','friend',1,0,0,0)", i) }); err != nil {
		return err
	}
	err = insert(db, uploads, people*3, func(i int) string {
		return fmt.Sprintf("('near-%d','person-%d','public',0,%d,0,0)", i, i%people, baseTime+i*7)
	})
	if err != nil {
		return err
	}
	return insert(db, uploads, many, func(i int) string { return fmt.Sprintf("('far-%d','far-%d','public',0,%d,0,0)", i, i, baseTime+i*7) })
}

// warmContacts asks for each user once and waits until the index is built.
func warmContacts(ctx context.Context, addr string) error {
	names := append(askersNames(), "big")
	return each(ctx, addr, len(names), func(c *caller, i int) error {
		return eventually(ctx, time.Minute, "the index of "+names[i], func() (bool, error) {
			err := c.call(request(http.MethodGet, recentPath(names[i]), nil), http.StatusOK)
			return bytes.Contains(c.body, []byte(`"complete":true`)) && bytes.Count(c.body, []byte(`"contact":`)) == 10, err
		})
	})
}

func recentPath(user string) string { return "/v1/users/" + user + "/recent-contacts" }

func askersNames() []string {
	names := make([]string, askers)
	for i := range names {
		names[i] = fmt.Sprintf("user-%d", i)
	}
	return names
}

// asking is a load of 64 callers for all users in turn.
func asking(addr string) *load {
	names := askersNames()
	for i := range names {
		names[i] = recentPath(names[i])
	}
	return getting(addr, "", names)
}

// askingFor is a load of one caller for one user.
func askingFor(addr, user string) *load {
	l := fixed(addr, http.StatusOK, request(http.MethodGet, recentPath(user), nil))
	l.connections = 1
	return l
}

// putRecent stores what the bare handler reads.
func putRecent(ctx context.Context, store *process) error {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	pipe := client.Pipeline()
	for _, name := range askersNames() {
		members := make([]redis.Z, 10)
		for i := range members {
			members[i] = redis.Z{Score: float64(baseTime + i), Member: fmt.Sprintf("%s-%d", strings.Replace(name, "user", "person", 1), i)}
		}
		pipe.ZAdd(ctx, "bare:recent:"+name, members...)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// putFans gives each fan an index that is built and empty: asking for each would
// take a minute.
func putFans(ctx context.Context, store *process, fans int) error {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	pipe := client.Pipeline()
	for i := range fans {
		key := stateKey(fmt.Sprintf("fan-%d", i))
		pipe.HSet(ctx, key, "q", 1, "r", 1)
		pipe.Expire(ctx, key, time.Hour)
		if pipe.Len() >= 10_000 || i == fans-1 {
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// uploads lets the star upload again and again, each time when the indexes of all
// fans have the one before, and gives how many indexes a second were written.
func uploads(ctx context.Context, addr string, fans int, d time.Duration) (got sample, err error) {
	began, n := time.Now(), 0
	err = each(ctx, addr, 1, func(c *caller, _ int) error {
		for time.Since(began) < d {
			at := time.Now()
			upload := fmt.Sprintf(`{"id":"star-%d","owner":"star","visibility":"public","uploaded_at":%q}`, at.UnixNano(), at.Format(time.RFC3339Nano))
			if err := c.call(request(http.MethodPost, "/v1/uploads", []byte(upload)), http.StatusAccepted); err != nil {
				return err
			}
			err := eventually(ctx, time.Minute, "the fan-out", func() (bool, error) {
				err := c.call(request(http.MethodGet, "/v1/stats", nil), http.StatusOK)
				return bytes.Contains(c.body, []byte(`"contacts":{"pending":0,`)), err
			})
			if err != nil {
				return err
			}
			n += fans
		}
		return nil
	})
	return sample{"rate": float64(n) / time.Since(began).Seconds()}, err
}
