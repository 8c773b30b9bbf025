package queue_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// reported makes n jobs with reports of the time `at`, over all shards.
func reported(w *world, n int, at time.Time) []queue.Job {
	jobs := make([]queue.Job, n)
	for i := range jobs {
		shard := i % w.q.Shards()
		jobs[i] = queue.Job{ID: queue.NewID(shard, at), Shard: shard, Payload: []byte("x"), Report: fmt.Sprintf("Qt %d", i), Fresh: true}
	}
	return jobs
}

// mustList reads a whole list in pages of n.
func (w *world) mustList(n int) (ids []string) {
	w.t.Helper()
	for after := ""; ; {
		page, err := w.q.Reports(w.t.Context(), after, n)
		storetest.Must(w.t, err)
		for _, r := range page {
			ids, after = append(ids, r.ID), r.ID
		}
		if len(page) < n {
			return ids
		}
	}
}

// newestFirst sorts ids as a list has them, of one turn of the parts of time.
func newestFirst(jobs []queue.Job) []string {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(b, a) })
	return ids
}

// A list has each report once, newest first, whatever the size of its pages: those of one part of time in
// one shard, those of one part in several shards, and those of many parts.
func TestN9_ReportsArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 5 })
		if ids := w.mustList(3); len(ids) > 0 {
			t.Errorf("a new queue lists %v", ids)
		}
		at := time.Now().Add(-time.Hour)
		jobs := reported(w, 150, at)
		for i := range 60 {
			jobs = append(jobs, reported(w, 1+i%7, at.Add(time.Duration(i)*50*time.Millisecond))...)
		}
		w.mustEnqueue(jobs...)
		want := newestFirst(jobs)
		for _, n := range []int{1, 7, 100, 1000} {
			if got := w.mustList(n); !slices.Equal(got, want) {
				t.Errorf("pages of %d have %d reports, want %d in their order", n, len(got), len(want))
			}
		}
		page, err := w.q.Reports(t.Context(), "", 1)
		storetest.Must(t, err)
		i := slices.IndexFunc(jobs, func(j queue.Job) bool { return j.ID == want[0] })
		if last := at.Add(59 * 50 * time.Millisecond); page[0].Report != jobs[i].Report || last.Sub(page[0].At) < 0 || last.Sub(page[0].At) >= time.Second/32 {
			t.Errorf("the first is %+v, want %q of %v", page[0], jobs[i].Report, last)
		}
		if _, err := w.q.Reports(t.Context(), "x", 1); err == nil {
			t.Error("it goes on after what is no id")
		}
	})
}

// The parts of time in ids begin again after 388 days. A part is listed by its time even then.
func TestN9_ReportsAcrossATurnOfTheirParts(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	var jobs []queue.Job
	for _, days := range []int{170, 40, 1, 0, -1, -100, -190} { // from now
		jobs = append(jobs, reported(w, 2, time.Now().AddDate(0, 0, days))...)
	}
	w.mustEnqueue(jobs...)
	got := w.mustList(3)
	if len(got) != len(jobs) {
		t.Fatalf("%d reports are listed, want %d", len(got), len(jobs))
	}
	for i, id := range got {
		if id[:6] != jobs[i].ID[:6] {
			t.Errorf("place %d has %s, want one like %s", i, id, jobs[i].ID)
		}
	}
}

// A part of time costs a command when its first job is stored. It is not noted again by further jobs, or
// by the end of its jobs.
func TestN9_APartIsNotedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	zadds := func() int { return storetest.Calls(t, w.db.Client(), "zadd") }
	at := time.Now()
	w.mustEnqueue(reported(w, 1, at)...)
	before := zadds()
	for range 5 {
		w.mustEnqueue(reported(w, 3, at)...)
	}
	if n := zadds(); before != 1 || n != 1 {
		t.Errorf("the first job of a part costs %d, further ones %d", before, n-before)
	}
	var done seen
	w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
		done.add(c.ID)
		return queue.Result{Report: "Dt"}
	}))
	storetest.Eventually(t, time.Minute, "all have ended", func() bool {
		page, err := w.q.Reports(t.Context(), "", 100)
		return err == nil && len(page) == 16 && !slices.ContainsFunc(page, func(r queue.Reported) bool { return r.Report != "Dt" })
	})
}

// A page has no part of time whose reports are gone, also where there are thousands of them, and looks
// forget such parts.
func TestN9_PartsWithoutReports(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	at := time.Now().Add(-time.Hour)
	jobs := make([]queue.Job, 0, 2200)
	for i := range cap(jobs) {
		jobs = append(jobs, reported(w, 1, at.Add(time.Duration(i)*40*time.Millisecond))...)
	}
	w.mustEnqueue(jobs...)
	key := queuetest.MustScan(t, w.db, "*:reported")[0]
	var gone []string
	for _, j := range jobs[3 : len(jobs)-3] {
		gone = append(gone, strings.TrimSuffix(key, "reported")+"report:"+j.ID[:6])
	}
	c := w.db.Client()
	storetest.Must(t, c.Del(t.Context(), gone...).Err())
	want := newestFirst(slices.Concat(jobs[:3], jobs[len(jobs)-3:]))
	if got := w.mustList(2); !slices.Equal(got, want) {
		t.Errorf("listed are %v, want %v", got, want)
	}
	// Looks take some parts at a time: with less there are it does not take long.
	storetest.Must(t, c.ZRemRangeByRank(t.Context(), key, 13, -13).Err())
	w.run(finishAll(new(atomic.Int64)))
	storetest.Eventually(t, time.Minute, "parts without reports are forgotten", func() bool { return c.ZCard(t.Context(), key).Val() == int64(len(want)) })
	if got := w.mustList(2); !slices.Equal(got, want) {
		t.Errorf("then listed are %v, want %v", got, want)
	}
}

// Looks forget the oldest parts of time above 10,000, and only those.
func TestN9_TheLatestPartsAreKept(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	at := time.Now().Add(-time.Hour)
	jobs := make([]queue.Job, 0, 12_005)
	for i := range cap(jobs) {
		jobs = append(jobs, reported(w, 1, at.Add(time.Duration(i)*40*time.Millisecond))...)
	}
	w.mustEnqueue(jobs...)
	want := newestFirst(jobs[2005:])
	w.run(finishAll(new(atomic.Int64)))
	storetest.Eventually(t, time.Minute, "the oldest parts are forgotten", func() bool { return len(w.mustList(20_000)) <= len(want) })
	if got := w.mustList(1000); !slices.Equal(got, want) {
		t.Errorf("%d are listed, want the latest %d", len(got), len(want))
	}
}
