package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"

	"github.com/anishathalye/porcupine"
)

// saleOp is one call of a history, and saleAnswer is its answer.
type saleOp struct {
	kind   string // reserve, confirm, release, restock, get
	user   string
	units  int64 // units to reserve, or to add to the stock
	id     string
	anyAge bool // the answer may come from memory
}

type saleAnswer struct {
	status int
	code   string
	id     string
	state  api.ReservationState
	item   api.SaleItem
	left   int64 // in a refusal: the available units, or those that remain for the user
}

// saleState is the sale according to the contract. A value is never changed once it is in a
// history.
type saleState struct {
	total, held, sold int64
	reservations      map[string]booked
}

type booked struct {
	user  string
	units int64
	state api.ReservationState
}

// saleLimit is the user's limit in histories.
const saleLimit = 6

func (s saleState) available() int64 { return s.total - s.held - s.sold }

func (s saleState) item() api.SaleItem {
	return api.SaleItem{SKU: "s", Total: s.total, Available: s.available(), Held: s.held, Sold: s.sold}
}

// with returns the state with one reservation changed, and with new sums of held and sold.
func (s saleState) with(id string, b booked) saleState {
	next := saleState{total: s.total, reservations: maps.Clone(s.reservations)}
	next.reservations[id] = b
	for _, r := range next.reservations {
		switch r.state {
		case api.ReservationHeld:
			next.held += r.units
		case api.ReservationSold:
			next.sold += r.units
		}
	}
	return next
}

// taken is the number of units that a user holds or has bought.
func (s saleState) taken(user string) int64 {
	n := int64(0)
	for _, r := range s.reservations {
		if r.user == user && (r.state == api.ReservationHeld || r.state == api.ReservationSold) {
			n += r.units
		}
	}
	return n
}

// saleModel defines the allowed sequences of answers of a sale with a number of units.
func saleModel(units int64) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return saleState{total: units, reservations: map[string]booked{}} },
		Equal: func(a, b any) bool { return sameSale(a.(saleState), b.(saleState)) },
		Step: func(state, input, output any) (bool, any) {
			return input.(saleOp).step(state.(saleState), output.(saleAnswer))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}

func sameSale(a, b saleState) bool {
	return a.total == b.total && maps.Equal(a.reservations, b.reservations)
}

func (op saleOp) step(s saleState, got saleAnswer) (bool, any) {
	switch op.kind {
	case "get":
		return got.item == s.item(), s
	case "restock":
		if s.total+op.units < s.held+s.sold {
			return got.code == string(api.CodeBounds), s
		}
		next := saleState{s.total + op.units, s.held, s.sold, s.reservations}
		return got.status == 200 && got.item == next.item(), next
	case "reserve":
		return op.reserve(s, got)
	}
	return op.finish(s, got)
}

func (op saleOp) reserve(s saleState, got saleAnswer) (bool, any) {
	switch left := saleLimit - s.taken(op.user); {
	case op.units > left && (!op.anyAge || got.code != string(api.CodeSoldOut)):
		return got.code == string(api.CodeLimitReached) && got.left == max(left, 0), s
	case op.units > s.available():
		return got.code == string(api.CodeSoldOut) && got.left == s.available(), s
	}
	return got.status == 201, s.with(got.id, booked{op.user, op.units, api.ReservationHeld})
}

func (op saleOp) finish(s saleState, got saleAnswer) (bool, any) {
	want := map[string]api.ReservationState{"confirm": api.ReservationSold, "release": api.ReservationReleased}[op.kind]
	r, known := s.reservations[op.id]
	switch {
	case !known:
		return false, s
	case r.state == api.ReservationHeld || r.state == want:
		r.state = want
		return got.status == 200 && got.state == want, s.with(op.id, r)
	}
	return got.code == string(api.CodeNotHeld) && got.state == r.state, s
}

// recorder makes a history by calling servers.
type recorder struct {
	sale    string
	servers []*program
	local   bool // answers may come from memory
	began   time.Time

	mu      sync.Mutex
	made    []string // existing reservations
	history []porcupine.Operation
}

// fromMemory is how old an answer from memory may be.
const fromMemory = 100 * time.Millisecond

// run makes n calls one after the other.
func (r *recorder) run(client, n int) error {
	for range n {
		if r.local { // so that answers in memory expire at times
			<-time.After(rand.N(fromMemory / 2))
		}
		op := r.choose(client)
		from := time.Since(r.began)
		got, err := r.call(op)
		if err != nil {
			return err
		}
		if op.anyAge = r.local && (op.kind == "get" || got.code == string(api.CodeSoldOut)); op.anyAge {
			from -= fromMemory // the answer may have been true before the call
		}
		r.mu.Lock()
		if got.status == 201 {
			r.made = append(r.made, got.id)
		}
		r.history = append(r.history, porcupine.Operation{ClientId: client, Input: op, Output: got, Call: from.Nanoseconds(), Return: time.Since(r.began).Nanoseconds()})
		r.mu.Unlock()
	}
	return nil
}

// choose chooses the next call at random.
func (r *recorder) choose(client int) saleOp {
	op := saleOp{kind: [...]string{"reserve", "reserve", "reserve", "confirm", "release", "restock", "get", "get"}[rand.IntN(8)]}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.made) == 0 && (op.kind == "confirm" || op.kind == "release") {
		op.kind = "reserve"
	}
	switch op.kind {
	case "reserve":
		// Users are shared by clients and change, because a user may try only ten times a second.
		op.user, op.units = fmt.Sprintf("user-%d-%d", len(r.history)/12, client%3), 1+rand.Int64N(4)
	case "restock":
		op.units = rand.Int64N(6) - 3
	case "confirm", "release":
		recent := r.made[max(0, len(r.made)-4):] // the ones that other clients use too
		op.id = recent[rand.IntN(len(recent))]
	}
	return op
}

func (r *recorder) call(op saleOp) (saleAnswer, error) {
	method, path, body := op.request()
	status, answer, err := r.servers[rand.IntN(len(r.servers))].try(method, "/v1/sales/"+r.sale+path, body)
	if err != nil {
		return saleAnswer{}, err
	}
	var said struct {
		ID, Code  string
		State     api.ReservationState
		Items     []api.SaleItem
		Remaining int64
		Available json.RawMessage // a number in an item, an object in a refusal
	}
	if err := json.Unmarshal(answer, &said); err != nil || status >= 500 || status == 429 {
		return saleAnswer{}, fmt.Errorf("%s: %d %s %w", op.kind, status, answer, err)
	}
	got := saleAnswer{status: status, code: said.Code, id: said.ID, state: said.State, left: said.Remaining}
	switch {
	case op.kind == "get":
		got.id, got.state, got.item = "", "", said.Items[0]
	case op.kind == "restock" && status == 200:
		err = json.Unmarshal(answer, &got.item)
	case said.Code == string(api.CodeSoldOut):
		var left map[string]int64
		err = json.Unmarshal(said.Available, &left)
		got.left = left["s"]
	}
	return got, err
}

func (op saleOp) request() (method, path string, body any) {
	switch op.kind {
	case "get":
		return "GET", "", nil
	case "restock":
		return "POST", "/stock", map[string]any{"sku": "s", "delta": op.units}
	case "reserve":
		return "POST", "/reservations", map[string]any{"user": op.user, "lines": []any{map[string]any{"sku": "s", "quantity": op.units}}}
	}
	return "POST", "/reservations/" + op.id + "/" + op.kind, nil
}

// mustHistory lets some clients call at once and returns whether the model allows the history.
func mustHistory(t *testing.T, sale string, local bool, servers ...*program) porcupine.CheckResult {
	t.Helper()
	const units = 8
	clients, calls := 5, 14
	if local {
		clients, calls = 4, 10 // answers that may be old fit in many places, so that the check takes longer
	}
	r := &recorder{sale: sale, servers: servers, local: local, began: time.Now()}
	var all sync.WaitGroup
	errs := make(chan error, clients)
	for client := range clients {
		all.Go(func() { errs <- r.run(client, calls) })
	}
	all.Wait()
	for range clients {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	return porcupine.CheckOperationsTimeout(saleModel(units), r.history, time.Minute)
}

// Reserve, confirm, release, restock and get over real HTTP, through two servers, are linearizable.
// With answers from memory they are too, if refusals and reads may be 100 ms old.
func TestSaleHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	const histories = 25
	for _, local := range []string{"off", "on"} {
		t.Run("local "+local, func(t *testing.T) {
			t.Parallel()
			servers := mustServeMany(t, 2, quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_SALE_LOCAL="+local)...)
			for n := range histories {
				sale := fmt.Sprintf("history-%d", n)
				mustMarket(t, sale, func() []*program { return servers }, 8, map[string]any{"per_user_limit": saleLimit})
				if got := mustHistory(t, sale, local == "on", servers...); got != porcupine.Ok {
					t.Errorf("history %d: %s", n, got)
				}
			}
		})
	}
}

// The same check rejects a sale that first reads and later takes.
func TestSaleHistoriesOfABrokenDoubleAreRejected(t *testing.T) {
	t.Parallel()
	rejected := 0
	for range 20 {
		server := httptest.NewServer(&brokenSale{item: api.SaleItem{SKU: "s", Total: 8, Available: 8}, reservations: map[string]booked{}})
		if mustHistory(t, "double", false, &program{t: t, base: server.URL}) == porcupine.Illegal {
			rejected++
		}
		server.Close()
	}
	if rejected < 15 {
		t.Errorf("%d of 20 histories of a broken sale were rejected", rejected)
	}
}

// brokenSale makes a common mistake: it reads, decides, and then decrements.
type brokenSale struct {
	mu           sync.Mutex
	item         api.SaleItem
	reservations map[string]booked
	another      chan struct{} // closed when another caller reads
}

// ServeHTTP answers like fanfare, except for its one mistake.
func (b *brokenSale) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		User  string
		Lines []api.Line
		Delta int64
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/sales/double"), "/")
	status, out := 200, any(nil)
	switch last := parts[len(parts)-1]; last {
	case "":
		out = map[string]any{"items": []api.SaleItem{b.change(func() {})}}
	case "stock":
		status, out = b.restock(in.Delta)
	case "reservations":
		status, out = b.reserve(in.User, in.Lines[0].Quantity)
	default:
		status, out = b.finish(parts[2], last)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

func (b *brokenSale) change(f func()) api.SaleItem {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	return b.item
}

// reserve makes the mistake: other callers read between its read and its decrement. It waits for
// such a caller, so that the error does not depend on chance.
func (b *brokenSale) reserve(user string, units int64) (int, any) {
	var state saleState
	another := make(chan struct{})
	now := b.change(func() {
		state = saleState{reservations: maps.Clone(b.reservations)}
		if b.another != nil {
			close(b.another)
		}
		b.another = another
	})
	if left := saleLimit - state.taken(user); units > left {
		return 409, map[string]any{"code": api.CodeLimitReached, "remaining": max(left, 0)}
	}
	if units > now.Available {
		return 409, map[string]any{"code": api.CodeSoldOut, "available": map[string]int64{"s": now.Available}}
	}
	select {
	case <-another:
	case <-time.After(20 * time.Millisecond):
	}
	id := fmt.Sprint("r", rand.Uint64())
	b.change(func() {
		b.item.Available, b.item.Held = b.item.Available-units, b.item.Held+units
		b.reservations[id] = booked{user, units, api.ReservationHeld}
	})
	return 201, map[string]any{"id": id, "state": api.ReservationHeld}
}

func (b *brokenSale) restock(delta int64) (status int, out any) {
	b.change(func() {
		if b.item.Available+delta < 0 {
			status, out = 409, map[string]any{"code": api.CodeBounds}
			return
		}
		b.item.Total, b.item.Available = b.item.Total+delta, b.item.Available+delta
		status, out = 200, b.item
	})
	return status, out
}

func (b *brokenSale) finish(id, how string) (status int, out any) {
	b.change(func() {
		r := b.reservations[id]
		want := map[string]api.ReservationState{"confirm": api.ReservationSold, "release": api.ReservationReleased}[how]
		if r.state != api.ReservationHeld && r.state != want {
			status, out = 409, map[string]any{"code": api.CodeNotHeld, "state": r.state}
			return
		}
		if r.state == api.ReservationHeld {
			b.item.Held -= r.units
			if want == api.ReservationSold {
				b.item.Sold += r.units
			} else {
				b.item.Available += r.units
			}
		}
		r.state = want
		b.reservations[id] = r
		status, out = 200, map[string]any{"id": id, "state": want}
	})
	return status, out
}
