package stock

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"fanfare/api"
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
	return p.index == 0 && a.lows && sw.isPartitioned(p.sale) && sw.o.Facts.Tells(api.FactStockBelow)
}

// lowTries is how often a look reads the partitions, if units come back meanwhile. The next sweep looks again.
const lowTries = 3

// tellLow looks which skus of a sale with several partitions are low, and tells of those that were not before. It takes proof: two
// reads of all partitions between which no units came back. What was held and sold then has only risen, so between the reads not
// more was available than the first one shows, and not less than the second.
func (m *mover) tellLow(ctx context.Context, parts []*partition) error {
	for range lowTries {
		before, err := m.readStates(ctx, parts...)
		if err != nil || m.allUsable(parts, before) != nil {
			return err
		}
		if next, _ := lowChange(before, before); next == before[0].low {
			return nil
		}
		now, err := m.readStates(ctx, parts...)
		if err != nil || m.allUsable(parts, now) != nil {
			return err
		}
		if !onlyTaken(before, now) {
			continue
		}
		next, facts := lowChange(before, now)
		if next == before[0].low {
			return nil
		}
		args := []any{before[0].version(), before[0].low, next}
		for _, f := range facts {
			args = append(args, f)
		}
		done, err := redisdb.Value(ctx, m.db, redisdb.Write, m.scripts.low.Cmd(ctx, parts[0].telling([]string{parts[0].settings}), args...))
		if err != nil || done != int64(answerDone) {
			return err
		}
		m.left(parts[0], int64(len(facts)))
		return nil
	}
	return nil
}

// onlyTaken reports whether between two reads of the same settings no units came back.
func onlyTaken(before, now []*partitionState) bool {
	for i := range before {
		if before[i].returns != now[i].returns {
			return false
		}
	}
	return before[0].version() == now[0].version()
}

// lowChange is what is to be noted of skus that are low, and what is told of those that were not, after two reads between which
// units were only taken. The first partition, as it was read first, has what was noted before: a sku that may be either stays.
func lowChange(before, now []*partitionState) (next string, facts [][]byte) {
	change, skus, _ := strings.Cut(before[0].low, " ")
	known := strings.Split(skus, ",")
	var low []string
	for i, item := range before[0].settings.Items {
		if item.LowAt == nil {
			continue
		}
		most, least := unsold(before, item), unsold(now, now[0].settings.Items[i])
		was := slices.Contains(known, item.SKU)
		switch {
		case most <= *item.LowAt && !was:
			facts = append(facts, lowData(before[0].settings.ID, item, max(most, 0)))
			low = append(low, item.SKU)
		case least <= *item.LowAt && was:
			low = append(low, item.SKU)
		}
	}
	slices.Sort(low)
	if next = strings.Join(low, ","); next == skus {
		return before[0].low, nil
	}
	n, _ := strconv.ParseInt(change, 10, 64)
	return strconv.FormatInt(n+1, 10) + " " + next, facts
}

// unsold is how many units of a sku are neither held nor sold in any partition. Units on their way between partitions count.
func unsold(found []*partitionState, item Item) int64 {
	n := item.Total
	for _, k := range found {
		n -= k.stock[item.SKU].held + k.stock[item.SKU].sold
	}
	return n
}

// lowData is what is told of a sku.
func lowData(sale string, item Item, available int64) []byte {
	data, _ := json.Marshal(struct { // texts and numbers always marshal
		Sale      string `json:"sale"`
		SKU       string `json:"sku"`
		Available int64  `json:"available"`
		LowAt     int64  `json:"low_at"`
	}{sale, item.SKU, available, *item.LowAt})
	return data
}
