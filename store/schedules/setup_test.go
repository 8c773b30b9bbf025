package schedules

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/jobs"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

const soon = 20 * time.Second

// world is a database and a Redis with any number of processes, whose clock the test sets.
type world struct {
	t     *testing.T
	url   string
	redis *redisdb.DB
	jobs  *jobs.Store
	*Store
	ahead *atomic.Int64
}

// each runs a test on each database.
func each(t *testing.T, test func(w *world)) {
	t.Helper()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		w := &world{t: t, url: url, redis: storetest.Open(t, "embedded")}
		w.jobs = jobs.New(jobs.Options{DB: w.redis})
		t.Cleanup(w.jobs.Close)
		w.Store, w.ahead = w.process()
		test(w)
	})
}

// process is a process, and how far its clock is ahead of the database's.
func (w *world) process(change ...func(*Options)) (*Store, *atomic.Int64) {
	w.t.Helper()
	ahead := &atomic.Int64{}
	o := Options{Record: storetest.Record(w.t, w.url), Enqueue: w.jobs.Enqueue, Ahead: func() time.Duration { return time.Duration(ahead.Load()) }}
	for _, f := range change {
		f(&o)
	}
	return New(o), ahead
}

// mustOpen opens the database once more, with another time-out.
func (w *world) mustOpen(timeout time.Duration) *record.DB {
	w.t.Helper()
	db, err := record.Open(w.t.Context(), record.Options{URL: w.url, Timeout: timeout})
	storetest.Must(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	return db
}

// mustPutDue puts n schedules, named s0 and so on, and sets a process' clock to a second after the time at which all are due.
func (w *world) mustPutDue(n int, ahead *atomic.Int64) (due time.Time) {
	w.t.Helper()
	for i := range n {
		due = w.mustPut(fmt.Sprint("s", i), "0 * * * *").NextAt.Time
	}
	ahead.Store(w.until(due.Add(time.Second)))
	return due
}

// wantRun checks that each of these schedules has run at its due time, once.
func (w *world) wantRun(n int, due time.Time) {
	w.t.Helper()
	for i := range n {
		w.wants(fmt.Sprint("s", i), 1)
		w.wantTimes(fmt.Sprint("s", i), due, due.Add(time.Hour))
	}
}

// mustPut puts a schedule whose jobs go to a queue of its own name.
func (w *world) mustPut(id, cron string, change ...func(*api.ScheduleRequest)) *api.Schedule {
	w.t.Helper()
	r := &api.ScheduleRequest{Queue: id, Type: "t", Cron: cron}
	for _, f := range change {
		f(r)
	}
	s, _, err := w.Put(w.t.Context(), id, r)
	storetest.Must(w.t, err)
	return s
}

func (w *world) mustGet(id string) *api.Schedule {
	w.t.Helper()
	s, err := w.Get(w.t.Context(), id)
	storetest.Must(w.t, err)
	return s
}

// until is how far a time is ahead of the database's clock.
func (w *world) until(at time.Time) int64 {
	w.t.Helper()
	w.mustPut("clock", "0 0 1 1 *")
	_, now, err := w.o.Record.Schedule(w.t.Context(), "clock")
	storetest.Must(w.t, err)
	return int64(at.Sub(now))
}

// at sets the clock of the first process.
func (w *world) at(at time.Time) {
	w.t.Helper()
	w.ahead.Store(w.until(at))
}

// mustLook lets the first process enqueue what is due.
func (w *world) mustLook() {
	w.t.Helper()
	_, err := w.look(w.t.Context())
	storetest.Must(w.t, err)
}

// payloads are those of all jobs that a queue ever had, in their order.
func (w *world) payloads(queue string) (all []string) {
	w.t.Helper()
	most, ms := int64(100), int64(1000)
	claimed, _, err := w.jobs.Claim(w.t.Context(), nil, queue, &api.JobClaim{Worker: "w", Max: &most, LeaseMS: &ms}, api.Idempotency{})
	storetest.Must(w.t, err)
	for _, j := range claimed.Jobs {
		all = append(all, string(j.Payload))
	}
	return all
}

// wants compares how many jobs a queue has.
func (w *world) wants(queue string, want int64) {
	w.t.Helper()
	q, err := w.jobs.Queue(w.t.Context(), queue)
	if api.CodeOf(err) == api.CodeNotFound && want == 0 {
		return
	}
	storetest.Must(w.t, err)
	if q.Depth != want {
		w.t.Errorf("the queue %s has %d jobs, want %d", queue, q.Depth, want)
	}
}

// wantTimes compares the due times of a schedule; last "": none.
func (w *world) wantTimes(id string, last, next time.Time) {
	w.t.Helper()
	s := w.mustGet(id)
	got, want := fmt.Sprint(s.NextAt, s.LastAt), fmt.Sprint(api.At(next), (*api.Time)(nil))
	if !last.IsZero() {
		at := api.At(last)
		want = fmt.Sprint(api.At(next), &at)
	}
	if got != want {
		w.t.Errorf("next and last are %s, want %s", got, want)
	}
}

func payload(text string) func(*api.ScheduleRequest) {
	return func(r *api.ScheduleRequest) { r.Payload = json.RawMessage(text) }
}
