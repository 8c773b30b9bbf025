package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// moved is how many devices or contacts a batch has.
const moved = 1000

// movingIn compares batches of devices and of contacts with single calls, on SQLite and on MariaDB.
// It also compares single calls beside batches with single calls alone.
func movingIn(w *world) sample {
	var sides []*side
	for _, db := range []string{"", "mariadb "} {
		s := w.stage(plan{maria: db != "", env: []string{"FANFARE_ROLES=api,jobs"}})
		sides = append(sides, s.moving(db+"devices", oneDevice, manyDevices)...)
		sides = append(sides, s.moving(db+"contacts", oneContact, manyContacts)...)
	}
	return w.turns(sides...)
}

// moving are single calls, batches, and single calls beside batches. The functions render the n-th
// call before its time begins. No two calls bring the same.
func (s *stage) moving(name string, one, many func(n int) []byte) []*side {
	calling := func(name string, each int64, status int, render func(n int) []byte) *side {
		var calls atomic.Int64
		call := func(c *caller, _ int) {
			request := render(int(calls.Add(1)))
			c.began = time.Now()
			must(c.send(request, status))
		}
		return &side{name: name, stage: s, servers: []*process{s.server}, callers: 8, each: each, call: call}
	}
	single := calling(name+" alone", 1, http.StatusCreated, one)
	batches := calling(name, moved, http.StatusNoContent, many)
	both := &side{name: name + " beside", run: func(d time.Duration) (found sample) {
		beside(s.ctx, func() { found = single.load(s.ctx, d) }, func(ctx context.Context) { batches.load(ctx, d) })
		return found
	}}
	return []*side{single, batches, both}
}

// Each device is the only one of its user, and each user has a thousand contacts.

func oneDevice(n int) []byte {
	path := fmt.Sprintf("/v1/users/single-%d/devices/%s", n, anyToken("single", n))
	return request(http.MethodPut, path, `{"platform":"apns","topic":"com.example.app","environment":"production"}`)
}

func manyDevices(n int) []byte {
	return request(http.MethodPost, "/v1/devices/batch", `{"devices":[`+listed(moved, func(i int) string {
		return fmt.Sprintf(`{"user":"moved-%d","token":"%s","platform":"apns","topic":"com.example.app","environment":"production"}`, n*moved+i, anyToken("moved", n*moved+i))
	})+`]}`)
}

// anyToken makes tokens that are in no order, as those of phones are.
func anyToken(of string, n int) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, of, n)))
}

func oneContact(n int) []byte {
	return request(http.MethodPut, fmt.Sprintf("/v1/users/single-%d/contacts/person-%d", n/moved, n%moved), `{"relationship":"friend"}`)
}

func manyContacts(n int) []byte {
	return request(http.MethodPost, fmt.Sprintf("/v1/users/moved-%d/contacts/batch", n), `{"contacts":[`+listed(moved, func(i int) string {
		return fmt.Sprintf(`{"contact":"person-%d","relationship":"friend"}`, i)
	})+`]}`)
}
