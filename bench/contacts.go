package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The users of these measurements: many users with ten contacts each, and as many people with three
// uploads each; one user with very many contacts; and one user, the star, whom many others have as
// their only contact.
const (
	askers   = 2000
	people   = 1000
	manyOf   = 100_000
	fansOf   = 100_000
	baseTime = 1_700_000_000_000
)

// contacts compares recent-contacts with a bare handler that reads a sorted set, on SQLite and on
// MariaDB. It also compares a user with many contacts with a user with few.
func contacts(w *world) sample {
	lite := w.contactsOn(plan{bare: true})
	pipe := lite.redis.Pipeline()
	for _, name := range names("user-%d", 0, askers) {
		pipe.ZAdd(w.ctx, "bare:recent:"+name, made(10, func(i int) redis.Z {
			return redis.Z{Score: float64(baseTime + i), Member: fmt.Sprintf("%s-%d", strings.Replace(name, "user", "person", 1), i)}
		})...)
	}
	got(pipe.Exec(w.ctx))
	askingFor := func(name, user string) *side {
		s := lite.getting(name, lite.server, recentPath(user))
		s.callers = 1
		return s
	}
	sides := []*side{lite.getting("recent", lite.server, recentPaths()...)}
	if w.profile != "" { // only SQLite is profiled
		return w.turns(sides...)
	}
	large := w.contactsOn(plan{maria: true})
	sides = append(sides, large.getting("mariadb", large.server, recentPaths()...),
		lite.getting("bare", lite.bare, recentPaths()...),
		askingFor("small", "user-0"), askingFor("big", "big"), large.uploading())
	return w.turns(sides...)
}

// contactsOn starts a stage with contacts and their uploads.
func (w *world) contactsOn(p plan) *stage {
	many, fans := w.few(manyOf), w.few(fansOf)
	p.env = []string{"FANFARE_ROLES=api,jobs"}
	p.fill = func(into tables) {
		into.contacts(askers*10, func(i int) (string, string) {
			return fmt.Sprintf("user-%d", i/10), fmt.Sprintf("person-%d", (i/10*7+i%10*97)%people)
		})
		into.contacts(many, func(i int) (string, string) { return "big", fmt.Sprintf("far-%d", i) })
		into.contacts(fans, func(i int) (string, string) { return fmt.Sprintf("fan-%d", i), "star" })
		upload := func(id, owner string, i int) string {
			return fmt.Sprintf("('%s-%d','%s','public',0,%d,0,0)", id, i, owner, baseTime+i*7)
		}
		const columns = "uploads (id, owner, visibility, deleted, uploaded_at, created_at, updated_at)"
		into.rows(columns, people*3, func(i int) string { return upload("near", fmt.Sprintf("person-%d", i%people), i) })
		into.rows(columns, many, func(i int) string { return upload("far", fmt.Sprintf("far-%d", i), i) })
	}
	s := w.stage(p)
	if p.maria { // a complete and empty index for each fan; building these by requests would take a minute
		pipe := s.redis.Pipeline()
		for _, name := range names("fan-%d", 0, fans) {
			pipe.HSet(s.ctx, stateKey(name), "q", 1, "r", 1)
			pipe.Expire(s.ctx, stateKey(name), time.Hour)
		}
		got(pipe.Exec(s.ctx))
	}
	paths := append(recentPaths(), recentPath("big"))
	s.each(len(paths), func(c *caller, i int) {
		eventually(s.ctx, "the index of "+paths[i], func() bool {
			c.call(http.MethodGet, paths[i], "", http.StatusOK)
			return bytes.Contains(c.body, []byte(`"complete":true`)) && bytes.Count(c.body, []byte(`"contact":`)) == 10
		})
	})
	return s
}

func recentPath(user string) string { return "/v1/users/" + user + "/recent-contacts" }

func recentPaths() []string { return names(recentPath("user-%d"), 0, askers) }

// uploading lets the star upload again and again. Each upload waits until the indexes of all fans
// have the previous one.
func (s *stage) uploading() *side {
	upload := func(c *caller, _ int) {
		const form = `{"id":"star-%d","owner":"star","visibility":"public","uploaded_at":%q}`
		body := fmt.Sprintf(form, c.began.UnixNano(), c.began.Format(time.RFC3339Nano))
		c.call(http.MethodPost, "/v1/uploads", body, http.StatusAccepted)
		eventually(s.ctx, "the fan-out", func() bool {
			c.call(http.MethodGet, "/v1/stats", "", http.StatusOK)
			return bytes.Contains(c.body, []byte(`"contacts":{"pending":0,`))
		})
	}
	return &side{name: "upload", stage: s, servers: []*process{s.server}, callers: 1, each: int64(s.few(fansOf)), call: upload}
}
