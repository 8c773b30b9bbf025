package stock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Facts are how facts about sales are told (store/facts). The zero value tells none.
type Facts struct {
	// Tells reports whether facts of a type are told.
	Tells func(typ string) bool
	// Left is called with an outbox in which there are facts. It takes no time.
	Left func(FactOutbox)
	// Move moves the facts of an outbox to where they are read.
	Move func(context.Context, FactOutbox) error
}

// FactOutbox is where the steps of a partition leave facts.
type FactOutbox struct {
	Name string // differs from that of any other partition
	Key  string
}

func (f Facts) withDefaults() Facts {
	if f.Tells == nil {
		f.Tells = func(string) bool { return false }
	}
	if f.Left == nil {
		f.Left = func(FactOutbox) {}
	}
	if f.Move == nil {
		f.Move = func(context.Context, FactOutbox) error { return errors.New("nothing moves facts") }
	}
	return f
}

func (p *partition) factOutbox() FactOutbox {
	return FactOutbox{"sale:" + p.sale + ":" + strconv.Itoa(p.index), p.facts}
}

// The kinds of facts, as scripts know them (tell_of in lua/part_told.lua).
const (
	tellsExpired = "e" // holds that expire
	tellsLow     = "b" // skus that become low
	tellsOrders  = "o" // orders; only lua/order_restore.lua and lua/orders_recorded.lua tell them, and get their data
	tellsAll     = tellsExpired + tellsLow + tellsOrders
)

// told gives those of some kinds of facts that are told now; "": none is.
func (b *base) told(kinds string) (what string) {
	for _, k := range [...]struct{ kind, typ string }{
		{tellsExpired, api.FactHoldExpired}, {tellsLow, api.FactStockBelow}, {tellsOrders, api.FactOrderCreated},
	} {
		if strings.Contains(kinds, k.kind) && b.o.Facts.Tells(k.typ) {
			what += k.kind
		}
	}
	return what
}

// left notes how many facts a step of a partition has left.
func (b *base) left(p *partition, facts int64) {
	if facts > 0 {
		b.o.Facts.Left(p.factOutbox())
	}
}

// mayHaveLeft notes that a step of a partition, which was to tell some kinds of facts, may have left some.
func (b *base) mayHaveLeft(p *partition, what string) {
	if what != "" {
		b.o.Facts.Left(p.factOutbox())
	}
}

// orderData is what is told of an order.
func orderData(o Order) []byte {
	data, _ := json.Marshal(struct { // texts and numbers always marshal
		Sale string `json:"sale"`
		api.Order
	}{o.Sale, api.Order{Reservation: o.Reservation, User: o.User, Lines: o.Lines, CreatedAt: api.AtMillis(o.CreatedAt)}})
	return data
}

// recordTold is OrdersRecorded while orders are told.
func (x *outbox) recordTold(ctx context.Context, byPartition map[*partition][]Order) (known int, err error) {
	var cmds []redis.Cmder
	var of []*partition
	for p, orders := range byPartition {
		for some := range slices.Chunk(orders, ordersAtOnce) {
			args := make([]any, 0, recordedArgs*len(some))
			for _, o := range some {
				args = append(args, o.Reservation, o.CreatedAt, orderData(o))
			}
			cmds = append(cmds, x.scripts.recorded.Cmd(ctx, p.telling([]string{p.settings, p.orders, p.reservations}), args...))
			of = append(of, p)
		}
	}
	if err := x.db.Share(ctx, redisdb.Write, cmds...); err != nil {
		return 0, err // the commands may still be in flight; a sweep finds what they leave
	}
	for i, cmd := range cmds {
		answer, e := redisdb.ListOf(cmd)
		err = cmp.Or(err, e)
		known += int(redisdb.NumberAt(answer, 0))
		x.left(of[i], redisdb.NumberAt(answer, 1))
	}
	return known, err
}

// recordedArgs is how many arguments lua/orders_recorded.lua has for each order.
const recordedArgs = 3
