package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

const (
	writers = 16
	changes = 10 // of each writer
)

// eachPartitioning runs a test on a sale of "s" that does not exist yet, with one partition and
// with several.
func eachPartitioning(t *testing.T, fn func(t *testing.T, w *world, body func(stock int) string)) {
	t.Helper()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
			w.workSales()
			fixed := saleBody("[%s]", fmt.Sprintf(`"partitions":%d`, partitions))
			body := func(stock int) string {
				return fmt.Sprintf(fixed, fmt.Sprintf(`{"sku":"s","stock":%d}`, stock))
			}
			if a := w.put("/v1/sales/spring", body(0)); a.status != 201 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			fn(t, w, body)
		})
	}
}

// together makes all calls of all writers at the same time, and returns their answers.
func (w *world) together(make func(writer, n int) call) (answers []answer) {
	w.t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for writer := range writers {
		all.Go(func() {
			for n := range changes {
				a, err := w.insist(make(writer, n))
				if err != nil {
					w.t.Error(err)
					return
				}
				mu.Lock()
				answers = append(answers, a)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answers
}

// insist makes a call until it is answered with anything but 503: on a busy machine the outcome of a
// change may be unknown to its first caller.
func (w *world) insist(c call) (a answer, err error) {
	for deadline := time.Now().Add(time.Minute); ; {
		if a, err = w.try(c); err != nil || a.status != 503 || time.Now().After(deadline) {
			return a, err
		}
	}
}

func restockByOne(headers ...string) call {
	return call{method: "POST", path: "/v1/sales/spring/stock", body: `{"sku":"s","delta":1}`, headers: headers}
}

// S9: the total and the ETag in the answer to a change of stock are from one moment, however many
// callers change the sale at the same time. So a caller that adds stock with that ETag knows the
// previous total. The same key gets the same answer, with the same ETag.
func TestS9_ARestockAnswersItsOwnVersion(t *testing.T) {
	t.Parallel()
	eachPartitioning(t, func(t *testing.T, w *world, _ func(int) string) {
		keyed := func(writer, n int) call { return restockByOne(fmt.Sprintf("Idempotency-Key: %d.%d", writer, n)) }
		totals := map[int64]bool{}
		for _, a := range w.together(keyed) {
			total := a.matches(t)
			if totals[total] {
				t.Errorf("the total %d twice", total)
			}
			totals[total] = true
		}
		if len(totals) != writers*changes {
			t.Errorf("%d changes", len(totals))
		}
		for _, a := range w.together(keyed) {
			if a.header.Get("Idempotent-Replayed") != "true" || !totals[a.matches(t)] {
				t.Errorf("again: %v %s", a.header, a.body)
			}
		}
	})
}

// matches checks that an answer has the total that belongs to the version in its ETag. The sale
// began without units at version 1, and each change added one.
func (a answer) matches(t testing.TB) int64 {
	t.Helper()
	var item api.SaleItem
	if err := json.Unmarshal([]byte(a.body), &item); err != nil || a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if want := fmt.Sprintf(`"%d"`, item.Total+1); a.header.Get("ETag") != want {
		t.Errorf("total %d with ETag %s, want %s", item.Total, a.header.Get("ETag"), want)
	}
	return item.Total
}

// S9: If-Match: * requires only that the sale exists, so that changes by others do not refuse it.
func TestS9_AnyVersionMatches(t *testing.T) {
	t.Parallel()
	eachPartitioning(t, func(t *testing.T, w *world, body func(int) string) {
		answers := w.together(func(writer, n int) call {
			if writer%2 == 0 {
				return restockByOne("If-Match: *")
			}
			return call{method: "PUT", path: "/v1/sales/spring", body: body(1000*writer + n), headers: []string{"If-Match: *"}}
		})
		for _, a := range answers {
			if a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		absent := w.do(call{method: "PUT", path: "/v1/sales/autumn", body: body(1), headers: []string{"If-Match: *"}})
		if absent.status != 412 {
			t.Errorf("a sale that does not exist: %d %s", absent.status, absent.body)
		}
		absent = w.do(call{method: "POST", path: "/v1/sales/autumn/stock", body: `{"sku":"s","delta":1}`, headers: []string{"If-Match: *"}})
		if absent.status != 404 {
			t.Errorf("a sale that does not exist: %d %s", absent.status, absent.body)
		}
	})
}

// S9: a PUT answers with the sale as this PUT made it, with its version and ETag, and not with a
// later change by another caller.
func TestS9_APutAnswersItsOwnVersion(t *testing.T) {
	t.Parallel()
	eachPartitioning(t, func(t *testing.T, w *world, body func(int) string) {
		var mu sync.Mutex
		versions := map[int64]int64{}
		w.together(func(writer, n int) call {
			total := int64(1 + 1000*writer + n)
			a, err := w.insist(call{method: "PUT", path: "/v1/sales/spring", body: body(int(total)), headers: []string{"If-Match: *"}})
			storetest.Must(t, err)
			var sale api.Sale
			if err := json.Unmarshal([]byte(a.body), &sale); err != nil || a.status != 200 || sale.Items[0].Total != total || sale.Items[0].Available != total {
				t.Errorf("%d is answered with %d %s", total, a.status, a.body)
			}
			if !strings.HasPrefix(a.header.Get("ETag"), fmt.Sprintf(`"%d-`, sale.Version)) {
				t.Errorf("ETag %s: %s", a.header.Get("ETag"), a.body)
			}
			mu.Lock()
			defer mu.Unlock()
			if versions[sale.Version] != 0 {
				t.Errorf("version %d twice: %d and %d", sale.Version, versions[sale.Version], total)
			}
			versions[sale.Version] = total
			return call{method: "GET", path: "/v1/sales/spring"}
		})
	})
}
