package series

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"fanfare/api"
)

// mustText is how counts are written that a process gained since it had counted before.
func mustText(t *testing.T, before Counts, count func(Counts)) string {
	t.Helper()
	now := Counts{}
	for name, n := range before {
		now[name] = n
	}
	count(now)
	text, err := json.Marshal(now.since(before))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// N18: the figures of a minute are the sums over the processes. Percentiles are estimated from the buckets of
// all of them, as if the latencies of a bucket were evenly spread.
func TestN18_FiguresOfAMinute(t *testing.T) {
	t.Parallel()
	sum, at := Counts{}, api.At(time.Unix(1_700_000_040, 0))
	sum.addText(mustText(t, nil, func(c Counts) {
		c.Accepted(4)
		c.Delivered("apns", 50)
		c.Latency(0, .001, 40)
		c.Latency(.001, .0025, 10)
	}))
	sum.addText(mustText(t, Counts{accepted: 100, latency + "1 2.5": 7, delivered + "apns": 3}, func(c Counts) {
		c.Accepted(2)
		c.Retried(9)
		c.Opened(8)
		c.Alarms("storm", 3)
		c.Delivered("fcm", 1)
		c.Failed("fcm", 2)
		c.Failed("webpush", 4)
		c.Superseded("apns", 7)
		c.Superseded("fcm", 3)
		c.Latency(.001, .0025, 40)
		c.Latency(.005, .01, 10)
	}))
	sum.addText(`{"depth":5,"oldest_age_ms":1200}`)
	sum.addText("QV7Z2M6J.3") // the reader
	want := api.StatsMinute{
		At: at, Accepted: 6, Delivered: 51, Failed: 6, Superseded: 10, Retried: 9, Opened: 8, Depth: new(int64(5)), OldestAgeMS: new(int64(1200)), P50MS: new(1.3), P99MS: new(9.5),
		Alarms:    map[string]int64{"storm": 3},
		Platforms: map[string]api.PlatformMinute{"apns": {Delivered: 50, Superseded: 7}, "fcm": {Delivered: 1, Failed: 2, Superseded: 3}, "webpush": {Failed: 4}},
	}
	if got := sum.minute(at); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, p50 %v, p99 %v", got, *got.P50MS, *got.P99MS)
	}
}

// N18: no estimate is longer than the longest latency that a process measured.
func TestN18_NoEstimateIsLongerThanTheLongest(t *testing.T) {
	t.Parallel()
	sum := Counts{}
	for _, most := range []int64{70_000, 110_000, 90_000} { // of three processes
		c := Counts{longest: most}
		c.Latency(60, 300, 10)
		sum.addText(mustText(t, nil, func(now Counts) {
			for name, n := range c {
				now[name] = n
			}
		}))
	}
	if m := sum.minute(api.Time{}); *m.P50MS != 85_000 || *m.P99MS != 109_500 {
		t.Errorf("p50 %v, p99 %v", *m.P50MS, *m.P99MS)
	}
	beyond := Counts{longest: 7_200_000}
	beyond.Latency(3600, math.Inf(1), 9)
	if m := beyond.minute(api.Time{}); *m.P50MS != 5_400_000 {
		t.Errorf("p50 %v", *m.P50MS)
	}
}

// Of latencies beyond all buckets only the largest bound is known.
func TestN18_LatenciesBeyondTheBuckets(t *testing.T) {
	t.Parallel()
	c := Counts{}
	c.Latency(300, 3600, 1)
	c.Latency(3600, math.Inf(1), 9)
	if m := c.minute(api.Time{}); *m.P50MS != 3_600_000 || *m.P99MS != 3_600_000 {
		t.Errorf("p50 %v, p99 %v", *m.P50MS, *m.P99MS)
	}
}
