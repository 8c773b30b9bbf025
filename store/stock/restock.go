package stock

import (
	"context"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Restock adds to the total of a sku, or takes away; the answer is the item as it
// is then, beside the sale. Said again with the same idempotency key it answers
// the same. Refusals, with the present sale in the Change: version_mismatch,
// bounds, and validation_failed for an unknown sku or a total that is too large.
func (l *Live) Restock(ctx context.Context, sale string, r *api.StockRequest, m Match, once api.Idempotency) (api.SaleItem, Change, error) {
	var none api.SaleItem
	places, err := l.placesOf(ctx, sale)
	if err != nil {
		return none, Change{}, err
	}
	others, err := l.others(ctx, places, r.SKU)
	if err != nil {
		return none, Change{}, err
	}
	request := newRequest()
	answer, err := l.change(ctx, sale, func() ([]any, error) {
		return l.tryRestock(ctx, places[0], r, m, once, others, request)
	})
	if err != nil {
		return none, Change{}, err
	}
	status := redisdb.NumberAt(answer, 0)
	if status != answerDone && status != answerReplayed {
		return l.refusedRestock(ctx, sale, answer)
	}
	item := api.SaleItem{SKU: r.SKU, Total: integer(answer, 2), Held: integer(answer, 3), Sold: integer(answer, 4)}
	item.Available = max(item.Total-item.Held-item.Sold, 0)
	c, err := l.changed(ctx, sale, len(places), Change{Changed: status == answerDone && *r.Delta != 0, Replayed: status == answerReplayed})
	return item, c, err
}

// others adds up a sku in all partitions but the first.
func (l *Live) others(ctx context.Context, places []*place, sku string) (n numbers, err error) {
	if len(places) == 1 {
		return n, nil
	}
	found, err := l.looksOpen(ctx, places)
	if err != nil {
		return n, err
	}
	for _, k := range found[1:] {
		n.add(k.stock[sku])
	}
	return n, nil
}

func (l *Live) tryRestock(ctx context.Context, lead *place, r *api.StockRequest, m Match, once api.Idempotency, others numbers, request string) ([]any, error) {
	name, lifetime := request, requestLifetime
	if once.Key != "" {
		name, lifetime = once.Name(), api.IdempotencyTTL
	}
	cmd := l.scripts.restock.Cmd(ctx, lead.core(lead.totals, lead.once(name)), l.o.Run, lifetime.Milliseconds(), m.text(), once.Body[:], request,
		sweptAtOnce, ChangesChannel(lead.sale), r.SKU, *r.Delta, int64(api.MaxStock), others.held, others.sold)
	if err := l.write(ctx, stepRestock, cmd); err != nil {
		return nil, err
	}
	return reply(l.scripts.restock, cmd)
}

// refusedRestock names a refusal and adds the present sale.
func (l *Live) refusedRestock(ctx context.Context, sale string, answer []any) (api.SaleItem, Change, error) {
	var none api.SaleItem
	if redisdb.NumberAt(answer, 0) == answerReused {
		return none, Change{}, api.IdempotencyReused()
	}
	c, err := l.present(ctx, sale, Change{})
	if err != nil {
		return none, c, err
	}
	switch redisdb.NumberAt(answer, 0) {
	case changeMismatch:
		return none, c, errMismatch(c)
	case restockUnknown:
		return none, c, api.Invalid("sku", "unknown", "is not a sku of this sale")
	case changeBounds:
		return none, c, errBounds()
	case restockTooLarge:
		return none, c, api.Invalid("delta", "max", "would take the total above %d", int64(api.MaxStock))
	}
	return none, c, unexpected(l.scripts.restock, answer)
}
