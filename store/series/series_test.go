package series_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/series"
	"fanfare/store/storetest"
)

// No goroutine that a test started runs after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// short is how long a minute of these tests is.
	short = time.Second
	// soon is long enough for a busy machine.
	soon = time.Minute
)

// process counts accepted events, and writes them.
type process struct {
	t        *testing.T
	store    *series.Store
	accepted atomic.Int64
	totals   atomic.Int64 // how often it read its counters
	depths   atomic.Int64 // how often it read the depths
	stop     func()
}

// mustRun starts a process with minutes of a length.
func mustRun(t *testing.T, db *redisdb.DB, minute time.Duration) *process {
	t.Helper()
	p := &process{t: t}
	p.store = series.New(db, series.Options{
		Minute: minute,
		Totals: func() series.Counts {
			c := series.Counts{}
			c.Accepted(p.accepted.Load())
			p.totals.Add(1)
			return c
		},
		Depths: func(context.Context) (int64, int64, error) {
			p.depths.Add(1)
			return 7, 1500, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.store.Run(ctx) }()
	stopped := false
	p.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			storetest.Must(t, <-ended)
		}
	}
	t.Cleanup(p.stop)
	return p
}

// minutes are those of the last quarter of an hour, by the length that the tests use.
func minutes(t *testing.T, s *series.Store) []api.StatsMinute {
	t.Helper()
	all, err := s.Minutes(t.Context(), 900)
	storetest.Must(t, err)
	return all
}

// accepted is the sum over all minutes.
func accepted(t *testing.T, s *series.Store) (sum int64) {
	t.Helper()
	for _, m := range minutes(t, s) {
		sum += m.Accepted
	}
	return sum
}

// await waits until the minutes that are over have so many events, and checks that they have no more after
// another minute.
func (p *process) await(want int64) {
	p.t.Helper()
	storetest.Eventually(p.t, soon, fmt.Sprintf("the series has %d events", want), func() bool { return accepted(p.t, p.store) == want })
	before := len(minutes(p.t, p.store))
	storetest.Eventually(p.t, soon, "another minute is over", func() bool { return len(minutes(p.t, p.store)) > before })
	if got := accepted(p.t, p.store); got != want {
		p.t.Errorf("%d events a minute later, want %d", got, want)
	}
}

// N18: the counts of all processes add up, each once. One of the processes, for each minute, writes the depths.
func TestN18_ProcessesAddUp(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		if all := minutes(t, series.New(db, series.Options{Minute: short})); all == nil || len(all) != 0 {
			t.Fatalf("%v", all)
		}
		one, two := mustRun(t, db, short), mustRun(t, db, short)
		one.accepted.Add(3)
		two.accepted.Add(4)
		one.await(7)
		two.accepted.Add(5)
		one.await(12)
		one.stop()
		two.stop()
		withDepths, last := 0, time.Time{}
		for _, m := range minutes(t, one.store) {
			if !m.At.After(last) || m.At.UnixMilli()%short.Milliseconds() != 0 {
				t.Errorf("a minute is at %v, after %v", m.At, last)
			}
			last = m.At.Time
			if m.Depth == nil {
				continue
			}
			if withDepths++; *m.Depth != 7 || *m.OldestAgeMS != 1500 {
				t.Errorf("depth %d, age %d", *m.Depth, *m.OldestAgeMS)
			}
		}
		if read, all := int(one.depths.Load()+two.depths.Load()), len(minutes(t, one.store)); withDepths == 0 || read < withDepths || read > all {
			t.Errorf("%d of %d minutes have depths, and they were read %d times", withDepths, all, read)
		}
	})
}

// N18: what is counted after the end of a minute is in a later minute, and a process that counts nothing shows
// that it was there.
func TestN18_MinutesAreApart(t *testing.T) {
	t.Parallel()
	p := mustRun(t, storetest.Open(t, storetest.Redis(t).URL()), short)
	p.accepted.Add(1)
	p.await(1)
	p.accepted.Add(10)
	p.await(11)
	var counts []int64
	for _, m := range minutes(t, p.store) {
		if m.Accepted != 0 {
			counts = append(counts, m.Accepted)
		}
		if m.Alarms == nil || m.Platforms == nil || m.P50MS != nil || m.P99MS != nil {
			t.Errorf("%+v", m)
		}
	}
	if !reflect.DeepEqual(counts, []int64{1, 10}) {
		t.Errorf("%v", counts)
	}
}

// N18: the minute that lasts is not shown, although a process has written a part of it.
func TestN18_ThePresentMinuteIsNotShown(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	p := mustRun(t, db, 10*short)
	p.accepted.Add(1)
	p.stop() // which writes into the present minute
	for _, m := range minutes(t, p.store) {
		if end := m.At.Add(10 * short); end.After(db.Clock()) {
			t.Errorf("it is shown before %v", end)
		}
	}
	storetest.Eventually(t, soon, "the minute is over", func() bool { return accepted(t, p.store) == 1 })
}

// N18: a process that stops writes the rest of its counts, and the one that follows adds to them.
func TestN18_AStopWritesTheRest(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	first, next := mustRun(t, db, 2*short), mustRun(t, db, 2*short)
	first.accepted.Add(5)
	first.stop()
	next.accepted.Add(2)
	next.stop()
	storetest.Eventually(t, soon, "the minute is over", func() bool { return accepted(t, next.store) == 7 })
}

// N18: a process that dies loses what it counted since its last write, and nothing else.
func TestN18_ADeathLosesAMinute(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	proxy, url := storetest.ProxyTo(t, redis.URL())
	p, reader := mustRun(t, storetest.Open(t, url), short), series.New(storetest.Open(t, redis.URL()), series.Options{Minute: short})
	p.accepted.Add(5)
	p.await(5)
	proxy.Cut() // nothing of it arrives any more
	p.accepted.Add(100)
	p.stop()
	if got := accepted(t, reader); got != 5 {
		t.Errorf("%d events", got)
	}
}

// N18: while Redis is away the series cannot be read, and minutes wait to be written. Then each is where it
// belongs.
func TestN18_MinutesWaitForRedis(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	p := mustRun(t, storetest.Open(t, url), short)
	p.accepted.Add(1)
	p.await(1)
	proxy.Cut()
	_, err := p.store.Minutes(t.Context(), 1)
	storetest.WantCode(t, err, api.CodeUnavailable)
	for range 3 {
		p.accepted.Add(10)
		before := p.totals.Load()
		storetest.Eventually(t, soon, "a minute is over", func() bool { return p.totals.Load() > before })
	}
	proxy.Mend()
	p.await(31)
	apart := 0
	for _, m := range minutes(t, p.store) {
		if m.Accepted > 0 {
			apart++
		}
	}
	if apart < 4 {
		t.Errorf("the events are in %d minutes", apart)
	}
}

// N18: a write whose answer was lost is sent again and counts once.
func TestN18_LostAnswers(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	var losing atomic.Bool
	var lost atomic.Int64
	proxy.OnSent(func(c *storetest.ProxyConn, b []byte) storetest.Fate {
		if strings.Contains(string(b), "ff:{series}") && !strings.Contains(string(b), "hvals") {
			c.Marked.Store(true)
		}
		return storetest.Pass
	})
	proxy.OnAnswer(func(c *storetest.ProxyConn, _ []byte) storetest.Fate {
		if c.Marked.Load() && losing.Load() && lost.Add(1) <= 10 {
			return storetest.Reset
		}
		return storetest.Pass
	})
	p := mustRun(t, storetest.Open(t, url), short)
	p.accepted.Add(1)
	p.await(1) // Redis knows the script from now on, so that a write whose answer is lost has happened
	losing.Store(true)
	p.accepted.Add(3)
	storetest.Eventually(t, soon, "answers were lost", func() bool { return lost.Load() > 10 })
	p.await(4)
}

// N18: a minute is kept for more than a day. What another version wrote and this one cannot read is left out.
func TestN18_KeptForADay(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	p := mustRun(t, storetest.Open(t, redis.URL()), short)
	p.accepted.Add(2)
	p.await(2)
	p.stop()
	keys, err := redis.Client().Keys(t.Context(), "ff:*").Result()
	storetest.Must(t, err)
	for _, key := range keys {
		left, err := redis.Client().PTTL(t.Context(), key).Result()
		storetest.Must(t, err)
		if left <= 24*time.Hour || left > 25*time.Hour {
			t.Errorf("%s is kept for %v", key, left)
		}
		storetest.Must(t, redis.Client().HSet(t.Context(), key, "later", `{"accepted":[1]}`, "more", `{"news":1}`).Err())
	}
	if got := accepted(t, series.New(storetest.Open(t, redis.URL()), series.Options{Minute: short})); len(keys) == 0 || got != 2 {
		t.Errorf("%d events in %v", got, keys)
	}
}

// mustWrite writes what a process counted in a minute that is over by so many minutes.
func mustWrite(t *testing.T, r *storetest.RedisServer, field string, minute int64) {
	t.Helper()
	storetest.Must(t, r.Client().HSet(t.Context(), fmt.Sprintf("ff:{series}:%d", minute), field, `{"accepted":1}`).Err())
}

// N7: minutes that are over are read once a minute, however many look.
func TestN7_MinutesAreReadOnce(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	db := storetest.Open(t, redis.URL())
	const long = 100_000 * time.Hour // such a minute does not end during the test
	present := db.Clock().UnixMilli() / long.Milliseconds()
	mustWrite(t, redis, "a", present)
	mustWrite(t, redis, "a", present-1)
	mustWrite(t, redis, "b", present-1)
	mustWrite(t, redis, "a", present-3)
	s := series.New(db, series.Options{Minute: long})
	for _, c := range []struct {
		minutes, reads, shown, sum int
	}{{60, 60, 2, 3}, {60, 0, 2, 3}, {3, 0, 2, 3}, {2, 0, 1, 2}, {1, 0, 1, 2}, {61, 61, 2, 3}, {60, 0, 2, 3}} {
		before := storetest.Calls(t, redis.Client(), "hvals")
		all, err := s.Minutes(t.Context(), c.minutes)
		storetest.Must(t, err)
		sum := 0
		for _, m := range all {
			sum += int(m.Accepted)
		}
		if reads := storetest.Calls(t, redis.Client(), "hvals") - before; len(all) != c.shown || sum != c.sum || reads != c.reads {
			t.Errorf("%d minutes: %d are shown with %d events after %d reads: want %+v", c.minutes, len(all), sum, reads, c)
		}
	}
}

// N7: the last minute is read anew as long as processes may not have written it, and it alone.
func TestN7_TheLastMinuteIsReadAnew(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	db := storetest.Open(t, redis.URL())
	s := series.New(db, series.Options{Minute: 4 * time.Second})
	present := func() int64 { return db.Clock().UnixMilli() / 4000 }
	storetest.Eventually(t, soon, "a minute lasts long enough for the test", func() bool {
		minute := present()
		mustWrite(t, redis, "early", minute-1)
		before, reads := accepted(t, s), storetest.Calls(t, redis.Client(), "hvals")
		mustWrite(t, redis, "late", minute-1)
		after := accepted(t, s)
		reads = storetest.Calls(t, redis.Client(), "hvals") - reads
		if present() != minute {
			return false
		}
		if after != before+1 || reads != 1 {
			t.Errorf("%d events after %d reads, before it were %d", after, reads, before)
		}
		return true
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, os.DirFS("."))
}
