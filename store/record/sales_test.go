package record_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"fanfare/store/storetest"

	"fanfare/api"
	"fanfare/store/record"
)

func aSale(id string, version int64) record.Sale {
	return record.Sale{
		ID: id, Version: version, Items: []record.SaleItem{{SKU: "b", Total: 1<<53 - 1}, {SKU: "a", Total: version}},
		StartsAt: 1000, EndsAt: 2000, PerUserLimit: 2, HoldMS: 600_000, MaxHoldMS: 900_000, IdleMS: 5, Partitions: 8,
	}
}

func TestPutSale(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		if got, err := db.Sale(t.Context(), "spring"); got != nil || err != nil {
			t.Fatalf("a sale that is not there: %+v, %v", got, err)
		}
		storetest.AtOnce(t, 8, func(ctx context.Context, i int) error { return db.PutSale(ctx, aSale("spring", int64(1+i))) })
		storetest.Must(t, db.PutSale(t.Context(), aSale("spring", 3)))
		changed := aSale("spring", 8)
		changed.HoldMS = 1
		storetest.Must(t, db.PutSale(t.Context(), changed))
		got, err := db.Sale(t.Context(), "spring")
		storetest.Must(t, err)
		if want := aSale("spring", 8); !reflect.DeepEqual(*got, want) {
			t.Fatalf("the newest version does not stand:\n%+v\nwant\n%+v", *got, want)
		}
	})
}

func anOrder(sale string, n int, lines ...api.Line) record.Order {
	return record.Order{Reservation: fmt.Sprintf("%s-%03d", sale, n), Sale: sale, User: fmt.Sprintf("u%d", n%3), Lines: lines, CreatedAt: 1000 + int64(n/2)}
}

func TestPutOrders(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		var orders []record.Order
		for n := range 100 {
			orders = append(orders, anOrder("spring", n, api.Line{SKU: "a", Quantity: 1}, api.Line{SKU: "b", Quantity: int64(n)}))
		}
		storetest.AtOnce(t, 4, func(ctx context.Context, i int) error { return db.PutOrders(ctx, orders[i*20:]) })
		storetest.Must(t, db.PutOrders(t.Context(), orders))
		twice := anOrder("winter", 1, api.Line{SKU: "a", Quantity: 1}) // its job may have been enqueued twice
		storetest.Must(t, db.PutOrders(t.Context(), []record.Order{orders[7], twice, orders[7], twice}))
		other := orders[5]
		other.Lines = []api.Line{{SKU: "a", Quantity: 1}, {SKU: "b", Quantity: 999}}
		storetest.Must(t, db.PutOrders(t.Context(), []record.Order{other, anOrder("autumn", 1, api.Line{SKU: "a", Quantity: 7})}))

		t.Run("each is there once, oldest first", func(t *testing.T) {
			var got []record.Order
			for after := (record.Order{}); ; after = got[len(got)-1] {
				page, err := db.Orders(t.Context(), "spring", after, 7)
				storetest.Must(t, err)
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
			}
			if !reflect.DeepEqual(got, orders) {
				t.Fatalf("%d orders, want %d, or they differ", len(got), len(orders))
			}
		})
		t.Run("one by its reservation", func(t *testing.T) {
			got, err := db.Order(t.Context(), "spring", "spring-005")
			storetest.Must(t, err)
			if got == nil || !reflect.DeepEqual(*got, orders[5]) {
				t.Errorf("%+v", got)
			}
			for _, id := range []string{"spring-100", "autumn-001"} {
				if got, err := db.Order(t.Context(), "spring", id); got != nil || err != nil {
					t.Errorf("%s: %+v %v", id, got, err)
				}
			}
		})
		if err := db.PutOrders(t.Context(), make([]record.Order, 101)); err == nil {
			t.Error("101 orders at once were taken")
		}
	})
}

// The name of a change of stock may be used again when its record is over; a late writing
// of the old one changes nothing.
func TestARestocksNameIsUsedAgain(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		old := record.Restock{Name: "monday", Version: 1, Answer: "old", ExpiresAt: 1000}
		again := record.Restock{Name: "monday", Version: 2, Answer: "new", ExpiresAt: 2000}
		for version, one := range []record.Restock{old, again, old} {
			storetest.Must(t, db.PutSale(t.Context(), aSale("spring", int64(version+1)), one))
		}
		got, err := db.Restocks(t.Context(), "spring", 9, "", 10)
		if err != nil || !reflect.DeepEqual(got, []record.Restock{again}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// S9: who has a sale by an earlier loading than the last writes nothing of it: neither settings
// nor changes of stock. Who has it by the last one goes on.
func TestS9_AnEarlierLoadingWritesNothing(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		if got, err := db.LoadSale(t.Context(), "spring", "l1"); got != nil || err != nil {
			t.Fatalf("a sale that is not there: %+v, %v", got, err)
		}
		late, restock := aSale("spring", 3), record.Restock{Name: "monday", Version: 3, Answer: "a", ExpiresAt: 1000}
		late.Loading = "made"
		first := aSale("spring", 2)
		first.Loading = "made"
		storetest.Must(t, db.PutSale(t.Context(), first))
		loaded, err := db.LoadSale(t.Context(), "spring", "l1")
		storetest.Must(t, err)
		want := aSale("spring", 2)
		want.Loading = "l1"
		if !reflect.DeepEqual(*loaded, want) {
			t.Errorf("%+v, want %+v", *loaded, want)
		}
		for _, version := range []int64{1, 2, 3} {
			late.Version = version
			if err := db.PutSale(t.Context(), late, restock); !errors.Is(err, record.ErrFenced) {
				t.Errorf("version %d of an earlier loading: %v", version, err)
			}
		}
		restocks, err := db.Restocks(t.Context(), "spring", 9, "", 10)
		if now, e := db.Sale(t.Context(), "spring"); err != nil || e != nil || len(restocks) > 0 || !reflect.DeepEqual(*now, want) {
			t.Errorf("on record are %+v and %+v", now, restocks)
		}
		late.Version, late.Loading = 3, "l1"
		storetest.Must(t, db.PutSale(t.Context(), late, restock))
		storetest.Must(t, db.PutSale(t.Context(), want)) // one that is late
		if now, err := db.Sale(t.Context(), "spring"); err != nil || !reflect.DeepEqual(*now, late) {
			t.Errorf("%+v, %v, want %+v", now, err, late)
		}
	})
}

// S9: a program that knows no loadings cannot write beside those that do.
func TestS9_WhoKnowsNoLoadingCannotWrite(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		storetest.Must(t, db.PutSale(t.Context(), aSale("spring", 1)))
		_, err := db.SQL().Exec("UPDATE sales SET version = ?, items = ?, starts_at = ?, ends_at = ?, per_user_limit = ?, hold_ms = ?, idle_ms = ?, partitions = ?,"+
			" updated_at = 0 WHERE id = ? AND version < ?", 2, "[]", 0, 0, 0, 0, 0, 1, "spring", 2)
		if err == nil {
			t.Error("it wrote")
		}
	})
}

// S20: a deleted sale's settings and changes of stock are gone, and its orders stay. Nothing that
// belongs to it can be written any more. A later sale can, by its name, unless the id was used.
func TestS20_ADeletedSale(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		for id, sold := range map[string]int{"free": 0, "sold": 1, "autumn": 0} {
			s := aSale(id, 3)
			s.Loading = "l1"
			storetest.Must(t, db.PutSale(ctx, s, record.Restock{Name: "monday", Version: 1, Answer: "a", ExpiresAt: 1000}))
			for n := range sold {
				storetest.Must(t, db.PutOrders(ctx, []record.Order{anOrder(id, n, api.Line{SKU: "a", Quantity: 1})}))
			}
		}
		deletion := func(id, name string, used bool) record.DeletedSale {
			return record.DeletedSale{ID: id, Deletion: name, Used: used}
		}
		for _, refused := range []error{db.DeleteSale(ctx, deletion("free", "d1", false), "l0"), db.DeleteSale(ctx, deletion("none", "d1", false), "")} {
			if !errors.Is(refused, record.ErrFenced) {
				t.Errorf("another loading: %v", refused)
			}
		}
		if d, err := db.DeletedSale(ctx, "free"); d != nil || err != nil {
			t.Errorf("%+v, %v", d, err)
		}
		for id, used := range map[string]bool{"free": false, "sold": false, "autumn": true} {
			storetest.Must(t, db.DeleteSale(ctx, deletion(id, "d1", used), "l1"))
			d, err := db.DeletedSale(ctx, id)
			if want := deletion(id, "d1", id != "free"); err != nil || d == nil || *d != want {
				t.Errorf("%+v, %v, want %+v", d, err, want)
			}
			row, err := db.Sale(ctx, id)
			restocks, err2 := db.Restocks(ctx, id, 9, "", 10)
			if row != nil || len(restocks) > 0 || err != nil || err2 != nil {
				t.Errorf("%s: %+v, %+v, %v, %v", id, row, restocks, err, err2)
			}
			late := aSale(id, 4)
			late.Loading = "l1"
			if err := db.PutSale(ctx, late); !errors.Is(err, record.ErrDeleted) {
				t.Errorf("%s is written again: %v", id, err)
			}
		}
		if orders, err := db.Orders(ctx, "sold", record.Order{}, 9); len(orders) != 1 || err != nil {
			t.Errorf("%+v, %v", orders, err)
		}
		later := aSale("autumn", 1)
		later.Loading = "d1.l2"
		if err := db.PutSale(ctx, later); !errors.Is(err, record.ErrDeleted) {
			t.Errorf("a used id: %v", err)
		}
		later.ID = "free"
		for range 2 {
			storetest.Must(t, db.PutSale(ctx, later))
		}
		storetest.Must(t, db.DeleteSale(ctx, deletion("free", "d2", false), "d1.l2"))
		if err := db.PutSale(ctx, later); !errors.Is(err, record.ErrDeleted) {
			t.Errorf("the second sale after its deletion: %v", err)
		}
	})
}

// S20: of a deletion and a writing of the same sale that come together the deletion wins: either it is
// refused or nothing is on record afterwards.
func TestS20_ADeletionBesideWrites(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		for round := range 20 {
			id := fmt.Sprint("s", round)
			s := aSale(id, 1)
			s.Loading = "l1"
			storetest.Must(t, db.PutSale(t.Context(), s))
			storetest.AtOnce(t, 6, func(ctx context.Context, i int) error {
				if i == 3 {
					return db.DeleteSale(ctx, record.DeletedSale{ID: id, Deletion: "d1"}, "l1")
				}
				late := s
				late.Version = int64(2 + i)
				if err := db.PutSale(ctx, late); !errors.Is(err, record.ErrDeleted) {
					return err
				}
				return nil
			})
			if row, err := db.Sale(t.Context(), id); row != nil || err != nil {
				t.Fatalf("%+v, %v", row, err)
			}
		}
	})
}

// Sales are listed by id, without what was deleted.
func TestSalesAreListed(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		for _, id := range []string{"c", "a", "d", "b"} {
			storetest.Must(t, db.PutSale(t.Context(), aSale(id, 2)))
		}
		storetest.Must(t, db.DeleteSale(t.Context(), record.DeletedSale{ID: "b", Deletion: "d1"}, ""))
		var got []string
		for after := ""; ; {
			page, err := db.Sales(t.Context(), after, 2)
			storetest.Must(t, err)
			if len(page) == 0 {
				break
			}
			for _, s := range page {
				got = append(got, fmt.Sprint(s.ID, " ", s.Version, " ", s.EndsAt))
			}
			after = page[len(page)-1].ID
		}
		if fmt.Sprint(got) != "[a 2 2000 c 2 2000 d 2 2000]" {
			t.Errorf("%v", got)
		}
	})
}
