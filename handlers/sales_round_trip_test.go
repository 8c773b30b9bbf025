package handlers_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// S18: what GET gave can be sent back by PUT, unchanged or changed. Its numbers of units, version,
// state and consistent have no effect.
func TestS18_PutTakesWhatGetGave(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		for i, settings := range []string{`"per_user_limit":null,"idle_ms":null`, `"per_user_limit":4,"hold_ms":0,"max_hold_ms":60000,"idle_ms":3600000`, `"partitions":3`} {
			path := fmt.Sprintf("/v1/sales/s%d", i)
			w.put(path, saleBody(`[{"sku":"a","stock":9,"low_at":3},{"sku":"b","total":0}]`, settings))
			w.post(path+"/reservations", `{"user":"u","lines":[{"sku":"a","quantity":2}]}`)
			w.post(path+"/stock", `{"sku":"a","delta":1}`)
			read := w.get(path)
			if !strings.Contains(read.body, `"low_at":3}`) || !strings.Contains(read.body, `"low_at":null}`) {
				t.Errorf("it shows %s", read.body)
			}
			for _, match := range []string{"", "If-Match: *", "If-Match: " + read.header.Get("ETag")} {
				again := call{method: "PUT", path: path, body: read.body}
				if match != "" {
					again = again.with(match)
				}
				w.do(again).wants(t, 200, read.body)
			}
			more := strings.Replace(read.body, `"total":10`, `"total":12`, 1)
			more = strings.Replace(more, `"version":2`, `"version":1`, 1) // an old version in the body refuses nothing
			more = strings.NewReplacer(`"available":8`, `"available":1`, `"state":"open"`, `"state":"ended"`).Replace(more)
			w.do(put(path, more)).wants(t, 409, problem(api.CodeConflict, "*"))
			w.do(put(path, more).with(`If-Match: "1"`)).wants(t, 412, problem(api.CodeVersionMismatch, "*", `"version":2,"sale":`+read.body))
			changed := strings.Replace(read.body, `"total":10,"available":8`, `"total":12,"available":10`, 1)
			changed = strings.Replace(changed, `"version":2`, `"version":3`, 1)
			w.do(put(path, more).with(`If-Match: "2"`)).wants(t, 200, changed)
			w.do(put(path, strings.Replace(changed, `"total":0`, `"total":1,"stock":1`, 1)).with(`If-Match: *`)).
				wants(t, 200, strings.NewReplacer(`"total":0,"available":0`, `"total":1,"available":1`, `"version":3`, `"version":4`).Replace(changed))
		}
	})
}

// S18: a sale always shows all its settings, and a setting that is not set as null.
func TestS18_ASaleShowsAllItsSettings(t *testing.T) {
	t.Parallel()
	w := setup(t)
	want := func(limit, hold, longest, idle, partitions, more string) string {
		return `{"id":"s","state":"open","items":[{"sku":"a","total":1,"available":1,"held":0,"sold":0,"low_at":null}],"starts_at":"*","ends_at":"*","per_user_limit":` +
			limit + `,"hold_ms":` + hold + `,"max_hold_ms":` + longest + `,"idle_ms":` + idle + `,"partitions":` + partitions + `,"version":1` + more + `}`
	}
	for name, c := range map[string]struct{ settings, want string }{
		"none": {`"hold_ms":null`, want("null", "600000", "null", "null", "1", "")},
		"all":  {`"per_user_limit":2,"hold_ms":5000,"max_hold_ms":6000,"idle_ms":1000000,"partitions":2`, want("2", "5000", "6000", "1000000", "2", `,"consistent":true`)},
	} {
		w.put("/v1/sales/"+name, saleBody(`[{"sku":"a","stock":1}]`, c.settings)).wants(t, 201, strings.Replace(c.want, `"s"`, `"`+name+`"`, 1))
	}
}

// listed reads a list of sales page by page, as "<id> <state> <version>".
func (w *world) listed(query string, pages *int) (sales []string) {
	w.t.Helper()
	for cursor := ""; ; {
		*pages++
		var page api.SaleList
		storetest.Must(w.t, json.Unmarshal([]byte(w.get("/v1/sales?"+query+cursor).body), &page))
		for _, s := range page.Items {
			sales = append(sales, fmt.Sprint(s.ID, " ", s.State, " ", s.Version))
		}
		if page.Next == "" {
			return sales
		}
		cursor = "&cursor=" + page.Next
	}
}

// S19: the sales on record are listed by id, with their states by Redis' clock, in pages. A filter
// leaves no sale out, and pages may be short.
func TestS19_SalesAreListed(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		w.get("/v1/sales").wants(t, 200, `{"items":[]}`)
		now := time.Now()
		times := func(from, to time.Duration) string {
			return fmt.Sprintf(`{"items":[{"sku":"a","stock":1}],"starts_at":%q,"ends_at":%q}`, stamp(now.Add(from)), stamp(now.Add(to)))
		}
		w.put("/v1/sales/over", times(-2*time.Hour, -time.Hour))
		w.put("/v1/sales/soon", times(time.Hour, 2*time.Hour))
		w.put("/v1/sales/gone", times(-time.Hour, time.Hour))
		w.post("/v1/sales/gone/reservations", `{"user":"u","lines":[{"sku":"a","quantity":1}]}`)
		w.put("/v1/sales/idle", saleBody(`[{"sku":"a","stock":1}]`, `"idle_ms":1`))
		w.put("/v1/sales/open", times(-time.Hour, time.Hour))
		w.post("/v1/sales/open/stock", `{"sku":"a","delta":1}`)
		w.get("/v1/sales?limit=1").wants(t, 200, `{"items":[{"id":"gone","state":"sold_out","starts_at":"`+stamp(now.Add(-time.Hour))+
			`","ends_at":"`+stamp(now.Add(time.Hour))+`","version":1}],"next":"*"}`)
		all := []string{"gone sold_out 1", "idle ended 1", "open open 2", "over ended 1", "soon upcoming 1"}
		for limit := range 6 {
			pages := 0
			if got := w.listed(fmt.Sprint("limit=", limit+1), &pages); !slices.Equal(got, all) || pages != (len(all)+limit)/(limit+1) {
				t.Errorf("by %d: %v in %d pages", limit+1, got, pages)
			}
			for _, state := range []string{"upcoming", "open", "sold_out", "ended"} {
				want := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.Contains(s, " "+state+" ") })
				if got := w.listed(fmt.Sprint("state=", state, "&limit=", limit+1), &pages); !slices.Equal(got, want) {
					t.Errorf("%s by %d: %v", state, limit+1, got)
				}
			}
		}
	})
}

// S19, S7: a list brings no sale back into Redis that cannot sell now, and a sale that may sell now is
// brought back.
func TestS19_AListBringsOldSalesNotBack(t *testing.T) {
	t.Parallel()
	w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
	now := time.Now()
	w.put("/v1/sales/over", fmt.Sprintf(`{"items":[{"sku":"a","stock":1}],"starts_at":%q,"ends_at":%q}`, stamp(now.Add(-2*time.Hour)), stamp(now.Add(-time.Hour))))
	w.put("/v1/sales/open", saleBody(`[{"sku":"a","stock":1}]`))
	storetest.Must(t, w.db.Client().FlushAll(t.Context()).Err())
	pages := 0
	if got := w.listed("", &pages); !slices.Equal(got, []string{"open open 1", "over ended 1"}) {
		t.Errorf("%v", got)
	}
	if keys := w.db.Client().Keys(t.Context(), "ff:{sale:*:0}:sale").Val(); !slices.Equal(keys, []string{"ff:{sale:open:0}:sale"}) {
		t.Errorf("%v", keys)
	}
}

// S20 over HTTP: the answers to a deletion, and what is left afterwards.
func TestS20_DeletionOverHTTP(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		w.workSales()
		const path = "/v1/sales/s"
		now := time.Now()
		body := func(from, to time.Duration) string {
			return fmt.Sprintf(`{"items":[{"sku":"a","stock":2}],"starts_at":%q,"ends_at":%q}`, stamp(now.Add(from)), stamp(now.Add(to)))
		}
		del := func(headers ...string) answer { return w.do(call{method: "DELETE", path: path, headers: headers}) }
		gone := problem(api.CodeSaleNotFound, "there is no such sale")
		del().wants(t, 204, "")
		del("If-Match: *").wants(t, 412, problem(api.CodeVersionMismatch, "*"))
		del(`If-Match: 1`).wants(t, 422, broken("If-Match", "etag", `must be ETags such as "7" or "7", "8", or *`))
		upcoming := w.put(path, body(time.Hour, 2*time.Hour))
		del(`If-Match: "2"`).wants(t, 412, problem(api.CodeVersionMismatch, "*", `"version":1,"sale":`+upcoming.body))
		del(`If-None-Match: "1"`).wants(t, 412, problem(api.CodeVersionMismatch, "*", `"version":1,"sale":`+upcoming.body))
		del("If-Match: "+upcoming.header.Get("ETag")).wants(t, 204, "")
		w.get(path).wants(t, 404, gone)
		w.get(path+"/orders").wants(t, 404, gone)
		w.get("/v1/sales").wants(t, 200, `{"items":[]}`)

		if a := w.put(path, body(-time.Hour, time.Hour)); a.status != 201 {
			t.Errorf("a free id: %d %s", a.status, a.body)
		}
		del().wants(t, 409, problem(api.CodeSaleOpen, "*"))
		id := w.post(path+"/reservations", `{"user":"u","lines":[{"sku":"a","quantity":2}]}`).member(t, "id")
		w.do(put(path, body(-2*time.Hour, -time.Hour)).with("If-Match: *"))
		del().wants(t, 409, problem(api.CodeOwed, "*"))
		w.post(path+"/reservations/"+id+"/confirm", "")
		w.awaitOrders("s", 1)
		storetest.Eventually(t, 20*time.Second, "nothing is owed", func() bool { return del().status == 204 })
		for _, where := range []string{"", "/reservations/" + id, "/reservations?user=u", "/stream"} {
			w.get(path+where).wants(t, 404, gone)
		}
		w.get("/v1/sales").wants(t, 200, `{"items":[]}`)
		w.get(path+"/orders").wants(t, 200, `{"items":[{"reservation":"`+id+`","user":"u","lines":[{"sku":"a","quantity":2}],"created_at":"*"}]}`)
		w.post(path+"/reservations/"+id+"/confirm", "").wants(t, 404, gone)
		w.put(path, body(-time.Hour, time.Hour)).wants(t, 409, problem(api.CodeIDUsed, "*"))
		storetest.Must(t, w.db.Client().FlushAll(t.Context()).Err())
		w.put(path, body(-time.Hour, time.Hour)).wants(t, 409, problem(api.CodeIDUsed, "*"))
		del().wants(t, 204, "")
	})
}

// S20: a stream of a deleted sale ends.
func TestS20_TheStreamEnds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	now := time.Now()
	w.put("/v1/sales/s", fmt.Sprintf(`{"items":[{"sku":"a","stock":2}],"starts_at":%q,"ends_at":%q}`, stamp(now.Add(time.Hour)), stamp(now.Add(2*time.Hour))))
	ended := make(chan answer, 1)
	go func() { ended <- w.get("/v1/sales/s/stream") }()
	storetest.Eventually(t, 20*time.Second, "the stream is deleted under its reader", func() bool {
		w.del("/v1/sales/s")
		select {
		case a := <-ended:
			if a.status == 404 {
				t.Log("it was deleted before the stream began")
			}
			return true
		default:
			return false
		}
	})
}

// S22 over HTTP: a hold is extended by a backend, and never by a user.
func TestS22_ExtensionOverHTTP(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	buyer := "Authorization: Bearer " + w.mustKey(api.ScopeSalesBuy)
	w.do(put("/v1/sales/s", saleBody(`[{"sku":"a","stock":9}]`, `"hold_ms":60000`, `"max_hold_ms":120000`)).with(admin))
	made := w.post("/v1/sales/s/reservations", `{"user":"u","lines":[{"sku":"a","quantity":2}]}`, buyer)
	path := "/v1/sales/s/reservations/" + made.member(t, "id")
	w.post(path+"/extend", `{"hold_ms":60000}`, w.mustToken("u")).wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
	at := func(a answer) time.Time {
		t.Helper()
		when, err := time.Parse(time.RFC3339, a.member(t, "expires_at"))
		storetest.Must(t, err)
		return when
	}
	longest := at(made).Add(time.Minute)
	held := `{"id":"*","user":"u","lines":[{"sku":"a","quantity":2}],"state":"held","expires_at":"` + stamp(longest) + `"}`
	for i, replayed := range []string{"", "true"} {
		a := w.post(path+"/extend", `{"hold_ms":3600000}`, buyer, "Idempotency-Key: k").wants(t, 200, held)
		wantHeader(t, a, "Idempotent-Replayed", replayed)
		if t.Failed() {
			t.Fatalf("try %d", i)
		}
	}
	w.post(path+"/extend", `{"hold_ms":3600001}`, buyer, "Idempotency-Key: k").wants(t, 422, problem(api.CodeIdempotencyReused, "*"))
	w.do(get(path).with(buyer)).wants(t, 200, held)
	w.post(path+"/release", "", buyer)
	w.post(path+"/extend", `{"hold_ms":1}`, buyer).wants(t, 409, problem(api.CodeNotHeld, "*", `"state":"released"`))
	w.post("/v1/sales/s/reservations/x/extend", `{"hold_ms":1}`, buyer).wants(t, 404, problem(api.CodeNotFound, "*"))
	w.post("/v1/sales/t/reservations/x/extend", `{"hold_ms":1}`, buyer).wants(t, 404, problem(api.CodeSaleNotFound, "*"))
}
