package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"fanfare/api"
	"fanfare/store/jobs"
	"fanfare/store/storetest"
)

const (
	modelTries  = 3 // attempts of a job
	modelLeases = 8 // that may end
)

// queueModel is a queue in a few lines that are plainly right, beside the real one. Its clients lose answers, so they
// repeat their calls, and stop for longer than their lease.
type queueModel struct {
	t      *rapid.T
	w      *world
	store  *jobs.Store // names its keys
	name   string
	jobs   []*modelJob // in the order of their enqueueing
	heads  map[string]*modelJob
	holds  []modelHold
	seq    int
	calls  int
	counts api.JobQueue // those that only rise
}

type modelJob struct {
	id, key, unique string
	seq             int
	state           api.JobState // blocked, queued, running, scheduled, or how it ended
	due             bool         // the lease is over, or its time has come, and nobody has seen to it yet
	cancelled       bool
	failures, lost  int
	holder          string // the token of the present holder, or of the last one while it may regain the job
	failed          string // the token of the last attempt that failed
	ended, endedBy  string // the last end, if any, and the token that counts for it
}

// modelHold is what a claim gave.
type modelHold struct {
	api.ClaimedJob
	call string // its Idempotency-Key
	job  *modelJob
}

func TestJ2_Model(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		n, store := 0, jobs.New(jobs.Options{DB: w.db})
		storetest.CheckModel(t, storetest.Sized(200, 40), func(rt *rapid.T) {
			n++
			m := &queueModel{t: rt, w: w, store: store, name: fmt.Sprint("m", n), heads: map[string]*modelJob{}}
			rt.Repeat(map[string]func(*rapid.T){
				"enqueue": m.enqueue, "claim": m.claim, "claim more": m.claim, "claim again": m.claimAgain, "pass by": m.passBy, "report": m.report, "report more": m.report,
				"over": m.over, "over more": m.over, "cancel": m.cancel, "retry": m.retry, "look": m.look,
			})
		})
	})
}

func (m *queueModel) path(call string) string { return "/v1/queues/" + m.name + call }

func (m *queueModel) fail(a answer, what string) {
	m.t.Fatalf("%s: %d %s, of the jobs %s", what, a.status, a.body, m)
}

func (m *queueModel) String() (text string) {
	for _, j := range m.jobs {
		text += fmt.Sprintf("\n%+v", *j)
	}
	return text
}

// live finds the job that has a unique name.
func (m *queueModel) live(unique string) *modelJob {
	at := slices.IndexFunc(m.jobs, func(j *modelJob) bool { return unique != "" && j.unique == unique && !j.over() })
	if at < 0 {
		return nil
	}
	return m.jobs[at]
}

func (j *modelJob) over() bool {
	return j.state == api.JobDone || j.state == api.JobDead || j.state == api.JobEnded
}

// admit lets a job be claimed, or wait for its key.
func (m *queueModel) admit(j *modelJob) {
	j.state = api.JobQueued
	if head := m.heads[j.key]; j.key != "" && head != nil {
		j.state = api.JobBlocked
	} else if j.key != "" {
		m.heads[j.key] = j
	}
}

// yield gives up a job's key, if it has that.
func (m *queueModel) yield(j *modelJob) {
	if j.key == "" || m.heads[j.key] != j {
		return
	}
	delete(m.heads, j.key)
	for _, next := range m.jobs {
		if next.key == j.key && next.state == api.JobBlocked {
			m.admit(next)
			return
		}
	}
}

func (m *queueModel) end(j *modelJob, state api.JobState, ended, by string) {
	j.state, j.due, j.ended, j.endedBy, j.holder, j.failed = state, false, ended, by, "", ""
	m.yield(j)
}

// settle sees to leases that are over and to jobs whose time has come.
func (m *queueModel) settle() {
	for _, j := range m.jobs {
		if !j.due || j.state != api.JobRunning {
			continue
		}
		j.due = false
		m.counts.Recovered++
		if j.cancelled {
			m.end(j, api.JobEnded, "cancelled", j.holder)
		} else if j.lost++; j.lost == modelLeases {
			m.counts.Dead++
			m.end(j, api.JobDead, "dead", "")
		} else {
			j.state = api.JobQueued // it keeps its key
		}
	}
	for _, j := range m.jobs {
		if !j.due {
			continue
		}
		j.due = false
		// A later job of its key that nobody has had yet waits for it.
		if head := m.heads[j.key]; j.key != "" && head != nil && head.state == api.JobQueued && head.holder == "" && j.seq < head.seq {
			head.state, m.heads[j.key] = api.JobBlocked, nil
		}
		m.admit(j)
	}
}

func (m *queueModel) enqueue(t *rapid.T) {
	if len(m.jobs) == 12 {
		t.Skip("enough")
	}
	m.calls++
	job := &modelJob{
		key:    rapid.SampledFrom([]string{"", "k", "k", "k"}).Draw(t, "key"),
		unique: rapid.SampledFrom([]string{"", "", "u"}).Draw(t, "unique"),
	}
	known := m.live(job.unique)
	body := fmt.Sprintf(`{"type":"t%d","key":%q,"unique":%q,"max_attempts":%d}`, m.calls%2, job.key, job.unique, modelTries)
	body = strings.NewReplacer(`"key":"",`, "", `"unique":"",`, "").Replace(body)
	for n := range tries(t) {
		a := m.w.post(m.path("/jobs"), body, fmt.Sprint("Idempotency-Key: job-", m.calls))
		var got api.JobAccepted
		err := json.Unmarshal([]byte(a.body), &got)
		switch {
		case err != nil || (a.header.Get("Idempotent-Replayed") == "true") != (n > 0):
			m.fail(a, "enqueue")
		case known != nil:
			if a.status != 200 || got.ID != known.id {
				m.fail(a, "enqueue "+job.unique)
			}
		case a.status != 202 || n > 0 && got.ID != job.id:
			m.fail(a, "enqueue")
		case n == 0:
			if job.key != "" {
				m.settle()
			}
			m.seq++
			job.id, job.seq = got.ID, m.seq
			m.jobs = append(m.jobs, job)
			m.admit(job)
		}
	}
}

// held are the jobs of an answer of a claim.
func (m *queueModel) held(a answer) []api.ClaimedJob {
	var got api.ClaimedJobs
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 {
		m.fail(a, "claim")
	}
	return got.Jobs
}

func (m *queueModel) claim(t *rapid.T) {
	m.calls++
	key, most := fmt.Sprint("claim-", m.calls), rapid.IntRange(1, 3).Draw(t, "most")
	last := int64(0)
	if len(m.holds) > 0 {
		last = m.holds[len(m.holds)-1].Fence
	}
	m.settle()
	var want []*modelJob
	for _, j := range m.jobs {
		if j.state == api.JobQueued && len(want) < most {
			want = append(want, j)
		}
	}
	var first []api.ClaimedJob
	for n := range tries(t) {
		a := m.w.post(m.path("/claims"), fmt.Sprintf(`{"worker":"w","max":%d,"lease_ms":3600000}`, most), "Idempotency-Key: "+key)
		got := m.held(a)
		if len(got) != len(want) {
			m.fail(a, fmt.Sprint("claim of ", most))
		}
		for i, j := range want {
			if got[i].ID != j.id || got[i].Attempt != j.failures+j.lost+1 || got[i].Fence <= last || n > 0 && got[i].Token != first[i].Token {
				m.fail(a, fmt.Sprintf("claim %d of %d", n, most))
			}
		}
		if n == 0 {
			first = got
		}
	}
	for i, j := range want {
		j.state, j.holder = api.JobRunning, first[i].Token
		m.holds = append(m.holds, modelHold{first[i], key, j})
	}
}

// passBy is a claim of a worker that does other things. It sees to what is due.
func (m *queueModel) passBy(*rapid.T) {
	if a := m.w.post(m.path("/claims"), `{"worker":"w","types":["none"]}`); len(m.held(a)) > 0 {
		m.fail(a, "pass by")
	}
	if len(m.jobs) > 0 {
		m.settle()
	}
}

// claimAgain is a late repeat of a claim: it gives what is still held.
func (m *queueModel) claimAgain(t *rapid.T) {
	if len(m.holds) == 0 {
		t.Skip("no claim")
	}
	of := rapid.SampledFrom(m.holds).Draw(t, "claim")
	var want []string
	most := 0
	a := answer{}
	for most = 1; most <= 3; most++ { // only the body that it had is taken
		if a = m.w.post(m.path("/claims"), fmt.Sprintf(`{"worker":"w","max":%d,"lease_ms":3600000}`, most), "Idempotency-Key: "+of.call); a.status != 422 {
			break
		}
	}
	for _, h := range m.holds {
		if h.call == of.call && h.job.state == api.JobRunning && h.job.holder == h.Token && !h.job.due {
			want = append(want, h.ID)
		}
	}
	var got []string
	for _, j := range m.held(a) {
		if got = append(got, j.ID); j.Token != of.Token {
			m.fail(a, "claim again")
		}
	}
	if !slices.Equal(got, want) || a.header.Get("Idempotent-Replayed") != "true" {
		m.fail(a, fmt.Sprint("claim again, want ", want))
	}
}

// report says something about a job under any token that was given for it.
func (m *queueModel) report(t *rapid.T) {
	if len(m.holds) == 0 {
		t.Skip("no claim")
	}
	h := m.holds[len(m.holds)-1-rapid.IntRange(0, min(5, len(m.holds)-1)).Draw(t, "hold")]
	outcome := rapid.SampledFrom([]string{"complete", "fail", "fail", "release", "release later", "renew"}).Draw(t, "outcome")
	call, later := strings.CutSuffix(outcome, " later")
	members := ""
	if later || call == "fail" {
		members = `,"retry_after_ms":3600000`
	}
	for range tries(t) {
		want := m.after(h.job, h.Token, call, later)
		a := m.w.post(m.path("/results"), `{"results":[`+result(h.ClaimedJob, call, members)+`]}`)
		var got api.JobAnswers
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Results) != 1 || got.Results[0].Status != want {
			m.fail(a, fmt.Sprintf("%s with the token %s, want %s", outcome, h.Token, want))
		}
	}
}

// after is what a result is answered, and does.
func (m *queueModel) after(j *modelJob, token, call string, later bool) api.JobStatus {
	if j.over() || j.holder != token || j.state != api.JobRunning && j.state != api.JobQueued {
		return j.again(token, call)
	}
	if j.state == api.JobQueued { // its lease was over, and nobody has claimed it since
		j.lost--
	}
	switch {
	case call == "complete":
		m.counts.Done++
		m.end(j, api.JobDone, "done", token)
	case j.cancelled && call == "renew":
		return api.JobCancelled
	case j.cancelled:
		m.end(j, api.JobEnded, "cancelled", token)
		return api.JobCancelled
	case call == "renew":
		j.state, j.due = api.JobRunning, false
	case call == "release" && !later:
		j.state, j.due, j.holder = api.JobQueued, false, ""
	case call == "fail" && j.failures+1 == modelTries:
		j.failures++
		m.counts.Dead++
		m.end(j, api.JobDead, "dead", token)
	default:
		if call == "fail" {
			j.failures++
			j.failed = token
			m.counts.Retries++
		}
		j.state, j.due, j.holder = api.JobScheduled, false, ""
		m.yield(j)
	}
	return api.JobOK
}

// again is what a result is answered that is of no effect.
func (j *modelJob) again(token, call string) api.JobStatus {
	switch {
	case j.endedBy == token && j.ended == "cancelled":
		return api.JobCancelled
	case j.endedBy == token && (j.ended == "done" && call == "complete" || j.ended == "dead" && call == "fail"):
		return api.JobOK
	case !j.over() && j.failed == token && call == "fail":
		return api.JobOK
	}
	return api.JobLost
}

// over ends the present lease of a job, or its wait, by hand.
func (m *queueModel) over(t *rapid.T) {
	var some []*modelJob
	for _, j := range m.jobs {
		if (j.state == api.JobRunning || j.state == api.JobScheduled) && !j.due {
			some = append(some, j)
		}
	}
	if len(some) == 0 {
		t.Skip("none")
	}
	j := rapid.SampledFrom(some).Draw(t, "job")
	letters := m.store.Letters()
	key := letters.KeyBeside(letters.Route(m.name), "w:"+m.name+"/due")
	at := redis.Z{Score: float64(time.Now().UnixMilli()), Member: strings.TrimPrefix(j.id, m.name+".")}
	if err := m.w.db.Client().ZAddXX(context.Background(), key, at).Err(); err != nil {
		m.t.Fatal(err)
	}
	j.due = true
}

func (m *queueModel) cancel(t *rapid.T) {
	if len(m.jobs) == 0 || rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
		t.Skip("none")
	}
	j := rapid.SampledFrom(m.jobs).Draw(t, "job")
	for range tries(t) {
		want := 204
		m.settle()
		switch j.state {
		case api.JobDone, api.JobDead:
			want = 409
		case api.JobEnded:
		case api.JobRunning:
			j.cancelled = true
		default:
			m.end(j, api.JobEnded, "cancelled", j.holder)
		}
		if a := m.w.del("/v1/jobs/" + j.id); a.status != want {
			m.fail(a, "cancel")
		}
	}
}

// retry retries a dead letter.
func (m *queueModel) retry(t *rapid.T) {
	at := slices.IndexFunc(m.jobs, func(j *modelJob) bool { return j.state == api.JobDead })
	if at < 0 {
		t.Skip("none is dead")
	}
	j, letters := m.jobs[at], m.store.Letters()
	want := 202
	if m.live(j.unique) != nil {
		want = 409
	}
	for range tries(t) {
		if a := m.w.post("/v1/dead-letters/"+letters.DeadID(letters.Route(m.name), j.id)+"/retry", ""); a.status != want {
			m.fail(a, "retry")
		}
	}
	if want == 202 {
		m.seq++
		j.seq, j.failures, j.lost, j.cancelled = m.seq, 0, 0, false
		m.jobs = append(slices.Delete(m.jobs, at, at+1), j)
		m.admit(j)
	}
}

// look compares every job, and the figures of the queue.
func (m *queueModel) look(t *rapid.T) {
	if len(m.jobs) == 0 {
		t.Skip("none")
	}
	want := m.counts
	want.Queue = m.name
	want.LastHour = api.JobCounts{Enqueued: int64(m.seq), Done: want.Done, Retries: want.Retries, Recovered: want.Recovered, Dead: want.Dead}
	for _, j := range m.jobs {
		var got api.Job
		a := m.w.get("/v1/jobs/" + j.id)
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.State != j.state {
			m.fail(a, "a job")
		}
		if !j.over() && (got.Attempt != j.failures+j.lost+1 || got.Cancelled != j.cancelled) {
			m.fail(a, "a job")
		}
		switch {
		case j.state == api.JobQueued, j.due:
			want.Depth++
		case j.state == api.JobBlocked:
			want.Blocked++
		case j.state == api.JobScheduled:
			want.Scheduled++
		case j.state == api.JobRunning:
			want.Running++
		case j.state == api.JobDead:
			want.DeadLetters++
		}
	}
	a := m.w.get(m.path(""))
	var got api.JobQueue
	err := json.Unmarshal([]byte(a.body), &got)
	if got.OldestAgeMS = 0; err != nil || got != want {
		m.fail(a, fmt.Sprintf("the queue, want %+v", want))
	}
}
