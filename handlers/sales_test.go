package handlers_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// workSales runs the background loops of the sales until the test ends.
func (w *world) workSales() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 3)
	go func() { done <- w.sales.Run(ctx) }()
	go func() { done <- w.sales.Sweep(ctx) }()
	go func() { done <- w.jobs.Run(ctx, queue.ByType(w.sales.Jobs())) }()
	w.t.Cleanup(func() {
		cancel()
		for range 3 {
			storetest.Must(w.t, <-done)
		}
	})
}

// window is a window of a sale that began an hour ago, as members of JSON.
func window() string {
	now := time.Now()
	return fmt.Sprintf(`"starts_at":%q,"ends_at":%q`, stamp(now.Add(-time.Hour)), stamp(now.Add(time.Hour)))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// saleBody is a PUT's body: items as JSON and further members.
func saleBody(items string, more ...string) string {
	return `{"items":` + items + "," + strings.Join(append([]string{window()}, more...), ",") + "}"
}

func TestSale(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workSales()
	body := saleBody(`[{"sku":"shoe","stock":3},{"sku":"hat","stock":2}]`, `"per_user_limit":4`, `"hold_ms":60000`)
	sale := func(state, shoe, hat, version string) string {
		return `{"id":"spring","state":"` + state + `","items":[{"sku":"shoe",` + shoe + `,"low_at":null},{"sku":"hat",` + hat +
			`,"low_at":null}],"starts_at":"*","ends_at":"*","per_user_limit":4,"hold_ms":60000,"max_hold_ms":null,"idle_ms":null,"partitions":1,"version":` + version + `}`
	}
	const full, three = `"total":3,"available":3,"held":0,"sold":0`, `"total":2,"available":2,"held":0,"sold":0`

	w.get("/v1/sales/spring").wants(t, 404, problem(api.CodeSaleNotFound, "there is no such sale"))
	a := w.put("/v1/sales/spring", body)
	a.wants(t, 201, sale("open", full, three, "1"))
	tag := a.header.Get("ETag")
	again := w.put("/v1/sales/spring", body)
	again.wants(t, 200, sale("open", full, three, "1"))
	got := w.get("/v1/sales/spring")
	got.wants(t, 200, sale("open", full, three, "1"))
	wantHeader(t, got, "ETag", tag)

	one := w.post("/v1/sales/spring/reservations", `{"user":"alice","lines":[{"sku":"shoe","quantity":1},{"sku":"hat","quantity":2}]}`)
	one.wants(t, 201, `{"id":"*","user":"alice","lines":[{"sku":"shoe","quantity":1},{"sku":"hat","quantity":2}],"state":"held","expires_at":"*"}`)
	id := one.member(t, "id")
	wantHeader(t, one, "Location", "/v1/sales/spring/reservations/"+id)
	w.get("/v1/sales/spring").wants(t, 200, sale("open", `"total":3,"available":2,"held":1,"sold":0`, `"total":2,"available":0,"held":2,"sold":0`, "1"))
	w.get("/v1/sales/spring/reservations/"+id).wants(t, 200, one.body)
	w.get("/v1/sales/spring/reservations?user=alice").wants(t, 200, `{"items":[`+one.body+`]}`)
	w.get("/v1/sales/spring/reservations?user=bob").wants(t, 200, `{"items":[]}`)

	w.post("/v1/sales/spring/reservations", `{"user":"alice","lines":[{"sku":"shoe","quantity":2}]}`).
		wants(t, 409, problem(api.CodeLimitReached, "*", `"remaining":1`))
	w.post("/v1/sales/spring/reservations", `{"user":"bob","lines":[{"sku":"shoe","quantity":1},{"sku":"hat","quantity":1}]}`).
		wants(t, 409, problem(api.CodeSoldOut, "*", `"available":{"shoe":2,"hat":0}`))

	sold := `{"id":"` + id + `","user":"alice","lines":[{"sku":"shoe","quantity":1},{"sku":"hat","quantity":2}],"state":"sold","expires_at":"*"}`
	for range 2 {
		w.post("/v1/sales/spring/reservations/"+id+"/confirm", "").wants(t, 200, sold)
	}
	w.post("/v1/sales/spring/reservations/"+id+"/release", "").wants(t, 409, problem(api.CodeNotHeld, "*", `"state":"sold"`))
	w.awaitOrders("spring", 1)
	w.get("/v1/sales/spring/orders").wants(t, 200, `{"items":[{"reservation":"`+id+`","user":"alice","lines":[{"sku":"shoe","quantity":1},{"sku":"hat","quantity":2}],"created_at":"*"}]}`)

	two := w.post("/v1/sales/spring/reservations", `{"user":"bob","lines":[{"sku":"shoe","quantity":2}]}`)
	w.get("/v1/sales/spring").wants(t, 200, sale("sold_out", `"total":3,"available":0,"held":2,"sold":1`, `"total":2,"available":0,"held":0,"sold":2`, "1"))
	for range 2 {
		w.post("/v1/sales/spring/reservations/"+two.member(t, "id")+"/release", "").
			wants(t, 200, `{"id":"`+two.member(t, "id")+`","user":"bob","lines":[{"sku":"shoe","quantity":2}],"state":"released","expires_at":"*"}`)
	}
	w.post("/v1/sales/spring/reservations/"+two.member(t, "id")+"/confirm", "").wants(t, 409, problem(api.CodeNotHeld, "*", `"state":"released"`))
	stock := w.post("/v1/sales/spring/stock", `{"sku":"hat","delta":5}`)
	stock.wants(t, 200, `{"sku":"hat","total":7,"available":5,"held":0,"sold":2,"low_at":null}`)
	wantHeader(t, stock, "ETag", `"2"`)
	w.post("/v1/sales/spring/stock", `{"sku":"hat","delta":-6}`).wants(t, 409, problem(api.CodeBounds, "*"))
	w.get("/v1/sales/spring").wants(t, 200, sale("open", `"total":3,"available":2,"held":0,"sold":1`, `"total":7,"available":5,"held":0,"sold":2`, "2"))
	on, err := w.record.Sale(t.Context(), "spring")
	storetest.Must(t, err)
	if on.Version != 2 || fmt.Sprint(on.Items) != "[{shoe 3 <nil>} {hat 7 <nil>}]" || on.PerUserLimit != 4 || on.HoldMS != 60000 || on.Partitions != 1 {
		t.Errorf("on record: %+v", on)
	}
}

// awaitOrders waits until n orders are on record.
func (w *world) awaitOrders(sale string, n int) {
	w.t.Helper()
	storetest.Eventually(w.t, 2*time.Minute, fmt.Sprintf("%d orders on record", n), func() bool {
		var page api.OrderList
		storetest.Must(w.t, json.Unmarshal([]byte(w.get("/v1/sales/"+sale+"/orders?limit=500").body), &page))
		return len(page.Items) == n
	})
}

func TestSaleRefusals(t *testing.T) {
	t.Parallel()
	w := setup(t)
	now := time.Now()
	at := func(from, to time.Duration) string {
		return fmt.Sprintf(`{"items":[{"sku":"a","stock":1}],"starts_at":%q,"ends_at":%q}`, stamp(now.Add(from)), stamp(now.Add(to)))
	}
	const buy = `{"user":"alice","lines":[{"sku":"a","quantity":1}]}`
	w.post("/v1/sales/none/reservations", buy).wants(t, 404, problem(api.CodeSaleNotFound, "there is no such sale"))
	w.put("/v1/sales/soon", at(time.Hour, 2*time.Hour))
	soon := w.post("/v1/sales/soon/reservations", buy)
	soon.wants(t, 409, problem(api.CodeNotStarted, "*", `"retry_after_ms":"*"`))
	if seconds := soon.header.Get("Retry-After"); len(seconds) != 4 {
		t.Errorf("Retry-After: %q", seconds)
	}
	w.put("/v1/sales/over", at(-2*time.Hour, -time.Hour))
	w.post("/v1/sales/over/reservations", buy).wants(t, 410, problem(api.CodeEnded, "*"))
	if state := w.get("/v1/sales/over").member(t, "state"); state != "ended" {
		t.Errorf("state %s", state)
	}
	if state := w.get("/v1/sales/soon").member(t, "state"); state != "upcoming" {
		t.Errorf("state %s", state)
	}
	w.put("/v1/sales/now", at(-time.Hour, time.Hour))
	w.post("/v1/sales/now/reservations", `{"user":"alice","lines":[{"sku":"b","quantity":1}]}`).
		wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"lines[0].sku","rule":"*","message":"*"}]`))
	w.post("/v1/sales/now/stock", `{"sku":"b","delta":1}`).
		wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"sku","rule":"*","message":"*"}]`))
	w.post("/v1/sales/now/stock", `{"sku":"a","delta":9007199254740991}`).
		wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"delta","rule":"*","message":"*"}]`))
	w.post("/v1/sales/now/reservations/none/confirm", "").wants(t, 404, problem(api.CodeNotFound, "*"))
	w.get("/v1/sales/now/reservations/none").wants(t, 404, problem(api.CodeNotFound, "*"))
	for _, path := range []string{"", "/reservations/x", "/orders", "/stream", "/reservations?user=alice"} {
		w.get("/v1/sales/none"+path).wants(t, 404, problem(api.CodeSaleNotFound, "there is no such sale"))
	}
	for _, path := range []string{"/stock", "/reservations", "/reservations/x/confirm", "/reservations/x/release"} {
		body := map[string]string{"/stock": `{"sku":"a","delta":1}`, "/reservations": buy}[path]
		w.post("/v1/sales/none"+path, body).wants(t, 404, problem(api.CodeSaleNotFound, "there is no such sale"))
	}
}

// S15 over HTTP: the whole answer to the eleventh try in a second.
func TestS15_ManyTriesOverHTTP(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":0}]`))
	storetest.Eventually(t, 20*time.Second, "11 tries within a second", func() bool {
		began, user := time.Now(), fmt.Sprint("u", time.Now().UnixNano())
		for range api.MaxUserTries {
			w.post("/v1/sales/s/reservations", `{"user":"`+user+`","lines":[{"sku":"a","quantity":1}]}`).
				wants(t, 409, problem(api.CodeSoldOut, "*", `"available":{"a":0}`))
		}
		a := w.post("/v1/sales/s/reservations", `{"user":"`+user+`","lines":[{"sku":"a","quantity":1}]}`)
		if time.Since(began) > 900*time.Millisecond {
			return false
		}
		a.wants(t, 429, problem(api.CodeRateLimited, "a user may try 10 times a second", `"retry_after_ms":"*"`))
		wantHeader(t, a, "Retry-After", "1")
		return true
	})
}

func TestSaleAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workSales()
	w.put("/v1/sales/direct", saleBody(`[{"sku":"a","stock":2}]`, `"hold_ms":0`))
	one := w.post("/v1/sales/direct/reservations", `{"user":"alice","lines":[{"sku":"a","quantity":1}]}`)
	one.wants(t, 201, `{"id":"*","user":"alice","lines":[{"sku":"a","quantity":1}],"state":"sold"}`)
	w.post("/v1/sales/direct/reservations/"+one.member(t, "id")+"/confirm", "").wants(t, 200, one.body)
	w.awaitOrders("direct", 1)
}

func TestS9_CompareAndSet(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := func(stock int) string { return saleBody(fmt.Sprintf(`[{"sku":"a","stock":%d}]`, stock)) }
	present := func(stock, version int) string {
		return fmt.Sprintf(`{"id":"s","state":"open","items":[{"sku":"a","total":%d,"available":%d,"held":0,"sold":0,"low_at":null}],"starts_at":"*","ends_at":"*","per_user_limit":null,"hold_ms":600000,"max_hold_ms":null,"idle_ms":null,"partitions":1,"version":%d}`, stock, stock, version)
	}
	refused := func(stock, version int) string {
		return problem(api.CodeVersionMismatch, "*", fmt.Sprintf(`"version":%d,"sale":%s`, version, present(stock, version)))
	}
	const path = "/v1/sales/s"
	w.do(put(path, body(5)).with(`If-Match: "1"`)).wants(t, 412, problem(api.CodeVersionMismatch, "*"))
	w.do(put(path, body(5)).with(`If-Match: *`)).wants(t, 412, problem(api.CodeVersionMismatch, "*"))
	w.do(put(path, body(5)).with(`If-None-Match: *`)).wants(t, 201, present(5, 1))
	w.do(put(path, body(6)).with(`If-None-Match: *`)).wants(t, 412, refused(5, 1))
	w.do(put(path, body(6))).wants(t, 409, problem(api.CodeConflict, "*"))
	a := w.do(put(path, body(6)).with(`If-Match: "1"`))
	a.wants(t, 200, present(6, 2))
	if tag := a.header.Get("ETag"); !strings.HasPrefix(tag, `"2-`) {
		t.Errorf("ETag %s", tag)
	}
	for _, tag := range []string{`"1"`, `"7"`, `"x"`, `W/"2"`, `"02"`, `""`} {
		old := w.do(put(path, body(7)).with("If-Match: " + tag))
		old.wants(t, 412, refused(6, 2))
		wantHeader(t, old, "ETag", `"2"`) // the answer has everything for the next try
	}
	w.do(put(path, body(7)).with(`If-Match: *`)).wants(t, 200, present(7, 3))
	w.do(post(path+"/stock", `{"sku":"a","delta":1}`).with(`If-Match: "2"`)).wants(t, 412, refused(7, 3))
	w.do(post(path+"/stock", `{"sku":"a","delta":1}`).with(`If-None-Match: *`)).wants(t, 412, refused(7, 3))
	w.do(post("/v1/sales/none/stock", `{"sku":"a","delta":1}`).with(`If-Match: *`)).wants(t, 404, problem(api.CodeSaleNotFound, "there is no such sale"))
	w.do(post(path+"/stock", `{"sku":"a","delta":1}`).with(`If-Match: "3"`)).wants(t, 200, `{"sku":"a","total":8,"available":8,"held":0,"sold":0,"low_at":null}`)
	w.do(put(path, saleBody(`[{"sku":"b","stock":1}]`)).with(`If-Match: *`)).wants(t, 409, problem(api.CodeBounds, "*"))
	w.do(put(path, saleBody(`[{"sku":"a","stock":8}]`, `"partitions":2`)).with(`If-Match: *`)).wants(t, 409, problem(api.CodeBounds, "*"))
	w.post(path+"/reservations", `{"user":"u","lines":[{"sku":"a","quantity":3}]}`)
	w.do(put(path, body(2)).with(`If-Match: *`)).wants(t, 409, problem(api.CodeBounds, "*"))
	w.do(put(path, body(3)).with(`If-Match: "4"`)).wants(t, 200, `{"id":"s","state":"sold_out","items":[{"sku":"a","total":3,"available":0,"held":3,"sold":0,"low_at":null}],"starts_at":"*","ends_at":"*","per_user_limit":null,"hold_ms":600000,"max_hold_ms":null,"idle_ms":null,"partitions":1,"version":5}`)
	t.Run("of two writers one wins", func(t *testing.T) {
		t.Parallel()
		w.put("/v1/sales/race", body(1))
		results := make(chan int, 8)
		for i := range 8 {
			go func() { results <- w.do(put("/v1/sales/race", body(10+i)).with(`If-Match: "1"`)).status }()
		}
		count := map[int]int{}
		for range 8 {
			count[<-results]++
		}
		if count[200] != 1 || count[412] != 7 {
			t.Errorf("%v", count)
		}
	})
}

func TestSaleIdempotency(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":9}]`))
	const buy, more = `{"user":"alice","lines":[{"sku":"a","quantity":2}]}`, `{"user":"alice","lines":[{"sku":"a","quantity":3}]}`
	key := "Idempotency-Key: k1"
	one, two := w.post("/v1/sales/s/reservations", buy, key), w.post("/v1/sales/s/reservations", buy, key)
	one.wants(t, 201, `{"id":"*","user":"alice","lines":[{"sku":"a","quantity":2}],"state":"held","expires_at":"*"}`)
	two.wants(t, 201, one.body)
	wantHeader(t, one, "Idempotent-Replayed", "")
	wantHeader(t, two, "Idempotent-Replayed", "true")
	w.post("/v1/sales/s/reservations", more, key).wants(t, 422, problem(api.CodeIdempotencyReused, "*"))
	// The same key of another user is a different key.
	w.post("/v1/sales/s/reservations", strings.Replace(buy, "alice", "bob", 1), key).wants(t, 201, `{"id":"*","user":"bob","lines":[{"sku":"a","quantity":2}],"state":"held","expires_at":"*"}`)

	path := "/v1/sales/s/reservations/" + one.member(t, "id")
	confirmed := w.post(path+"/confirm", "", key)
	wantHeader(t, confirmed, "Idempotent-Replayed", "")
	repeated := w.post(path+"/confirm", "", key)
	repeated.wants(t, 200, confirmed.body)
	wantHeader(t, repeated, "Idempotent-Replayed", "true")

	for i, replayed := range []string{"", "true"} {
		a := w.post("/v1/sales/s/stock", `{"sku":"a","delta":4}`, key)
		a.wants(t, 200, `{"sku":"a","total":13,"available":9,"held":2,"sold":2,"low_at":null}`)
		wantHeader(t, a, "Idempotent-Replayed", replayed)
		if t.Failed() {
			t.Fatalf("try %d", i)
		}
	}
	w.post("/v1/sales/s/stock", `{"sku":"a","delta":5}`, key).wants(t, 422, problem(api.CodeIdempotencyReused, "*"))
	// A refusal is not stored: the same key may succeed later.
	big := `{"user":"carol","lines":[{"sku":"a","quantity":10}]}`
	w.post("/v1/sales/s/reservations", big, "Idempotency-Key: k2").wants(t, 409, problem(api.CodeSoldOut, "*", `"available":{"a":9}`))
	w.post("/v1/sales/s/stock", `{"sku":"a","delta":1}`)
	w.post("/v1/sales/s/reservations", big, "Idempotency-Key: k2").wants(t, 201, `{"id":"*","user":"carol","lines":[{"sku":"a","quantity":10}],"state":"held","expires_at":"*"}`)
}

func TestOrdersArePaged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workSales()
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":9}]`, `"hold_ms":0`))
	want := map[string]bool{}
	for i := range 5 {
		want[w.post("/v1/sales/s/reservations", fmt.Sprintf(`{"user":"u%d","lines":[{"sku":"a","quantity":1}]}`, i)).member(t, "id")] = true
	}
	w.awaitOrders("s", 5)
	last := ""
	for next := ""; ; {
		var page api.OrderList
		storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/sales/s/orders?limit=2&cursor="+next).body), &page))
		for _, o := range page.Items {
			at := stamp(o.CreatedAt.Time) + o.Reservation
			if !want[o.Reservation] || at < last {
				t.Errorf("%s is not wanted or not in its place", o.Reservation)
			}
			last = at
			delete(want, o.Reservation)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if len(want) != 0 {
		t.Errorf("%d orders are not listed", len(want))
	}
}

func TestReservationsArePaged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":9}]`))
	var made []string
	for range 5 {
		made = append(made, w.post("/v1/sales/s/reservations", `{"user":"u","lines":[{"sku":"a","quantity":1}]}`).member(t, "id"))
		next := time.Now().Truncate(time.Millisecond).Add(time.Millisecond)
		storetest.Eventually(t, time.Second, "the next millisecond", func() bool { return time.Now().After(next) })
	}
	var got []string
	for next := ""; ; {
		var page api.ReservationList
		storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/sales/s/reservations?user=u&limit=2&cursor="+next).body), &page))
		for _, r := range page.Items {
			got = append([]string{r.ID}, got...)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(made) {
		t.Errorf("listed %v, want %v, newest first", got, made)
	}
}

func TestSaleScopes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	sales, buyer, other := w.mustKey(api.ScopeSales), w.mustKey(api.ScopeSalesBuy), w.mustKey(api.ScopeChat)
	as := func(c call, key string) int { return w.do(c.with("Authorization: Bearer " + key)).status }
	body := saleBody(`[{"sku":"a","stock":9}]`)
	for _, c := range []struct {
		call  call
		buyer bool
	}{
		{put("/v1/sales/s", body), false},
		{post("/v1/sales/s/stock", `{"sku":"a","delta":1}`), false},
		{get("/v1/sales/s/orders"), false},
		{get("/v1/sales/s/reservations"), false},
		{get("/v1/sales"), false},
		{get("/v1/sales/s"), true},
		{post("/v1/sales/s/reservations", `{"user":"u","lines":[{"sku":"a","quantity":1}]}`), true},
		{get("/v1/sales/s/reservations?user=u"), true},
		{get("/v1/sales/s/reservations/x"), true},
		{post("/v1/sales/s/reservations/x/confirm", ""), true},
		{post("/v1/sales/s/reservations/x/release", ""), true},
		{post("/v1/sales/s/reservations/x/extend", `{"hold_ms":1}`), true},
	} {
		if got := as(c.call, sales); got == 401 || got == 403 {
			t.Errorf("%s %s: sales gets %d", c.call.method, c.call.path, got)
		}
		if got := as(c.call, buyer); (got == 403) == c.buyer {
			t.Errorf("%s %s: sales:buy gets %d", c.call.method, c.call.path, got)
		}
		if got := as(c.call, other); got != 403 {
			t.Errorf("%s %s: chat gets %d", c.call.method, c.call.path, got)
		}
	}
}

func TestSaleStream(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":2}]`))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/v1/sales/s/stream", nil)
	storetest.Must(t, err)
	res, err := http.DefaultClient.Do(r)
	storetest.Must(t, err)
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); res.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, got)
	}
	lines := bufio.NewScanner(res.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if data != want {
					t.Fatalf("event %s, want %s", data, want)
				}
				return
			}
		}
		t.Fatalf("the stream ended before %s: %v", want, lines.Err())
	}
	next(`{"available":{"a":2},"state":"open"}`)
	one := w.post("/v1/sales/s/reservations", `{"user":"u","lines":[{"sku":"a","quantity":2}]}`)
	next(`{"available":{"a":0},"state":"sold_out"}`)
	w.post("/v1/sales/s/reservations/"+one.member(t, "id")+"/release", "")
	next(`{"available":{"a":2},"state":"open"}`)
}

// BadInput of the sales: whole answers.
func TestBadSales(t *testing.T) {
	t.Parallel()
	w := setup(t, func(*handlers.Options) {})
	const path, lines = "/v1/sales/s", `"lines":[{"sku":"a","quantity":1}]`
	const tagRule = `must be ETags such as "7" or "7", "8", or *`
	items := `"items":[{"sku":"a","stock":1}]`
	buy := func(body string) call { return post(path+"/reservations", body) }
	sale := func(body string) call { return put(path, body) }
	times := `"starts_at":"2026-01-01T00:00:00Z","ends_at":"2026-01-02T00:00:00Z"`
	many := func(n int, one string) string { // n items with different names
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(one, i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	run(t, w, []bad{
		{"a sale with a brace", put("/v1/sales/%7Bx%7D", `{`+items+`,`+times+`}`), 422, broken("sale", "identifier", identifierRule)},
		{"no items", sale(`{"items":[],` + times + `}`), 422, broken("items", "min", "must have at least 1 item")},
		{"items missing", sale(`{` + times + `}`), 422, broken("items", "required", "is required")},
		{"101 items", sale(`{"items":` + many(101, `{"sku":"s%d","stock":1}`) + `,` + times + `}`), 422, broken("items", "max", "must have at most 100 items")},
		{"a sku twice", sale(`{"items":[{"sku":"a","stock":1},{"sku":"a","stock":2}],` + times + `}`), 422, broken("items[1].sku", "unique", "repeats a of items[0]")},
		{"skus twice", sale(`{"items":[{"sku":"a","stock":1},{"sku":"b","stock":1},{"sku":"b","stock":1},{"sku":"a","stock":2},{"sku":"a","stock":3}],` + times + `}`), 422,
			problem(api.CodeValidation, "items[2].sku repeats b of items[1] (and 2 more)", `"errors":[
				{"field":"items[2].sku","rule":"unique","message":"repeats b of items[1]"},
				{"field":"items[3].sku","rule":"unique","message":"repeats a of items[0]"},
				{"field":"items[4].sku","rule":"unique","message":"repeats a of items[0]"}]`)},
		{"a bad sku", sale(`{"items":[{"sku":"a b","stock":1}],` + times + `}`), 422, broken("items[0].sku", "identifier", identifierRule)},
		{"no stock", sale(`{"items":[{"sku":"a"}],` + times + `}`), 422, broken("items[0].stock", "required", "is required")},
		{"a negative total", sale(`{"items":[{"sku":"a","total":-1}],` + times + `}`), 422, broken("items[0].total", "min", "must be at least 0")},
		{"a total beside another stock", sale(`{"items":[{"sku":"a","stock":1},{"sku":"b","stock":1,"total":2}],` + times + `}`), 422, broken("items[1].total", "equal", "must equal stock, or be left out")},
		{"the id of another sale", sale(`{"id":"t",` + items + `,` + times + `}`), 422, broken("id", "equal", "must equal the sale of the path, or be left out")},
		{"a bad id", sale(`{"id":"a b",` + items + `,` + times + `}`), 422, broken("id", "identifier", identifierRule)},
		{"a list of a state that no sale has", get("/v1/sales?state=sold"), 422, broken("state", "oneof", "must be one of upcoming, open, sold_out, ended")},
		{"a list of 501", get("/v1/sales?limit=501"), 422, broken("limit", "max", "must be at most 500")},
		{"a list after no sale", get("/v1/sales?cursor=MXt9"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"negative stock", sale(`{"items":[{"sku":"a","stock":-1}],` + times + `}`), 422, broken("items[0].stock", "min", "must be at least 0")},
		{"stock above 2^53 - 1", sale(`{"items":[{"sku":"a","stock":9007199254740992}],` + times + `}`), 422, broken("items[0].stock", "max", "must be at most 9007199254740991")},
		{"a negative low_at", sale(`{"items":[{"sku":"a","stock":1,"low_at":-1}],` + times + `}`), 422, broken("items[0].low_at", "min", "must be at least 0")},
		{"stock of 1.5", sale(`{"items":[{"sku":"a","stock":1.5}],` + times + `}`), 400, badJSON("items[0].stock", "must be an integer, not the number 1.5")},
		{"no start", sale(`{` + items + `,"ends_at":"2026-01-02T00:00:00Z"}`), 422, broken("starts_at", "required", "is required")},
		{"an end before the start", sale(`{` + items + `,"starts_at":"2026-01-02T00:00:00Z","ends_at":"2026-01-01T00:00:00Z"}`), 422, broken("ends_at", "after", "must be after starts_at")},
		{"an end at the start", sale(`{` + items + `,"starts_at":"2026-01-01T00:00:00Z","ends_at":"2026-01-01T00:00:00.0009Z"}`), 422, broken("ends_at", "after", "must be after starts_at")},
		{"a limit of 0", sale(`{` + items + `,` + times + `,"per_user_limit":0}`), 422, broken("per_user_limit", "min", "must be at least 1")},
		{"a negative hold", sale(`{` + items + `,` + times + `,"hold_ms":-1}`), 422, broken("hold_ms", "min", "must be at least 0")},
		{"a hold of 31 days", sale(`{` + items + `,` + times + `,"hold_ms":2678400000}`), 422, broken("hold_ms", "max", "must be at most 2592000000")},
		{"a longest hold below the hold", sale(`{` + items + `,` + times + `,"hold_ms":60000,"max_hold_ms":59999}`), 422, broken("max_hold_ms", "min", "must be at least 60000, as hold_ms is")},
		{"a longest hold below the default", sale(`{` + items + `,` + times + `,"max_hold_ms":599999}`), 422, broken("max_hold_ms", "min", "must be at least 600000, as hold_ms is")},
		{"a longest hold of 31 days", sale(`{` + items + `,` + times + `,"max_hold_ms":2678400000}`), 422, broken("max_hold_ms", "max", "must be at most 2592000000")},
		{"an extension by nothing", post(path+"/reservations/x/extend", `{}`), 422, broken("hold_ms", "required", "is required")},
		{"an extension by 0", post(path+"/reservations/x/extend", `{"hold_ms":0}`), 422, broken("hold_ms", "min", "must be at least 1")},
		{"an extension by 31 days", post(path+"/reservations/x/extend", `{"hold_ms":2678400000}`), 422, broken("hold_ms", "max", "must be at most 2592000000")},
		{"no time to idle", sale(`{` + items + `,` + times + `,"idle_ms":0}`), 422, broken("idle_ms", "min", "must be at least 1")},
		{"no partition", sale(`{` + items + `,` + times + `,"partitions":0}`), 422, broken("partitions", "min", "must be at least 1")},
		{"65 partitions", sale(`{` + items + `,` + times + `,"partitions":65}`), 422, broken("partitions", "max", "must be at most 64")},
		{"both match headers", sale(`{`+items+`,`+times+`}`).with(`If-Match: "1"`, "If-None-Match: *"), 422, broken("If-None-Match", "exactly_one", "must not be sent together with If-Match")},
		{"a bare tag in If-None-Match", sale(`{` + items + `,` + times + `}`).with(`If-None-Match: 1`), 422, broken("If-None-Match", "etag", tagRule)},
		{"a bare tag", sale(`{` + items + `,` + times + `}`).with(`If-Match: 1`), 422, broken("If-Match", "etag", tagRule)},
		{"a tag and *", sale(`{` + items + `,` + times + `}`).with(`If-Match: "1", *`), 422, broken("If-Match", "etag", tagRule)},
		{"a stock call without a delta", post(path+"/stock", `{"sku":"a"}`), 422, broken("delta", "required", "is required")},
		{"a stock call for a bad sku", post(path+"/stock", `{"sku":"{a}","delta":1}`), 422, broken("sku", "identifier", identifierRule)},
		{"a delta beyond 2^53 - 1", post(path+"/stock", `{"sku":"a","delta":9007199254740992}`), 422, broken("delta", "max", "must be at most 9007199254740991")},
		{"no user", buy(`{` + lines + `}`), 422, broken("user", "required", "is required")},
		{"a bad user", buy(`{"user":"a b",` + lines + `}`), 422, broken("user", "identifier", identifierRule)},
		{"no lines", buy(`{"user":"u","lines":[]}`), 422, broken("lines", "min", "must have at least 1 item")},
		{"21 lines", buy(`{"user":"u","lines":` + many(21, `{"sku":"s%d","quantity":1}`) + `}`), 422, broken("lines", "max", "must have at most 20 items")},
		{"a sku twice in lines", buy(`{"user":"u","lines":[{"sku":"a","quantity":1},{"sku":"a","quantity":1}]}`), 422, broken("lines[1].sku", "unique", "repeats a of lines[0]")},
		{"quantity 0", buy(`{"user":"u","lines":[{"sku":"a","quantity":0}]}`), 422, broken("lines[0].quantity", "min", "must be at least 1")},
		{"no quantity", buy(`{"user":"u","lines":[{"sku":"a"}]}`), 422, broken("lines[0].quantity", "min", "must be at least 1")},
		{"quantity 1,001", buy(`{"user":"u","lines":[{"sku":"a","quantity":1001}]}`), 422, broken("lines[0].quantity", "max", "must be at most 1000")},
		{"a list of a bad user", get(path + "/reservations?user=a%20b"), 422, broken("user", "identifier", identifierRule)},
		{"a list of a state that no reservation has", get(path + "/reservations?state=open"), 422, broken("state", "oneof", "must be one of held, sold, released, expired")},
		{"a list after no reservation", get(path + "/reservations?cursor=MWE"), 422, broken("cursor", "cursor", "is not one that this list gave")},
		{"a bad reservation id", get(path + "/reservations/a%20b"), 422, broken("id", "identifier", identifierRule)},
		{"a cursor of one's own", get(path + "/orders?cursor=abc"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"a cursor with U+0000", get(path + "/orders?cursor=MTUgYQA"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"a cursor of another list", get(path + "/orders?cursor=MWE"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
	})
}
