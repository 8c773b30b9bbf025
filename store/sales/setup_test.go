package sales

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// patience is how long tests wait for what should take a moment.
const patience = 30 * time.Second

// process is a process that sells: a Store of its own over a shared Redis and
// record.
type process struct {
	*Store
	t testing.TB
}

// fixture is where processes of one test sell.
type fixture struct {
	t        testing.TB
	redisURL string
	sqlURL   string
	sale     string
}

// setup opens a Redis and a record of a test's own.
func setup(t testing.TB) *fixture {
	t.Helper()
	return &fixture{t: t, redisURL: storetest.Redis(t).URL(), sqlURL: storetest.SQLite(t), sale: "sale." + unused()}
}

// mustStart starts a process that only answers; work runs its loops too.
func (s *fixture) mustStart(o Options) *process {
	s.t.Helper()
	return s.mustStartOn(storetest.OpenWith(s.t, redisdb.Options{URL: s.redisURL, Timeout: 2 * time.Second}), o)
}

func (s *fixture) mustStartOn(db *redisdb.DB, o Options) *process {
	s.t.Helper()
	rec, err := record.Open(s.t.Context(), record.Options{URL: s.sqlURL, Timeout: 2 * time.Second})
	storetest.Must(s.t, err)
	s.t.Cleanup(func() { _ = rec.Close() })
	storetest.Must(s.t, rec.Migrate(s.t.Context()))
	jobs := queue.New(db, queue.Options{Name: "jobs-" + s.sale, Shards: 2, MaxAge: -1, RetryBase: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond})
	storetest.Must(s.t, jobs.Init(s.t.Context()))
	return &process{Store: New(db, rec, jobs, o), t: s.t}
}

// work runs loops until the returned function, or the end of the test.
func (p *process) work(loops ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for _, loop := range loops {
		done.Go(func() { _ = loop(ctx) })
	}
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	p.t.Cleanup(stop)
	return stop
}

// write is the loop that works on jobs.
func (p *process) write(ctx context.Context) error {
	return p.jobs.Run(ctx, queue.ByType(p.Jobs()))
}

// request is a sale that is open for an hour.
func request(stock, hold, partitions int64, skus ...string) *api.SaleRequest {
	starts, ends := api.At(time.Now().Add(-time.Hour)), api.At(time.Now().Add(time.Hour))
	r := &api.SaleRequest{StartsAt: &starts, EndsAt: &ends, HoldMS: &hold, Partitions: &partitions}
	if len(skus) == 0 {
		skus = []string{"s"}
	}
	for _, sku := range skus {
		r.Items = append(r.Items, api.SaleStock{SKU: sku, Stock: &stock})
	}
	return r
}

func (p *process) mustPut(sale string, r *api.SaleRequest) *api.Sale {
	p.t.Helper()
	s, _, err := p.Put(p.t.Context(), sale, r, stock.Match{})
	storetest.Must(p.t, err)
	return s
}

func (p *process) buy(sale, user string, n int64, key ...string) (*api.Reservation, error) {
	i := api.Idempotency{}
	if len(key) > 0 {
		i = api.Idempotency{Scope: "test", Key: key[0]}
	}
	r, _, err := p.Reserve(p.t.Context(), sale, &api.ReservationRequest{User: user, Lines: []api.Line{{SKU: "s", Quantity: n}}}, i)
	return r, err
}

func (p *process) mustBuy(sale, user string, n int64) *api.Reservation {
	p.t.Helper()
	r, err := p.buy(sale, user, n)
	storetest.Must(p.t, err)
	return r
}

func (p *process) confirm(sale, id string) (*api.Reservation, bool, error) {
	return p.End(p.t.Context(), stock.EndHold{Sale: sale, ID: id, Sell: true})
}

func (p *process) mustConfirm(sale, id string) {
	p.t.Helper()
	r, _, err := p.confirm(sale, id)
	storetest.Must(p.t, err)
	if r.State != api.ReservationSold {
		p.t.Fatalf("confirmed: %+v", r)
	}
}

func (p *process) mustRestock(sale string, delta int64) {
	p.t.Helper()
	_, err := p.AddStock(p.t.Context(), sale, &api.StockRequest{SKU: "s", Delta: &delta}, stock.Match{}, api.Idempotency{})
	storetest.Must(p.t, err)
}

// wantItem compares the sku "s" with available, held and sold.
func (p *process) wantItem(sale string, available, held, sold int64) {
	p.t.Helper()
	s, err := p.read(p.t.Context(), sale)
	storetest.Must(p.t, err)
	want := api.SaleItem{SKU: "s", Total: available + held + sold, Available: available, Held: held, Sold: sold}
	if s.Items[0] != want {
		p.t.Fatalf("%+v, want %+v", s.Items[0], want)
	}
}

// awaitRows waits until exactly so many orders are on record, each once.
func (p *process) awaitRows(sale string, n int) []record.Order {
	p.t.Helper()
	var rows []record.Order
	storetest.Eventually(p.t, patience, fmt.Sprintf("%d orders on record", n), func() bool {
		var err error
		rows, err = p.rec.Orders(p.t.Context(), sale, record.Order{}, n+1)
		return err == nil && len(rows) == n
	})
	return rows
}

// mustError checks an error's code and gives the error.
func mustError(t testing.TB, err error, want api.Code) *api.Error {
	t.Helper()
	storetest.WantCode(t, err, want)
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no api.Error", err)
	}
	return e
}

// unused makes a name that nothing else has.
func unused() string { return rand.Text()[:12] }

// infoText reads one value of INFO.
func infoText(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
