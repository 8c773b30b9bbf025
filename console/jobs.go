package console

import (
	"net/http"
	"net/url"
	"strings"

	"fanfare/api"
)

// queues lists the queues of jobs.
func (v *visit) queues() error {
	var list api.JobQueueList
	if err := v.ask(http.MethodGet, "/v1/queues", nil, &list); err != nil {
		return err
	}
	return v.page("jobs", "Jobs", refreshEvery, list.Items)
}

// queuePath is the route of the page's queue.
func (v *visit) queuePath() string { return "/v1/queues/" + url.PathEscape(v.r.PathValue("queue")) }

// queue shows a queue of jobs.
func (v *visit) queue() error {
	var d struct {
		api.JobQueue
		Charts  []chart
		Minutes []api.JobMinute
	}
	if err := v.ask(http.MethodGet, v.queuePath(), nil, &d.JobQueue); err != nil {
		return err
	}
	var series api.JobQueueSeries
	if err := v.ask(http.MethodGet, v.queuePath()+"/series", nil, &series); err != nil {
		return err
	}
	d.Minutes = series.Items
	d.Charts = []chart{drawJobs(d.Minutes)}
	return v.page("queue", "Queue "+d.Queue, refreshEvery, d)
}

// drawJobs draws what a queue counted in some minutes, of which none is missing.
func drawJobs(minutes []api.JobMinute) chart {
	a := axis{}
	for _, m := range minutes {
		a.at = append(a.at, m.At.Time)
	}
	if n := len(a.at); n > 0 {
		a.first, a.last = a.at[0], a.at[n-1]
	}
	of := func(value func(*api.JobCounts) int64) func(int) *float64 {
		return func(i int) *float64 { return count(value(&minutes[i].JobCounts)) }
	}
	return a.draw("Jobs", "a minute", whole, figures{
		{"enqueued", "1", of(func(c *api.JobCounts) int64 { return c.Enqueued })},
		{"done", "2", of(func(c *api.JobCounts) int64 { return c.Done })},
		{"failed", "bad", of(failedJobs)},
	})
}

// failedJobs counts the failures after which a job is tried again, and the jobs that became dead letters.
func failedJobs(c *api.JobCounts) int64 { return c.Retries + c.Dead }

// The changes of a queue, which are the last parts of their routes and pages.
const (
	pauseQueue  = "pause"
	resumeQueue = "resume"
)

// queueDone names the sentence for a change of a queue.
var queueDone = map[string]string{pauseQueue: "paused", resumeQueue: "resumed"}

// askQueue asks whether a queue is to be paused or resumed.
func (v *visit) askQueue(change string) error {
	var queue api.JobQueue
	if err := v.ask(http.MethodGet, v.queuePath(), nil, &queue); err != nil {
		return err
	}
	title := "Pause a queue"
	if change == resumeQueue {
		title = "Resume a queue"
	}
	return v.page("change_queue", title, 0, struct {
		api.JobQueue
		Change string
	}{queue, change})
}

// changeQueue pauses or resumes a queue and shows it.
func (v *visit) changeQueue(change string) error {
	if err := v.ask(http.MethodPost, v.queuePath()+"/"+change, nil, nil); err != nil {
		return err
	}
	redirect(v.w, "../"+url.PathEscape(v.r.PathValue("queue"))+"?done="+queueDone[change])
	return nil
}

func (v *visit) askPause() error  { return v.askQueue(pauseQueue) }
func (v *visit) pause() error     { return v.changeQueue(pauseQueue) }
func (v *visit) askResume() error { return v.askQueue(resumeQueue) }
func (v *visit) resume() error    { return v.changeQueue(resumeQueue) }

// findJob goes to the page of a job.
func (v *visit) findJob() error {
	if strings.TrimSpace(v.r.URL.Query().Get("id")) == "" {
		return refuse(api.CodeValidation, "type the id of a job")
	}
	return v.find("jobs", "id")
}

// jobPath is the route of the page's job.
func (v *visit) jobPath() string { return "/v1/jobs/" + url.PathEscape(v.r.PathValue("id")) }

// job shows a job.
func (v *visit) job() error {
	d := struct {
		api.Job
		Ended, LeaseOver, Payloads bool
		// Letter is the link to the dead letter of a dead job.
		Letter string
	}{Payloads: !v.c.o.HidePayloads}
	if err := v.ask(http.MethodGet, v.jobPath(), nil, &d.Job); err != nil {
		return err
	}
	d.Ended, d.LeaseOver = ended(d.State), d.LeaseMS != nil && *d.LeaseMS == 0
	if d.State == api.JobDead {
		group := api.DeadLetterGroup{Kind: api.DeadJob, Reason: d.Reason, Type: d.Type, Queue: d.Queue}
		d.Letter = linkOf(&group) + "#" + url.PathEscape(d.ID)
	}
	refresh := refreshEvery
	if d.Ended {
		refresh = 0
	}
	return v.page("job", "Job "+d.ID, refresh, d)
}

// jobOf is the id of the job in that of its dead letter, which has a name and a shard before it.
func jobOf(letter string) string {
	parts := strings.SplitN(letter, ".", 3)
	return parts[len(parts)-1]
}

// ended reports whether a job can change only if its dead letter is retried.
func ended(state api.JobState) bool {
	return state == api.JobDone || state == api.JobEnded || state == api.JobDead
}

// askCancelJob asks whether a job is to be cancelled.
func (v *visit) askCancelJob() error {
	d := struct {
		api.Job
		Ended bool
	}{}
	if err := v.ask(http.MethodGet, v.jobPath(), nil, &d.Job); err != nil {
		return err
	}
	d.Ended = ended(d.State)
	return v.page("cancel_job", "Cancel a job", 0, d)
}

// cancelJob cancels a job and shows what became of it.
func (v *visit) cancelJob() error {
	if err := v.ask(http.MethodDelete, v.jobPath(), nil, nil); err != nil {
		return err
	}
	redirect(v.w, "../"+url.PathEscape(v.r.PathValue("id"))+"?done=ended")
	return nil
}
