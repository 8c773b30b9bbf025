package handlers_test

import (
	"fmt"
	"slices"
	"testing"
)

// timeFields are all the fields in which a caller writes a time, each with a body in which %s is the time.
var timeFields = []struct {
	field string
	call  func(body string) call
	body  string
}{
	{"starts_at", func(b string) call { return put("/v1/sales/s", b) }, `{"items":[{"sku":"a","stock":1}],"starts_at":%s,"ends_at":"2099-01-01T00:00:00Z"}`},
	{"ends_at", func(b string) call { return put("/v1/sales/s", b) }, `{"items":[{"sku":"a","stock":1}],"starts_at":"2026-01-01T00:00:00Z","ends_at":%s}`},
	{"uploaded_at", func(b string) call { return post("/v1/uploads", b) }, `{"id":"1","owner":"bob","visibility":"public","uploaded_at":%s}`},
	{"until", func(b string) call { return put("/v1/users/bob/mutes/o", b) }, `{"until":%s}`},
	{"expires_at", func(b string) call { return post("/v1/events", b) }, `{"type":"a","audience":{"users":["b"]},"alert":{"title":"x"},"expires_at":%s}`},
	{"send_at", func(b string) call { return post("/v1/events", b) }, `{"type":"a","audience":{"users":["b"]},"alert":{"title":"x"},"send_at":%s}`},
	{"events[0].send_at", func(b string) call { return post("/v1/events/batch", b) }, `{"events":[{"type":"a","audience":{"users":["b"]},"alert":{"title":"x"},"send_at":%s}]}`},
	{"run_at", func(b string) call { return post("/v1/queues/q/jobs", b) }, `{"type":"a","run_at":%s}`},
	{"jobs[0].run_at", func(b string) call { return post("/v1/queues/q/jobs/batch", b) }, `{"jobs":[{"type":"a","run_at":%s}]}`},
	{"expires_at", func(b string) call { return post("/v1/keys", b) }, `{"name":"a","scopes":["ops"],"expires_at":%s}`},
	{"before", func(b string) call { return post("/v1/dead-letters/retry", b) }, `{"all":true,"before":%s,"expect":0}`},
	{"before", func(b string) call { return post("/v1/dead-letters/delete", b) }, `{"all":true,"before":%s,"expect":0}`},
}

// A time outside the years that fanfare takes breaks a rule of its field; what is no time is no JSON of the call.
func TestBadTimes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var table []bad
	for _, f := range timeFields {
		for _, at := range []string{`"0000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"1969-12-31T23:59:59.999Z"`, `"9999-12-31T23:59:59-23:59"`, `"0001-01-01T00:00:00\u002B01:00"`} {
			c := f.call(fmt.Sprintf(f.body, at))
			table = append(table, bad{c.path + " " + f.field + " " + at, c, 422, broken(f.field, "range", "must be in the years 1970 to 9999, in UTC")})
		}
		for _, at := range []string{`"2126-01-02T15:04:05,5Z"`, `"2126-01-02T5:04:05Z"`, `"2126-01-02T15:04:05+24:00"`, `"2126-02-29T00:00:00Z"`, `""`, `-1`, `253402300800`} {
			c := f.call(fmt.Sprintf(f.body, at))
			table = append(table, bad{c.path + " " + f.field + " " + at, c, 400, badJSON(f.field, "must be an RFC 3339 time such as 2026-01-02T15:04:05.000Z")})
		}
	}
	run(t, w, table)
}

// Each form of a time that RFC 3339 and JSON allow is the same time.
func TestFormsOfATime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i, at := range []string{`2025-12-31t23:59:60z`, `2026-01-01T02:00:00\u002B02:00`, `2026-01-01\u005400:00:00.000999\u005A`, `2025-12-31T16:00:00-08:00`} {
		path := fmt.Sprintf("/v1/sales/s%d", i)
		body := `{"items":[{"sku":"a","stock":1}],"starts_at":"` + at + `","ends_at":"2099-01-01T00:00:00Z"}`
		if got := w.put(path, body).member(t, "starts_at"); got != "2026-01-01T00:00:00.000Z" {
			t.Errorf("%s is answered with %s", at, got)
		}
	}
}

// What PUT took, GET gives, in any year; and a sale that began in 1970 sells.
func TestS18_AnyYear(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workSales()
	years := []int{1970, 1971, 2038, 2106, 9998}
	for year := 1972; year < 9998; year += 251 {
		years = append(years, year)
	}
	slices.Sort(years)
	for _, year := range years {
		path := fmt.Sprintf("/v1/sales/y%d", year)
		starts, ends := fmt.Sprintf("%d-01-01T00:00:00.000Z", year), fmt.Sprintf("%d-12-31T23:59:59.999Z", max(year, 2100))
		sale := w.put(path, `{"items":[{"sku":"a","stock":3}],"starts_at":"`+starts+`","ends_at":"`+ends+`"}`)
		if sale.status != 201 || sale.member(t, "starts_at") != starts || sale.member(t, "ends_at") != ends {
			t.Fatalf("PUT of %s to %s: %d %s", starts, ends, sale.status, sale.body)
		}
		w.get(path).wants(t, 200, sale.body)
		bought := w.post(path+"/reservations", `{"user":"u","lines":[{"sku":"a","quantity":1}]}`)
		if open := year <= 2026; open != (bought.status == 201) {
			t.Errorf("a reservation of a sale from %s on: %d %s", starts, bought.status, bought.body)
		}
	}
}
