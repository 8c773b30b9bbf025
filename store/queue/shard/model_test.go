package shard_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// modelJob is a job in the reference: a few lines that are plainly right.
type modelJob struct {
	id, key, unique string
	named           bool   // it is found by its id, also after its end
	report          string // what is told of it
	state           string // ready, running, later, blocked, done, dead
	failures, lost  int
	fence           int64
	claim           *queue.Claimed
	holder          *shard.Stepper
}

// oldClaim is a claim that was superseded, and who had it.
type oldClaim struct {
	c *queue.Claimed
	p *shard.Stepper
}

// model is the reference and the real queue side by side.
type model struct {
	t     *rapid.T
	w     *world
	procs []*shard.Stepper
	jobs  map[string]*modelJob
	line  map[string][]string // by key: its head and those behind it
	old   []oldClaim
	ids   uint64 // made so far
}

const modelAttempts = 3

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		rounds := storetest.Sized(100, 40)
		if db.Embedded() {
			rounds = storetest.Sized(100, 15) // its Lua is slow
		}
		storetest.CheckModel(t, rounds, func(rt *rapid.T) {
			w := setup(t, db, func(o *queue.Options) { o.MaxAttempts = modelAttempts })
			m := &model{t: rt, w: w, jobs: map[string]*modelJob{}, line: map[string][]string{}}
			for range 2 {
				m.procs = append(m.procs, mustStepper(rt, w.common(db)))
			}
			rt.Repeat(map[string]func(*rapid.T){
				"enqueue": m.enqueue, "claim": m.claim, "claimAll": m.claimAll, "finish": m.finish, "finishOld": m.finishOld,
				"crash": m.crash, "due": m.due, "retryDead": m.retryDead, "renew": m.renew, "": m.check,
			})
		})
	})
}

func (m *model) process(t *rapid.T) *shard.Stepper {
	return m.procs[rapid.IntRange(0, len(m.procs)-1).Draw(t, "process")]
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
	j.state, j.claim = state, nil
	m.yield(j)
}

func live(j *modelJob) bool {
	return j.state == "ready" || j.state == "running" || j.state == "later" || j.state == "blocked"
}

// nextID makes ids by counting: jobs are picked in the order of their ids, which
// must be the same when a failure is tried again.
func (m *model) nextID() string {
	m.ids++
	digest := sha256.Sum256(binary.BigEndian.AppendUint64(nil, m.ids))
	return queue.DeriveID(queue.NewID(0, epoch), digest[:], 0)
}

func (m *model) enqueue(t *rapid.T) {
	j := &modelJob{id: m.nextID(), key: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "key"),
		unique: rapid.SampledFrom([]string{"", "", "", "u"}).Draw(t, "unique"), report: rapid.SampledFrom([]string{"", "Q0"}).Draw(t, "report")}
	job := queue.Job{ID: j.id, Key: j.key, Unique: j.unique, Report: j.report, Payload: []byte(j.id), Fresh: rapid.Bool().Draw(t, "fresh")}
	j.named = !job.Fresh
	if len(m.jobs) > 0 && rapid.IntRange(0, 5).Draw(t, "again") == 0 {
		j = m.pick("again", func(j *modelJob) bool { return j.named })
		job.ID, job.Key, job.Unique, job.Fresh = j.id, j.key, j.unique, false
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
	p, might := m.process(t), 0
	for _, j := range m.jobs {
		if j.state == "ready" && j.lost < 2 {
			might++
		}
	}
	batch, err := p.Claim(n)
	if err != nil || len(batch) != min(n, might) {
		t.Fatalf("claimed %d of %d, %v; want %d", len(batch), n, err, min(n, might))
	}
	m.begin(t, p, batch)
	if n < 100 {
		return
	}
	m.takeIsolated(t, p, "f", 32, 2)
	m.takeIsolated(t, p, "a", 1, 3)
	for _, j := range m.jobs {
		if j.state == "ready" {
			t.Fatalf("job %s (%d leases lost) was not given", j.id, j.lost)
		}
	}
}

// takeIsolated claims the jobs of a stream that must not run beside others: at most so many together, and
// none that lost fewer leases.
func (m *model) takeIsolated(t *rapid.T, p *shard.Stepper, letter string, most, lost int) {
	for {
		batch, err := p.ClaimIsolated(letter)
		if err != nil || len(batch) > most {
			t.Fatalf("%d jobs of stream %s together, %v", len(batch), letter, err)
		}
		if len(batch) == 0 {
			return
		}
		for _, c := range batch {
			if j := m.jobs[c.ID]; j == nil || min(j.lost, 3) != lost {
				t.Fatalf("job %+v in stream %s", j, letter)
			}
		}
		m.begin(t, p, batch)
	}
}

func (m *model) begin(t *rapid.T, p *shard.Stepper, batch []*queue.Claimed) {
	for _, c := range batch {
		j := m.jobs[c.ID]
		if j == nil || j.state != "ready" || string(c.Payload) != j.id {
			t.Fatalf("job %s was given: %+v", c.ID, j)
		}
		if c.Attempt != j.failures+1 || c.Fence <= j.fence {
			t.Fatalf("attempt %d, fence %d of %+v", c.Attempt, c.Fence, j)
		}
		j.state, j.claim, j.fence, j.holder = "running", c, c.Fence, p
	}
}

func running(j *modelJob) bool { return j.state == "running" }

func (m *model) finish(t *rapid.T) {
	j := m.pick("job", running)
	outcome := rapid.SampledFrom([]queue.Outcome{queue.Done, queue.Retry, queue.Defer, queue.Dead, queue.Continue, queue.Release}).Draw(t, "outcome")
	r := queue.Result{Outcome: outcome, Delay: time.Hour}
	if j.report != "" && rapid.Bool().Draw(t, "report") {
		r.Report = "T" + fmt.Sprint(len(m.old))
		j.report = r.Report
	}
	c, want := j.claim, "1"
	switch {
	case outcome == queue.Done:
		m.end(j, "done")
	case outcome == queue.Dead:
		want = "2"
		m.dead(j)
	case outcome == queue.Retry && j.failures+1 >= modelAttempts:
		want = "2"
		m.dead(j)
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
	if got, err := j.holder.Finish(c, r); err != nil || got != want {
		t.Fatalf("finish %v of %+v: %s, %v, want %s", outcome, j, got, err, want)
	}
	if rapid.Bool().Draw(t, "the answer is lost") {
		if got, err := j.holder.Again(c, r); err != nil || got != want {
			t.Fatalf("finish %v of %+v sent again: %s, %v, want %s", outcome, j, got, err, want)
		}
	}
}

// dead is the end of a job that was given up.
func (m *model) dead(j *modelJob) {
	if j.report != "" {
		j.report = "X" + j.report[1:]
	}
	m.end(j, "dead")
}

// finishOld is a holder that was superseded: lost, and nothing changes.
func (m *model) finishOld(t *rapid.T) {
	if len(m.old) == 0 {
		t.Skip("none")
	}
	o := rapid.SampledFrom(m.old).Draw(t, "claim")
	if got, err := o.p.Finish(o.c, queue.Result{Report: "stale"}); err != nil || got != "0" {
		t.Fatalf("finish of a superseded claim: %s, %v", got, err)
	}
}

func (m *model) renew(t *rapid.T) {
	j := m.pick("job", running)
	if alive, err := j.holder.Renew(); err != nil || !alive {
		t.Fatalf("renew: %v, %v", alive, err)
	}
}

// crash ends the lease of a process: all its jobs run again, after eight times they
// are dead. It goes on under another session.
func (m *model) crash(t *rapid.T) {
	p := m.process(t)
	m.w.db.Client().ZAdd(context.Background(), m.w.prefix()+"owners", redis.Z{Score: 1, Member: p.Session()})
	for _, j := range m.inOrder() {
		if j.state != "running" || j.holder != p {
			continue
		}
		m.old = append(m.old, oldClaim{j.claim, p})
		j.claim = nil
		switch j.lost++; {
		case j.lost >= 8:
			m.dead(j)
		default:
			j.state = "ready"
		}
	}
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := m.procs[0].Maintain(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) inOrder() (all []*modelJob) {
	ids := keysOf(m.jobs)
	sort.Strings(ids)
	for _, id := range ids {
		all = append(all, m.jobs[id])
	}
	return all
}

// hasten lets the time of a delayed job come.
func (w *world) hasten(id string) {
	ctx, c, later := context.Background(), w.db.Client(), w.prefix()+"later"
	for _, slot := range c.ZRange(ctx, later, 0, -1).Val() {
		for _, text := range c.LRange(ctx, later+":"+slot, 0, -1).Val() {
			if slot != "1" && strings.HasPrefix(text[1:], id+"\x1f") {
				c.LRem(ctx, later+":"+slot, 1, text)
				c.RPush(ctx, later+":1", text)
				c.ZAdd(ctx, later, redis.Z{Score: 1, Member: "1"})
			}
		}
		if c.Exists(ctx, later+":"+slot).Val() == 0 {
			c.ZRem(ctx, later, slot)
		}
	}
}

// due lets the time of a delayed job come.
func (m *model) due(t *rapid.T) {
	j := m.pick("job", func(j *modelJob) bool { return j.state == "later" })
	m.w.hasten(j.id)
	m.admit(j)
	if err := m.process(t).Maintain(); err != nil {
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
		j.failures, j.lost, j.named = 0, 0, true
		if j.report != "" {
			j.report = "Q" + j.report[1:]
		}
		m.admit(j)
	}
}

// check compares everything that Redis holds with the reference.
func (m *model) check(t *rapid.T) {
	s := m.w.mustState()
	if problems := s.Problems(); len(problems) > 0 {
		t.Fatal(strings.Join(problems, "\n"))
	}
	for id, j := range m.jobs {
		head, there := s.Texts[id]
		if record := s.Records[id]; there != live(j) || (record != "") != (live(j) && j.named) {
			t.Fatalf("job %+v: %v %q", j, head, record)
		}
		if there && (!slices.Contains(s.In(j.state), id) || queuetest.NumberOf(head[8]) != j.failures || queuetest.NumberOf(head[9]) != j.lost) {
			t.Fatalf("job %+v has the head %q", j, head)
		}
		if got, err := queuetest.Report(context.Background(), m.w.q, id); err != nil || got != j.report {
			t.Fatalf("report %q of %+v, %v", got, j, err)
		}
	}
	for key, line := range m.line {
		if len(line) > 0 && s.Heads[key] != line[0] || len(line) == 0 && s.Heads[key] != "" {
			t.Fatalf("the head of %s is %q, of the reference %v", key, s.Heads[key], line)
		}
	}
	if len(s.Texts) != len(slices.DeleteFunc(keysOf(m.jobs), func(id string) bool { return !live(m.jobs[id]) })) {
		t.Fatal("jobs that the reference does not know")
	}
}

func keysOf(jobs map[string]*modelJob) (ids []string) {
	for id := range jobs {
		ids = append(ids, id)
	}
	return ids
}
