package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The users of these measurements: many users with ten contacts each, and as many people with three
// uploads each; one user with very many contacts; and one user whom many others have as a contact.
const (
	askers   = 2000
	people   = 1000
	manyOf   = 100_000
	baseTime = 1_700_000_000_000
	// fansOf is how many users have the same star as their only contact.
	fansOf = 100_000
)

// contacts compares recent-contacts with a bare handler that reads a sorted set, on SQLite and on
// MariaDB. It also compares a user with many contacts with a user with few.
func contacts(w *world) []side {
	lite := w.contactsOn(plan{bare: true})
	lite.putRecent()
	asking := func(name string, s *stage, to *process) side {
		return s.flood(name, to, getting(to.addr, "", recentPaths()...))
	}
	askingFor := func(name, user string) side {
		return lite.flood(name, lite.server, oneCaller(getting(lite.server.addr, "", recentPath(user))))
	}
	sides := []side{asking("sqlite", lite, lite.server)}
	if w.profile != "" { // only SQLite is profiled
		return sides
	}
	large := w.contactsOn(plan{maria: true})
	return append(sides, asking("mariadb", large, large.server), asking("bare", lite, lite.bare),
		askingFor("small", "user-0"), askingFor("big", "big"), side{name: "upload", run: large.uploads})
}

// contactsOn starts a stage with contacts and their uploads.
func (w *world) contactsOn(p plan) *stage {
	many, fans := w.few(manyOf), w.few(fansOf)
	p.env = []string{"FANFARE_ROLES=api,jobs"}
	p.fill = func(into inserter) {
		user := func(form string, i int) string { return fmt.Sprintf(form, i) }
		into.contacts(askers*10, func(i int) (string, string) {
			return user("user-%d", i/10), user("person-%d", (i/10*7+i%10*97)%people)
		})
		into.contacts(many, func(i int) (string, string) { return "big", user("far-%d", i) })
		into.contacts(fans, func(i int) (string, string) { return user("fan-%d", i), "star" })
		into.uploads("near-%d", people*3, func(i int) string { return user("person-%d", i%people) })
		into.uploads("far-%d", many, func(i int) string { return user("far-%d", i) })
	}
	s := w.stage(p)
	if p.maria {
		s.putFans(fans)
	}
	s.warmContacts()
	return s
}

// uploads writes n uploads.
func (in inserter) uploads(id string, n int, owner func(i int) string) {
	in.rows("uploads (id, owner, visibility, deleted, uploaded_at, created_at, updated_at)", n, func(i int) string {
		return fmt.Sprintf("('"+id+"','%s','public',0,%d,0,0)", i, owner(i), baseTime+i*7)
	})
}

func recentPath(user string) string { return "/v1/users/" + user + "/recent-contacts" }

func recentPaths() []string { return userNames(recentPath("user-%d"), 0, askers) }

// warmContacts reads the recent contacts of each user once and waits until the index is built.
func (s *stage) warmContacts() {
	paths := append(recentPaths(), recentPath("big"))
	each(s.ctx, s.server.addr, len(paths), func(c *caller, i int) {
		eventually(s.ctx, time.Minute, "the index of "+paths[i], func() bool {
			c.call(http.MethodGet, paths[i], "", http.StatusOK)
			return bytes.Contains(c.body, []byte(`"complete":true`)) && bytes.Count(c.body, []byte(`"contact":`)) == 10
		})
	})
}

// putRecent stores the sorted sets that the bare handler reads.
func (s *stage) putRecent() {
	pipe := s.redis.db.Pipeline()
	for _, name := range userNames("user-%d", 0, askers) {
		members := make([]redis.Z, 10)
		for i := range members {
			members[i] = redis.Z{Score: float64(baseTime + i), Member: fmt.Sprintf("%s-%d", strings.Replace(name, "user", "person", 1), i)}
		}
		pipe.ZAdd(s.ctx, "bare:recent:"+name, members...)
	}
	got(pipe.Exec(s.ctx))
}

// putFans stores a complete and empty index for each fan. Building these by requests would take a
// minute.
func (s *stage) putFans(fans int) {
	pipe := s.redis.db.Pipeline()
	for _, name := range userNames("fan-%d", 0, fans) {
		pipe.HSet(s.ctx, stateKey(name), "q", 1, "r", 1)
		pipe.Expire(s.ctx, stateKey(name), time.Hour)
		if pipe.Len() >= 10_000 {
			got(pipe.Exec(s.ctx))
		}
	}
	got(pipe.Exec(s.ctx))
}

// uploads lets the star upload again and again. Each upload waits until the indexes of all fans
// have the previous one. The result is how many indexes were written per second.
func (s *stage) uploads(ctx context.Context, d time.Duration) sample {
	l := &load{callers: 1, call: func(ctx context.Context, _ int) calls {
		c := dial(ctx, s.server.addr)
		return func(_ int, sent time.Time) time.Duration {
			upload := fmt.Sprintf(`{"id":"star-%d","owner":"star","visibility":"public","uploaded_at":%q}`, sent.UnixNano(), sent.Format(time.RFC3339Nano))
			c.call(http.MethodPost, "/v1/uploads", upload, http.StatusAccepted)
			eventually(ctx, time.Minute, "the fan-out", func() bool {
				c.call(http.MethodGet, "/v1/stats", "", http.StatusOK)
				return bytes.Contains(c.body, []byte(`"contacts":{"pending":0,`))
			})
			return time.Since(sent)
		}
	}}
	found := l.run(ctx, d)
	found["rate"] *= float64(s.few(fansOf))
	return found
}
