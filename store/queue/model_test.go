package queue_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// modelJob is a job in the reference: a few lines that are plainly right.
type modelJob struct {
	id, key, unique string
	state           string // ready, running, later, blocked, done, dead, cancelled
	failures, lost  int
	fence           int64
	claim           *queue.Claimed
	doomed          bool // cancelled while it runs
}

// model is the reference and the real queue side by side.
type model struct {
	t    *rapid.T
	w    *world
	p    *queue.Stepper
	jobs map[string]*modelJob
	line map[string][]string // by key: its head and those behind it
	old  []*queue.Claimed    // claims that were superseded
}

const modelAttempts = 3

func TestModel(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "embedded"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "embedded"
			if name == "redis" {
				url = storetest.Redis(t).URL()
			}
			db := storetest.Open(t, url)
			rapid.Check(t, func(rt *rapid.T) {
				w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour; o.MaxAttempts = modelAttempts })
				m := &model{t: rt, w: w, p: queue.NewStepper(w.q), jobs: map[string]*modelJob{}, line: map[string][]string{}}
				rt.Repeat(map[string]func(*rapid.T){
					"enqueue": m.enqueue, "claim": m.claim, "claimAll": m.claimAll, "finish": m.finish, "finishOld": m.finishOld,
					"crash": m.crash, "due": m.due, "cancel": m.cancel, "retryDead": m.retryDead, "renew": m.renew, "": m.check,
				})
			})
		})
	}
}

func (m *model) pick(what string, ok func(*modelJob) bool) *modelJob {
	var ids []string
	for id, j := range m.jobs {
		if ok(j) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		m.t.Skip("none")
	}
	sort.Strings(ids)
	return m.jobs[rapid.SampledFrom(ids).Draw(m.t, what)]
}

// admit is what the reference does with a job that may start.
func (m *model) admit(j *modelJob) {
	j.state = "ready"
	if j.key == "" {
		return
	}
	m.line[j.key] = append(m.line[j.key], j.id)
	if m.line[j.key][0] != j.id {
		j.state = "blocked"
	}
}

// yield takes a job out of its key's line; the next becomes its head.
func (m *model) yield(j *modelJob) {
	line := m.line[j.key]
	at := slices.Index(line, j.id)
	if j.key == "" || at < 0 {
		return
	}
	line = slices.Delete(slices.Clone(line), at, at+1)
	m.line[j.key] = line
	if at == 0 && len(line) > 0 {
		m.jobs[line[0]].state = "ready"
	}
}

func (m *model) end(j *modelJob, state string) {
	j.state, j.claim, j.doomed = state, nil, false
	m.yield(j)
}

func live(j *modelJob) bool {
	return j.state == "ready" || j.state == "running" || j.state == "later" || j.state == "blocked"
}

func (m *model) enqueue(t *rapid.T) {
	j := &modelJob{id: queue.NewID(0, epoch), key: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"),
		unique: rapid.SampledFrom([]string{"", "", "u"}).Draw(t, "unique")}
	job := queue.Job{ID: j.id, Key: j.key, Unique: j.unique, Payload: []byte(j.id)}
	if len(m.jobs) > 0 && rapid.IntRange(0, 5).Draw(t, "again") == 0 {
		j = m.pick("again", func(*modelJob) bool { return true })
		job.ID, job.Key, job.Unique = j.id, j.key, j.unique
	}
	if rapid.IntRange(0, 4).Draw(t, "delayed") == 0 {
		job.Delay = time.Hour
	}
	want := queue.Enqueued{ID: j.id, New: m.jobs[j.id] == nil}
	for _, other := range m.jobs {
		if want.New && j.unique != "" && live(other) && other.unique == j.unique {
			want = queue.Enqueued{ID: other.id}
		}
	}
	got, err := m.w.q.Enqueue(context.Background(), job)
	if err != nil || got[0] != want {
		t.Fatalf("enqueue: %+v, %v, want %+v", got, err, want)
	}
	if !want.New {
		return
	}
	m.jobs[j.id] = j
	if job.Delay > 0 {
		j.state = "later"
	} else {
		m.admit(j)
	}
}

func (m *model) claim(t *rapid.T)    { m.take(t, rapid.IntRange(1, 3).Draw(t, "n")) }
func (m *model) claimAll(t *rapid.T) { m.take(t, 100) }

// take claims and compares: every job that may run is given, no other, with
// the right attempt and a higher fence.
func (m *model) take(t *rapid.T, n int) {
	might := 0
	for _, j := range m.jobs {
		if j.state == "ready" && j.lost < 2 {
			might++
		}
	}
	batch, err := m.p.Claim(n)
	if err != nil || len(batch) != min(n, might) {
		t.Fatalf("claimed %d of %d, %v; want %d", len(batch), n, err, min(n, might))
	}
	m.begin(t, batch)
	if n < 100 {
		return
	}
	for { // those that must run alone
		batch, err := m.p.ClaimAlone()
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			break
		}
		m.begin(t, batch)
	}
	for _, j := range m.jobs {
		if j.state == "ready" {
			t.Fatalf("job %s (%d leases lost) was not given", j.id, j.lost)
		}
	}
}

func (m *model) begin(t *rapid.T, batch []*queue.Claimed) {
	for _, c := range batch {
		j := m.jobs[c.ID]
		if j == nil || j.state != "ready" || string(c.Payload) != j.id {
			t.Fatalf("job %s was given: %+v", c.ID, j)
		}
		if c.Attempt != j.failures+1 || c.Fence <= j.fence {
			t.Fatalf("attempt %d, fence %d of %+v", c.Attempt, c.Fence, j)
		}
		j.state, j.claim, j.fence = "running", c, c.Fence
	}
}

func running(j *modelJob) bool { return j.state == "running" }

func (m *model) finish(t *rapid.T) {
	j := m.pick("job", running)
	outcome := rapid.SampledFrom([]queue.Outcome{queue.Done, queue.Retry, queue.Defer, queue.Dead, queue.Continue, queue.Release}).Draw(t, "outcome")
	c, want := j.claim, "1"
	switch {
	case j.doomed:
		want = "3"
		m.end(j, "cancelled")
	case outcome == queue.Done:
		m.end(j, "done")
	case outcome == queue.Dead:
		want = "2"
		m.end(j, "dead")
	case outcome == queue.Retry && j.failures+1 >= modelAttempts:
		want = "2"
		m.end(j, "dead")
	case outcome == queue.Retry:
		j.failures++
		m.end(j, "later")
	case outcome == queue.Defer:
		m.end(j, "later")
	default:
		if outcome == queue.Continue {
			j.failures, j.lost = 0, 0
		}
		j.state, j.claim = "ready", nil
	}
	if got, err := m.p.Finish(c, queue.Result{Outcome: outcome, Delay: time.Hour}); err != nil || got != want {
		t.Fatalf("finish %v of %+v: %s, %v, want %s", outcome, j, got, err, want)
	}
	m.old = append(m.old, c)
}

// finishOld is a holder that was superseded: lost, and nothing changes.
func (m *model) finishOld(t *rapid.T) {
	if len(m.old) == 0 {
		t.Skip("none")
	}
	c := rapid.SampledFrom(m.old).Draw(t, "claim")
	if got, err := m.p.Finish(c, queue.Result{}); err != nil || got != "0" {
		t.Fatalf("finish of a superseded claim: %s, %v", got, err)
	}
	if ok, err := m.p.Renew(c); err != nil || ok {
		t.Fatalf("renewal of a superseded claim: %v, %v", ok, err)
	}
}

func (m *model) renew(t *rapid.T) {
	j := m.pick("job", running)
	if ok, err := m.p.Renew(j.claim); err != nil || ok == j.doomed {
		t.Fatalf("renew: %v, %v", ok, err)
	}
}

// crash ends a lease: the job runs again, after eight times it is dead.
func (m *model) crash(t *rapid.T) {
	j := m.pick("job", running)
	key := m.w.prefix(0) + "jobs"
	record := m.w.db.Client().HGet(context.Background(), key, j.id).Val()
	parts := strings.Split(record, ":")
	parts[4] = "1"
	m.w.db.Client().HSet(context.Background(), key, j.id, strings.Join(parts, ":"))
	m.old = append(m.old, j.claim)
	j.claim = nil
	switch j.lost++; {
	case j.doomed:
		m.end(j, "cancelled")
	case j.lost >= 8:
		m.end(j, "dead")
	default:
		j.state = "ready"
	}
	if err := m.p.Maintain(); err != nil {
		t.Fatal(err)
	}
}

// due lets the time of a delayed job come.
func (m *model) due(t *rapid.T) {
	j := m.pick("job", func(j *modelJob) bool { return j.state == "later" })
	m.w.db.Client().Do(context.Background(), "zadd", m.w.prefix(0)+"later", "1", j.id)
	m.admit(j)
	if err := m.p.Maintain(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) cancel(t *rapid.T) {
	j := m.pick("job", live)
	if j.state == "running" {
		j.doomed = true
	} else {
		m.end(j, "cancelled")
	}
	if err := m.w.q.Cancel(context.Background(), 0, j.id); err != nil {
		t.Fatal(err)
	}
}

func (m *model) retryDead(t *rapid.T) {
	j := m.pick("job", func(j *modelJob) bool { return j.state == "dead" })
	free := true
	for _, other := range m.jobs {
		free = free && (j.unique == "" || !live(other) || other.unique != j.unique)
	}
	_, _, err := m.w.q.RetryDead(context.Background(), m.w.q.DeadID(0, j.id), queue.Once{})
	if (err == nil) != free {
		t.Fatalf("retry: %v, its unique id is free: %v", err, free)
	}
	if free {
		j.failures, j.lost = 0, 0
		m.admit(j)
	}
}

// check compares everything that Redis holds with the reference.
func (m *model) check(t *rapid.T) {
	s := m.w.mustState(0)
	if problems := s.problems(); len(problems) > 0 {
		t.Fatal(strings.Join(problems, "\n"))
	}
	places := map[string]string{"ready": "mra", "running": "RZ", "later": "l", "blocked": "w"}
	for id, j := range m.jobs {
		record, ok := s.records[id]
		if ok != live(j) {
			t.Fatalf("job %+v has the record %q", j, record)
		}
		if !ok {
			continue
		}
		parts := strings.SplitN(record, ":", 6)
		place := parts[0]
		if place == "Q" {
			place = parts[5][:1]
		}
		if !strings.Contains(places[j.state], place) || parts[1] != fmt.Sprint(j.failures) || parts[2] != fmt.Sprint(j.lost) {
			t.Fatalf("job %+v has the record %q", j, record)
		}
	}
	for key, line := range m.line {
		if len(line) > 0 && s.heads[key] != line[0] || len(line) == 0 && s.heads[key] != "" {
			t.Fatalf("the head of %s is %q, of the reference %v", key, s.heads[key], line)
		}
	}
	if len(s.records) != len(slices.DeleteFunc(keysOf(m.jobs), func(id string) bool { return !live(m.jobs[id]) })) {
		t.Fatal("records that the reference does not know")
	}
}

func keysOf(jobs map[string]*modelJob) (ids []string) {
	for id := range jobs {
		ids = append(ids, id)
	}
	return ids
}
