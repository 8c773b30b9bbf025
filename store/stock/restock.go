package stock

import (
	"context"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// AddStock changes the total of a sku. Its request has been validated.
type AddStock struct {
	Sale    string
	Request *api.StockRequest
	Match   Match
	Once    api.Idempotency
	// Call is the same as ReserveStock.Call.
	Call string
}

// Restock adds to the total of a sku, or takes from it. The answer is the item after the change,
// and the sale. A repeat with the same idempotency key gets the same answer. The change and its
// key wait for SQL until SettingsRecorded. Refusals, with the present sale in the Change, are
// version_mismatch, bounds, and validation_failed for an unknown sku or a total that is too large.
func (e *editor) Restock(ctx context.Context, a AddStock) (api.SaleItem, Change, error) {
	var none api.SaleItem
	sale, r := a.Sale, a.Request
	if a.Call == "" {
		a.Call = newRequest()
	}
	parts, err := e.partitionsOf(ctx, sale)
	if err != nil {
		return none, Change{}, err
	}
	others, err := e.others(ctx, parts, r.SKU)
	if err != nil {
		return none, Change{}, err
	}
	answer, err := e.change(ctx, sale, func() (changeAnswer, error) {
		return e.tryRestock(ctx, parts[0], a, others)
	})
	if err != nil {
		return none, Change{}, err
	}
	status := answer.status
	if status != answerDone && status != answerReplayed {
		return e.refusedRestock(ctx, sale, answer)
	}
	c := Change{Changed: status == answerDone && *r.Delta != 0, Replayed: status == answerReplayed, Version: answer.version}
	item := api.SaleItem{SKU: r.SKU, Total: answer.total, Held: answer.held, Sold: answer.sold}
	item.Available = max(item.Total-item.Held-item.Sold, 0)
	c, err = e.changed(ctx, parts[0], e.scripts.restock, answer.state, c)
	for _, i := range c.Record.Items {
		if i.SKU == r.SKU {
			item.LowAt = i.LowAt
		}
	}
	return item, c, err
}

// others adds up a sku's numbers in all partitions but the first.
func (e *editor) others(ctx context.Context, parts []*partition, sku string) (n numbers, err error) {
	if len(parts) == 1 {
		return n, nil
	}
	found, err := e.partitions.readOpen(ctx, parts)
	if err != nil {
		return n, err
	}
	for _, k := range found[1:] {
		n.add(k.stock[sku])
	}
	return n, nil
}

func (e *editor) tryRestock(ctx context.Context, first *partition, a AddStock, others numbers) (changeAnswer, error) {
	name, lifetime := a.Call, requestLifetime
	if a.Once.Key != "" {
		name, lifetime = a.Once.Name(), api.IdempotencyTTL
	}
	r, what := a.Request, e.told(tellsExpired+tellsLow)
	cmd := e.scripts.restock.Cmd(ctx, first.telling(first.core(first.totals, first.once(name), first.out, first.restocks)), e.o.RunID,
		lifetime.Milliseconds(), redisdb.MatchText(a.Match), hex.EncodeToString(a.Once.Body[:]), a.Call,
		sweptAtOnce, ChangesChannel(first.sale), r.SKU, *r.Delta, int64(api.MaxStock), others.held, others.sold, what)
	defer e.mayHaveLeft(first, what)
	if err := e.write(ctx, cmd); err != nil {
		return changeAnswer{}, err
	}
	return e.readRestock(cmd)
}

// readRestock reads the answer in the order of the script's RETURNS.
func (e *editor) readRestock(cmd *redis.Cmd) (changeAnswer, error) {
	v, err := redisdb.ListOf(cmd)
	switch status := redisdb.NumberAt(v, 0); {
	case err == nil && (status == answerDone || status == answerReplayed):
		return changeAnswer{
			status: status, version: integer(v, 1), total: integer(v, 2), held: integer(v, 3), sold: integer(v, 4),
			state: redisdb.ListAt(v, 5),
		}, nil
	case status == changeNeeds:
		return readNeeds(v), nil
	default:
		return changeAnswer{status: status}, err
	}
}

// refusedRestock turns a refusal into its error, and adds the present sale.
func (e *editor) refusedRestock(ctx context.Context, sale string, answer changeAnswer) (api.SaleItem, Change, error) {
	var none api.SaleItem
	if answer.status == answerReused {
		return none, Change{}, api.IdempotencyReused()
	}
	present, err := e.partitions.Sale(ctx, sale)
	if err != nil {
		return none, Change{}, err
	}
	c := Change{Sale: present}
	switch answer.status {
	case changeMismatch:
		return none, c, errMismatch(present)
	case restockUnknown:
		return none, c, api.Invalid("sku", "unknown", "is not a sku of this sale")
	case changeBounds:
		return none, c, errBounds()
	case restockTooLarge:
		return none, c, api.Invalid("delta", "max", "would take the total above %d", int64(api.MaxStock))
	}
	return none, c, unexpected(e.scripts.restock, answer)
}
