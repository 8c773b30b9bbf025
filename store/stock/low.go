package stock

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"fanfare/store/redisdb"
)

// A sku is low while not more of its units are available than its LowAt. The step that makes a sku low tells it, if the sale has
// one partition (lua/part_told.lua). No step of a sale with several partitions knows what is available in all, so a sweeper looks
// (tellLow), and the first partition has the field low for what was told: "<number of the change> <sku>,...".

// noLows is the text of the low_at of skus without any.
const noLows = "0"

// lowsText writes the LowAt of items, in an order that does not depend on theirs.
func lowsText(items []Item) string {
	var lows []string
	for _, i := range items {
		if i.LowAt != nil {
			lows = append(lows, i.SKU+"="+strconv.FormatInt(*i.LowAt, 10))
		}
	}
	if len(lows) == 0 {
		return noLows
	}
	slices.Sort(lows)
	return strings.Join(lows, ",")
}

// parseLows reads what lowsText wrote.
func parseLows(text string) map[string]*int64 {
	lows := map[string]*int64{}
	for part := range strings.SplitSeq(text, ",") {
		sku, n, _ := strings.Cut(part, "=")
		if at, err := strconv.ParseInt(n, 10, 64); err == nil {
			lows[sku] = &at
		}
	}
	return lows
}

// looksForLow reports whether the sweep of a partition is followed by a look for skus that are low.
func (sw *sweeper) looksForLow(p *partition, a sweepAnswer) bool {
	return p.index == 0 && a.lows && strings.Contains(a.told, tellsLow) && sw.isPartitioned(p.sale)
}

// lowTries is how often a look reads all partitions twice, if units come back meanwhile.
const lowTries = 3

// tellLow looks which skus of a sale with several partitions are low, and tells of those that were not before. Two reads of all
// partitions between which no units came back are proof: what was held and sold has only risen, so between the reads not more was
// available than the first one shows, and not less than the second. If units come back all the time, it is enough that all reads
// of the look agree. done: the sale needs no other look unless something happens in it.
func (m *mover) tellLow(ctx context.Context, parts []*partition) (done bool, err error) {
	var reads [][]*partitionState
	for range 2 * lowTries {
		found, err := m.readStates(ctx, parts...)
		if err != nil || m.allUsable(parts, found) != nil {
			return false, err
		}
		reads = append(reads, found)
		n := len(reads)
		switch {
		case found[0].version() != reads[0][0].version():
			return false, nil
		case n%2 == 0 && onlyTaken(reads[n-2], found):
			return m.noteLow(ctx, parts[0], reads[n-2:])
		case n%2 == 1 && !isNews(found):
			return true, nil
		}
	}
	return m.noteLow(ctx, parts[0], reads)
}

// tellLowClosed does the same in a sale that a load is about to open. It is closed, so one read tells how much is available. A sale
// that Redis had lost was told to be low before: its skus are only noted.
func (m *mover) tellLowClosed(ctx context.Context, parts []*partition) error {
	if len(parts) == 1 || m.told(tellsLow) == "" {
		return nil
	}
	found, err := m.readStates(ctx, parts...)
	if err != nil {
		return err
	}
	_, err = m.noteLow(ctx, parts[0], [][]*partitionState{found})
	return err
}

// lowArgs is how many arguments lua/stock_low.lua has for each sku that is told.
const lowArgs = 3

// noteLow notes in the first partition what some reads say, and leaves facts. done: nothing had changed since the first of them.
func (m *mover) noteLow(ctx context.Context, first *partition, reads [][]*partitionState) (done bool, err error) {
	before := reads[0][0]
	next, told := lowChange(reads)
	if next == before.low {
		return true, nil
	}
	cmd := m.scripts.low.Cmd(ctx, first.telling([]string{first.settings}), append([]any{before.version(), before.low, next}, told...)...)
	status, err := redisdb.Value(ctx, m.db, redisdb.Write, cmd)
	if err != nil || status != int64(answerDone) {
		return false, err
	}
	m.left(first, int64(len(told)/lowArgs))
	return true, nil
}

// isNews reports whether a read says something else than was noted.
func isNews(found []*partitionState) bool {
	next, _ := lowChange([][]*partitionState{found})
	return next != found[0].low
}

// onlyTaken reports whether no units came back between two reads.
func onlyTaken(before, now []*partitionState) bool {
	for i := range before {
		if before[i].returns != now[i].returns {
			return false
		}
	}
	return true
}

// lowChange is what is to be noted of skus that are low, and the arguments of lua/stock_low.lua for those that were not before, after
// reads that agree on the settings. The first partition, as it was read first, has what was noted before. A sku of which the reads do
// not agree stays.
func lowChange(reads [][]*partitionState) (next string, told []any) {
	before := reads[0][0]
	change, skus, _ := strings.Cut(before.low, " ")
	known := strings.Split(skus, ",")
	var low []string
	for _, item := range before.settings.Items {
		if item.LowAt == nil {
			continue
		}
		most, least := int64(math.MinInt64), int64(math.MaxInt64)
		for _, found := range reads {
			n := unsold(found, item)
			most, least = max(most, n), min(least, n)
		}
		was := slices.Contains(known, item.SKU)
		switch {
		case most <= *item.LowAt && !was:
			told = append(told, item.SKU, max(most, 0), *item.LowAt)
			low = append(low, item.SKU)
		case least <= *item.LowAt && was:
			low = append(low, item.SKU)
		}
	}
	slices.Sort(low)
	if next = strings.Join(low, ","); next == skus {
		return before.low, nil
	}
	n, _ := strconv.ParseInt(change, 10, 64)
	return strconv.FormatInt(n+1, 10) + " " + next, told
}

// unsold is how many units of a sku are neither held nor sold in any partition. Units on their way between partitions count.
func unsold(found []*partitionState, item Item) int64 {
	n := item.Total
	for _, k := range found {
		n -= k.stock[item.SKU].held + k.stock[item.SKU].sold
	}
	return n
}
