package sales

import (
	"context"
	"encoding/json"
	"errors"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/record"
)

// JobOrder is the type of the job, in the queue "jobs", that writes an order
// into SQL.
const JobOrder = "stock.order"

// Jobs are the handlers to run on the queue "jobs", by type. That queue should
// have no MaxAge: an order waits as long as SQL is away.
func (s *Store) Jobs() map[string]func(context.Context, *queue.Claimed) queue.Result {
	return map[string]func(context.Context, *queue.Claimed) queue.Result{JobOrder: s.writeOrder}
}

// writeOrder writes the row of an order. Errors never use up attempts, because the order has to be
// written in any case.
func (s *Store) writeOrder(ctx context.Context, c *queue.Claimed) queue.Result {
	var o record.Order
	if err := json.Unmarshal(c.Payload, &o); err != nil || o.Reservation == "" {
		return queue.Result{Outcome: queue.Dead, Reason: "bad_payload", Err: "an order that cannot be read"}
	}
	switch _, err := s.orders.Do(ctx, o); {
	case err == nil:
		return queue.Result{Outcome: queue.Done}
	case errors.Is(err, context.Canceled):
		return queue.Result{Outcome: queue.Release}
	default:
		return queue.Result{Outcome: queue.Defer, Reason: string(api.CodeOf(err)), Err: err.Error()}
	}
}
