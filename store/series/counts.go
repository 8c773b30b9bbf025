package series

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fanfare/api"
)

// Counts are numbers by name, as a process counts them and as they are written. Names that this version does
// not know are ignored.
type Counts map[string]int64

// The names in Counts. Those with a blank begin with one of the constants and end with what is counted.
const (
	accepted  = "accepted"
	retried   = "retried"
	opened    = "opened"
	delivered = "delivered "
	failed    = "failed "
	alarms    = "alarm "
	latency   = "latency "
	depth     = "depth"
	oldestAge = "oldest_age_ms"
	// superseded counts the notifications that were not sent because a newer live event began.
	superseded = "superseded "
	// longest is the longest latency, in ms. Of several it is the largest, and not their sum.
	longest = "longest_ms"
)

// Accepted adds events that were accepted.
func (c Counts) Accepted(n int64) { c[accepted] += n }

// Retried adds requests to push services after which the notification is sent again.
func (c Counts) Retried(n int64) { c[retried] += n }

// Opened adds users who opened a notification.
func (c Counts) Opened(n int64) { c[opened] += n }

// Delivered adds notifications that were delivered through a platform.
func (c Counts) Delivered(platform string, n int64) { c[delivered+platform] += n }

// Failed adds notifications of a platform that were given up.
func (c Counts) Failed(platform string, n int64) { c[failed+platform] += n }

// Superseded adds notifications of a platform that a newer live event of their object went before.
func (c Counts) Superseded(platform string, n int64) { c[superseded+platform] += n }

// Alarms adds alarms of a kind.
func (c Counts) Alarms(kind string, n int64) { c[alarms+kind] += n }

// Latency adds latencies above from and up to to, in seconds. to may be infinite.
func (c Counts) Latency(from, to float64, n int64) {
	c[fmt.Sprintf("%s%g %g", latency, 1000*from, 1000*to)] += n
}

// since is what was counted after before. Numbers that did not change are left out.
func (c Counts) since(before Counts) Counts {
	gained := Counts{}
	for name, n := range c {
		if n != before[name] {
			gained[name] = n - before[name]
		}
	}
	return gained
}

// addText adds counts that were written. A value that this version cannot read, such as that of the field
// reader, adds nothing.
func (c Counts) addText(text string) {
	var more Counts
	if json.Unmarshal([]byte(text), &more) != nil {
		return
	}
	for name, n := range more {
		if name == longest {
			n = max(0, n-c[name])
		}
		c[name] += n
	}
}

// minute is how the counts of a minute are shown.
func (c Counts) minute(at api.Time) api.StatsMinute {
	m := api.StatsMinute{
		At: at, Accepted: c[accepted], Retried: c[retried], Opened: c[opened], Alarms: map[string]int64{}, Platforms: map[string]api.PlatformMinute{},
		P50MS: c.quantile(.5), P99MS: c.quantile(.99),
	}
	for name, n := range c {
		if kind, is := strings.CutPrefix(name, alarms); is {
			m.Alarms[kind] = n
		}
		if platform, is := strings.CutPrefix(name, delivered); is {
			p := m.Platforms[platform]
			p.Delivered = n
			m.Platforms[platform], m.Delivered = p, m.Delivered+n
		}
		if platform, is := strings.CutPrefix(name, failed); is {
			p := m.Platforms[platform]
			p.Failed = n
			m.Platforms[platform], m.Failed = p, m.Failed+n
		}
		if platform, is := strings.CutPrefix(name, superseded); is {
			p := m.Platforms[platform]
			p.Superseded = n
			m.Platforms[platform], m.Superseded = p, m.Superseded+n
		}
	}
	if n, known := c[depth]; known {
		m.Depth, m.OldestAgeMS = new(n), new(c[oldestAge])
	}
	return m
}

// bucket counts latencies above from and up to to, in ms.
type bucket struct {
	from, to float64
	n        int64
}

// buckets are the counted latencies, the shortest first, and their number.
func (c Counts) buckets() (all []bucket, sum int64) {
	for name, n := range c {
		bounds, is := strings.CutPrefix(name, latency)
		from, to, _ := strings.Cut(bounds, " ")
		b := bucket{n: n}
		var wrongFrom, wrongTo error
		b.from, wrongFrom = strconv.ParseFloat(from, 64)
		b.to, wrongTo = strconv.ParseFloat(to, 64)
		if is && wrongFrom == nil && wrongTo == nil && n > 0 {
			all, sum = append(all, b), sum+n
		}
	}
	slices.SortFunc(all, func(a, b bucket) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return all, sum
}

// quantile estimates the latency, in ms, that a share of all latencies does not exceed. It takes those of a
// bucket as evenly spread, up to the longest that was measured. nil: there are none.
func (c Counts) quantile(share float64) *float64 {
	all, sum := c.buckets()
	if sum == 0 {
		return nil
	}
	rank, below := share*float64(sum), 0.0
	for _, b := range all {
		if below+float64(b.n) < rank {
			below += float64(b.n)
			continue
		}
		if most := float64(c[longest]); most > b.from {
			b.to = min(b.to, most)
		}
		if math.IsInf(b.to, 1) {
			return &b.from
		}
		return new(math.Round(100*(b.from+(b.to-b.from)*(rank-below)/float64(b.n))) / 100)
	}
	return &all[len(all)-1].from // never: the last bucket reaches every rank
}
