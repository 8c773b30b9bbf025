package stock

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// saleRegistry is the hash of sales that have live keys.
const saleRegistry = "ff:{sales}:live"

// moveLock is the name of the locks, one per sale, that give the right to move
// units between partitions.
const moveLock = "sale"

const (
	// keptAfterEnd is how long after a sale's end its keys are removed. The keys have no
	// lifetime of their own.
	keptAfterEnd = 8 * 24 * time.Hour
	// keptAfterOpening is how long keys stay that were read back because somebody asked
	// for the sale later.
	keptAfterOpening = time.Hour
	// requestLifetime is how long the answer to one request without an
	// idempotency key is remembered: longer than any repeat by the client.
	requestLifetime = time.Minute
)

// partition is one partition of a sale and its keys, which share the tag
// {sale:<sale>:<index>} and so one slot. Sales are identifiers: none can hold a
// brace. The ledger's key is named book, as in the sales that are stored already.
type partition struct {
	sale   string
	index  int
	of     int // how many partitions the sale has, as far as this process knows; 0: it does not
	prefix string

	settings, stock, reservations, due string // reservations is the ledger
	orders, totals, out, seen          string
	restocks                           string // of the first partition
	facts                              string // the outbox of facts
	never                              string // does not exist, see telling

	// Of a partition that this process works on:
	reserves, ends *crowd
	turn           chan struct{} // holds a value while one of the process's callers has the right to move units
	snapshots      *snapshotGroup
	snapshotsOnce  sync.Once // makes snapshots
}

func newPartition(sale string, index int) *partition {
	p := "ff:{sale:" + sale + ":" + strconv.Itoa(index) + "}:"
	return &partition{
		sale: sale, index: index, prefix: p,
		settings: p + "sale", stock: p + "stock", reservations: p + "book", due: p + "due",
		orders: p + "orders", totals: p + "totals", out: p + "out", seen: p + "seen",
		restocks: p + "restocks", facts: p + "facts:out", never: p + "never",
	}
}

// ref names the partition outside this package.
func (p *partition) ref() Ref { return Ref{p.sale, p.index} }

// core are the keys that lua/part_sale.lua works on, followed by others.
func (p *partition) core(more ...string) []string {
	return append([]string{p.settings, p.stock, p.reservations, p.due}, more...)
}

// telling are the keys of a script that may leave facts: the others, and one that never exists. While a slot of a Cluster moves, a
// script with two keys of which one is missing is refused before it runs. Without the key that never exists the script could stop
// midway, because the outbox of facts, which it makes, is not among its keys.
func (p *partition) telling(keys []string) []string { return append(keys, p.never) }

// all are the keys of the partition that have no lifetime, the settings first and the outbox of facts last.
func (p *partition) all() []string {
	return p.core(p.orders, p.out, p.seen, p.totals, p.restocks, p.facts)
}

// once is the key of a request's idempotency record, by the hash of the request's name.
func (p *partition) once(name string) string { return p.prefix + "once:" + name }

// ChangesChannel is where each new version of a sale is published.
func ChangesChannel(sale string) string { return "ff:{sale:" + sale + ":0}:changes" }

// ChangesPattern matches the ChangesChannel of every sale.
const ChangesPattern = "ff:{sale:*:0}:changes"

// SaleOfChannel reads the sale from a channel's name.
func SaleOfChannel(channel string) string {
	return strings.TrimSuffix(strings.TrimPrefix(channel, "ff:{sale:"), ":0}:changes")
}

// waitKey is the key of the mark that a connection writes before WAIT, in the slot of key.
func waitKey(key string) string {
	tag, _, _ := strings.Cut(key, "}")
	return tag + "}:wait"
}

// IsRecord reports whether a key of Redis is the idempotency record of a call for a sale.
func IsRecord(key string) bool {
	return strings.HasPrefix(key, "ff:{sale:") && strings.Contains(key, "}:once:")
}
