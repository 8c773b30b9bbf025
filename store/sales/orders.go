package sales

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/batch"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/stock"
)

const (
	// relayLength is how many orders may wait for the relay. If it is full, the sweeper enqueues
	// further orders.
	relayLength = 4096
	// relayBatch is how many orders one enqueueing carries.
	relayBatch = 256
	// relayTime bounds one enqueueing.
	relayTime = 5 * time.Second
	// sweepPage is how many orders of a partition the sweeper enqueues at once. After it has
	// enqueued all, it does not sweep the partition for sweepAgain, or for sweepRest times as long
	// as the sweep took, so that the jobs can do their work.
	sweepPage  = 500
	sweepAgain = 5 * time.Second
	sweepRest  = 10
)

// Orders lists a sale's orders from the record, oldest first, at most limit of
// them, beginning after an order (the zero Order for the first page). A sale that was deleted still
// has its orders.
func (s *Store) Orders(ctx context.Context, sale string, after api.Order, limit int) ([]api.Order, error) {
	settings, err := s.rec.Sale(ctx, sale)
	if err != nil {
		return nil, err
	}
	if settings == nil {
		deleted, err := s.rec.DeletedSale(ctx, sale)
		if err != nil {
			return nil, err
		}
		if deleted == nil || !deleted.Used {
			return nil, stock.ErrAbsent
		}
	}
	from := record.Order{Reservation: after.Reservation}
	if after.Reservation != "" {
		from.CreatedAt = after.CreatedAt.UnixMilli()
	}
	found, err := s.rec.Orders(ctx, sale, from, limit)
	out := make([]api.Order, len(found))
	for i, o := range found {
		out[i] = api.Order{Reservation: o.Reservation, User: o.User, Lines: o.Lines, CreatedAt: api.AtMillis(o.CreatedAt)}
	}
	return out, err
}

// orderJob is the job that writes one order. Its unique id is the reservation, so that it is queued
// only once, however often it is enqueued.
func orderJob(o stock.Order) queue.Job {
	payload, _ := json.Marshal(record.Order(o)) // strings and numbers cannot fail
	return queue.Job{Type: JobOrder, Unique: o.Reservation, Payload: payload}
}

// relayOrders enqueues orders right after their reservations were sold, until ctx ends. It
// enqueues waiting orders before it returns.
func (s *Store) relayOrders(ctx context.Context) {
	for {
		select {
		case first := <-s.relay:
			s.relayFrom(ctx, first)
		case <-ctx.Done():
			select {
			case first := <-s.relay:
				s.relayFrom(ctx, first)
			default:
				return
			}
		}
	}
}

// relayFrom enqueues an order and the orders that wait behind it.
func (s *Store) relayFrom(ctx context.Context, first stock.Order) {
	orders := []stock.Order{first}
	for len(orders) < relayBatch {
		select {
		case o := <-s.relay:
			orders = append(orders, o)
			continue
		default:
		}
		break
	}
	if err := s.enqueue(context.WithoutCancel(ctx), orders); err != nil {
		s.o.Logger.WarnContext(ctx, "orders are left to the sweeper", "orders", len(orders), "error", err)
	}
}

func (s *Store) enqueue(ctx context.Context, orders []stock.Order) error {
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	jobs := make([]queue.Job, len(orders))
	for i := range orders {
		jobs[i] = orderJob(orders[i])
	}
	_, err := s.jobs.Enqueue(ctx, jobs...)
	return err
}

// sweptOrders has the time, for each partition, until which the sweeper leaves the orders to their
// jobs.
type sweptOrders struct {
	mu    sync.Mutex
	until map[stock.Ref]time.Time
}

// due reports whether it is time to sweep a partition again.
func (s *sweptOrders) due(r stock.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.until[r])
}

func (s *sweptOrders) rest(r stock.Ref, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil || len(s.until) >= maxCached {
		s.until = map[stock.Ref]time.Time{}
	}
	s.until[r] = time.Now().Add(d)
}

// onSwept finishes work that the sweep of a partition found: orders whose job was perhaps never
// enqueued because a process died, and settings that are not on record.
func (s *Store) onSwept(ctx context.Context, found stock.Swept) {
	var errs []error
	if found.Settings {
		errs = append(errs, s.finishSettings(ctx, found.Sale))
	}
	ref := stock.Ref{Sale: found.Sale, Partition: found.Partition}
	if found.Orders > 0 && found.OldestOrderMS >= s.o.SweepAge.Milliseconds() && s.swept.due(ref) {
		errs = append(errs, s.sweepOrders(ctx, ref))
	}
	if err := errors.Join(errs...); err != nil {
		s.o.Logger.WarnContext(ctx, "a sale's outbox waits", "sale", found.Sale, "partition", found.Partition, "error", err)
	}
}

// sweepOrders enqueues all orders of a partition that wait. While a master of the queue is away, it
// enqueues those that go to the others.
func (s *Store) sweepOrders(ctx context.Context, ref stock.Ref) error {
	began := time.Now()
	var failed error // the first that an enqueueing met
	defer func() {
		rest := sweepAgain
		if failed == nil { // a failed one took long for the master that is away
			rest = max(rest, sweepRest*time.Since(began))
		}
		s.swept.rest(ref, rest)
	}()
	for after := (stock.Order{}); ; {
		page, err := s.live.WaitingOrders(ctx, ref, after, sweepPage)
		if err != nil || len(page) == 0 {
			return cmp.Or(err, failed)
		}
		failed = cmp.Or(failed, s.enqueue(ctx, page))
		if len(page) < sweepPage {
			return failed
		}
		after = page[len(page)-1]
	}
}

const (
	// ordersTime bounds one transaction and its acknowledgement.
	ordersTime = 10 * time.Second
	// ordersPerWrite is how many orders one transaction takes at most.
	ordersPerWrite = 100
)

// newOrderWriter makes the writer of orders into SQL. Orders that arrive while one transaction is
// under way share the next.
func newOrderWriter(write func(context.Context, []record.Order) error) *batch.Group[record.Order, struct{}] {
	return batch.New(batch.Options{Most: ordersPerWrite, Timeout: ordersTime}, func(ctx context.Context, orders []record.Order) (struct{}, error) {
		return struct{}{}, write(ctx, orders)
	})
}

// writeOrders writes rows, and then clears them from the outbox.
func (s *Store) writeOrders(ctx context.Context, orders []record.Order) error {
	if err := s.rec.PutOrders(ctx, orders); err != nil {
		return fmt.Errorf("write orders: %w", err)
	}
	bySale := map[string][]record.Order{}
	for _, o := range orders {
		bySale[o.Sale] = append(bySale[o.Sale], o)
	}
	var errs []error
	for sale, part := range bySale {
		errs = append(errs, s.acknowledge(ctx, sale, part))
	}
	return errors.Join(errs...)
}

// acknowledge notes in a live sale that orders are on record. It restores an order that the sale
// does not have: the order was written while another process was reading the sale's orders from
// the record.
func (s *Store) acknowledge(ctx context.Context, sale string, orders []record.Order) error {
	known, err := s.live.OrdersRecorded(ctx, sale, ordersOf(orders)...)
	if err == nil && known < len(orders) {
		_, err = s.live.RestoreOrders(ctx, sale, ordersOf(orders))
	}
	if errors.Is(err, stock.ErrAbsent) {
		return nil // the sale is read from SQL when it is needed
	}
	return err
}
