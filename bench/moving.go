package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// movers is how many callers make batches, and how many make single calls.
	movers = 8
	// moved is how many devices or contacts a batch has.
	moved = 1000
)

// movingIn compares batches of devices and of contacts with single calls, on SQLite and on MariaDB.
// It also compares single calls beside batches with single calls alone.
func movingIn(w *world) []side {
	var sides []side
	for _, db := range []string{"sqlite", "mariadb"} {
		s := w.stage(plan{maria: db == "mariadb", env: []string{"FANFARE_ROLES=api,jobs"}})
		sides = append(sides, s.movingSides(db+" devices ", renderDevices)...)
		sides = append(sides, s.movingSides(db+" contacts ", renderContacts)...)
	}
	return sides
}

// movingSides are single calls, batches, and single calls beside batches. No two calls bring the
// same.
func (s *stage) movingSides(name string, render rendering) []side {
	var single, batch atomic.Int64
	one := s.moving(http.StatusCreated, func() []byte { return render(int(single.Add(1)), 0) })
	many := s.moving(http.StatusNoContent, func() []byte { return render(int(batch.Add(1)), moved) })
	both := []*process{s.redis, s.server}
	return []side{{name + "one", one.run, both}, {name + "many", func(ctx context.Context, d time.Duration) sample {
		found := many.run(ctx, d)
		found["rate"] *= moved
		return found
	}, both}, {name + "beside", func(ctx context.Context, d time.Duration) (found sample) {
		parallel(2, func(i int) {
			if i == 0 {
				found = one.run(ctx, d)
			} else {
				many.run(ctx, d)
			}
		})
		return found
	}, both}}
}

// moving is a load of calls, each of which is rendered before its time begins.
func (s *stage) moving(want int, render func() []byte) *load {
	return &load{callers: movers, call: func(ctx context.Context, _ int) calls {
		c := dial(ctx, s.server.addr)
		return func(int, time.Time) time.Duration {
			request := render()
			sent := time.Now()
			must(c.send(request, want))
			return time.Since(sent)
		}
	}}
}

// rendering renders the n-th single call (of 0) or the n-th batch (of some).
type rendering func(n, of int) []byte

// renderDevices registers the devices of users who each have one.
func renderDevices(n, of int) []byte {
	if of == 0 {
		return request(http.MethodPut, fmt.Sprintf("/v1/users/single-%d/devices/%s", n, anyToken("single", n)), `{"platform":"apns","topic":"com.example.app","environment":"production"}`)
	}
	return request(http.MethodPost, "/v1/devices/batch", list("devices", of, func(i int) string {
		return fmt.Sprintf(`{"user":"moved-%d","token":"%s","platform":"apns","topic":"com.example.app","environment":"production"}`, n*of+i, anyToken("moved", n*of+i))
	}))
}

// anyToken makes tokens that are in no order, as those of phones are.
func anyToken(of string, n int) string {
	sum := sha256.Sum256(fmt.Append(nil, of, n))
	return hex.EncodeToString(sum[:])
}

// renderContacts adds the contacts of users who each have a thousand.
func renderContacts(n, of int) []byte {
	if of == 0 {
		return request(http.MethodPut, fmt.Sprintf("/v1/users/single-%d/contacts/person-%d", n/moved, n%moved), `{"relationship":"friend"}`)
	}
	return request(http.MethodPost, fmt.Sprintf("/v1/users/moved-%d/contacts/batch", n), list("contacts", of, func(i int) string {
		return fmt.Sprintf(`{"contact":"person-%d","relationship":"friend"}`, i)
	}))
}

// list is a JSON object with a list of n items.
func list(name string, n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return `{"` + name + `":[` + strings.Join(items, ",") + `]}`
}
