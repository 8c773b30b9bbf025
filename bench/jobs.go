package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	"fanfare/api"
)

// jobs compares jobs over HTTP, each enqueued, claimed and completed, with a stream by hand behind a bare handler, and with
// asynq and River, each in one process.
func jobs(w *world) sample {
	s := w.stage(plan{bare: true, env: apiRole})
	asynq, store := filepath.Join(w.dir, "asynq"), w.redis()
	w.build("bench/asynq", asynq)
	river, database := filepath.Join(w.dir, "river"), w.postgres()
	w.build("bench/river", river)
	riverside := func(what string) *side {
		return &side{name: "river " + what, run: func(d time.Duration) sample { return w.figures(river, what, database, d.String()) }}
	}
	return w.turns(
		s.living("hundreds", s.server, 16, 100), s.living("bare hundreds", s.bare, 16, 100),
		s.living("singles", s.server, connections, 1), s.living("bare singles", s.bare, connections, 1),
		s.pickingUp(),
		&side{name: "asynq", run: func(d time.Duration) sample { return w.figures(asynq, "singles", store.Addr(), d.String()) }},
		riverside("hundreds"), riverside("singles"),
	)
}

// aJob is a job as it is enqueued.
const aJob = `{"type":"invoice","payload":{"invoice":"2026-01","customer":42}}`

// living is a side of callers that enqueue, claim and complete n jobs a turn.
func (s *stage) living(name string, to *process, callers, n int) *side {
	queue := "/v1/queues/" + strings.ReplaceAll(name, " ", "-")
	enqueue, claim := request(http.MethodPost, queue+"/jobs", aJob), request(http.MethodPost, queue+"/claims", fmt.Sprintf(`{"worker":"w","max":%d}`, n))
	if n > 1 {
		enqueue = request(http.MethodPost, queue+"/jobs/batch", `{"jobs":[`+listed(n, func(int) string { return aJob })+`]}`)
	}
	one := s.flood(name, to, http.StatusOK)
	one.callers, one.each = callers, int64(n)
	one.call = func(c *caller, _ int) {
		must(c.send(enqueue, http.StatusAccepted))
		for left := n; left > 0; {
			must(c.send(claim, http.StatusOK))
			var claimed api.ClaimedJobs
			must(json.Unmarshal(c.body, &claimed))
			if len(claimed.Jobs) == 0 { // other callers have taken more than their own
				return
			}
			left -= len(claimed.Jobs)
			results := listed(len(claimed.Jobs), func(i int) string {
				return `{"id":"` + claimed.Jobs[i].ID + `","token":"` + claimed.Jobs[i].Token + `","outcome":"complete"}`
			})
			c.call(http.MethodPost, queue+"/results", `{"results":[`+results+`]}`, http.StatusOK)
		}
	}
	return one
}

// waitingWorkers are those of pickingUp.
const waitingWorkers = 16

// pickingUp is a load of single jobs at even intervals while workers wait. A call lasts until a worker has its job.
func (s *stage) pickingUp() *side {
	one := &side{name: "pick-up", servers: []*process{s.server}, rate: pace}
	var waiting sync.Map // by number of the job, a chan time.Time
	one.call = func(c *caller, n int) {
		begun := make(chan time.Time, 1)
		waiting.Store(strconv.Itoa(n), begun)
		c.call(http.MethodPost, "/v1/queues/pick-up/jobs", fmt.Sprintf(`{"type":"t","payload":%d}`, n), http.StatusAccepted)
		c.ended = moment(s.ctx, begun)
	}
	work := func(ctx context.Context) {
		c := dial(ctx, s.server.addr)
		for ctx.Err() == nil {
			if c.send(request(http.MethodPost, "/v1/queues/pick-up/claims", `{"worker":"w","wait_ms":20000}`), http.StatusOK) != nil {
				return // the round is over
			}
			at := time.Now()
			var claimed api.ClaimedJobs
			must(json.Unmarshal(c.body, &claimed))
			for _, j := range claimed.Jobs {
				if begun, ok := waiting.LoadAndDelete(string(j.Payload)); ok {
					begun.(chan time.Time) <- at
				}
				c.call(http.MethodPost, "/v1/queues/pick-up/results", `{"results":[{"id":"`+j.ID+`","token":"`+j.Token+`","outcome":"complete"}]}`, http.StatusOK)
			}
		}
	}
	one.run = func(d time.Duration) sample {
		ctx, stop := context.WithCancel(s.ctx)
		var workers sync.WaitGroup
		for range waitingWorkers {
			workers.Go(func() { work(ctx) })
		}
		found := one.load(ctx, d)
		stop()
		workers.Wait()
		return found
	}
	return one
}

// bareJobs are the routes of the bare server for jobs: a stream by hand, whose pending list says who has what.
func bareJobs(db *redis.Client, handle func(method, path string, status int, answer func(r *http.Request, body []byte) (string, error))) {
	const group, consumer = "g", "w"
	add := func(ctx context.Context, queue string, jobs []api.JobRequest) error {
		_, err := db.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, j := range jobs {
				p.XAdd(ctx, &redis.XAddArgs{Stream: queue, Values: []any{"t", j.Type, "p", []byte(j.Payload)}})
			}
			return nil
		})
		return err
	}
	handle("POST", "/v1/queues/{queue}/jobs", http.StatusAccepted, func(r *http.Request, body []byte) (string, error) {
		var one api.JobRequest
		if err := json.Unmarshal(body, &one); err != nil {
			return "", err
		}
		return `{"id":"emails.06f8k2m3v0q7d1h9r5t4u2s8ao"}`, add(r.Context(), queueOf(r), []api.JobRequest{one})
	})
	handle("POST", "/v1/queues/{queue}/jobs/batch", http.StatusAccepted, func(r *http.Request, body []byte) (string, error) {
		var batch api.JobBatchRequest
		if err := json.Unmarshal(body, &batch); err != nil {
			return "", err
		}
		items := listed(len(batch.Jobs), func(int) string { return `{"id":"emails.06f8k2m3v0q7d1h9r5t4u2s8ao"}` })
		return `{"items":[` + items + `]}`, add(r.Context(), queueOf(r), batch.Jobs)
	})
	handle("POST", "/v1/queues/{queue}/claims", http.StatusOK, func(r *http.Request, body []byte) (string, error) {
		var asked api.JobClaim
		if err := json.Unmarshal(body, &asked); err != nil || asked.Max == nil {
			return "", errors.Join(err, errors.New("nothing is asked for"))
		}
		read := &redis.XReadGroupArgs{Group: group, Consumer: consumer, Streams: []string{queueOf(r), ">"}, Count: *asked.Max, Block: -1}
		found, err := db.XReadGroup(r.Context(), read).Result()
		if err != nil && strings.HasPrefix(err.Error(), "NOGROUP") {
			db.XGroupCreateMkStream(r.Context(), queueOf(r), group, "0") // another caller may have been faster
			found, err = db.XReadGroup(r.Context(), read).Result()
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return "", err
		}
		claimed := api.ClaimedJobs{Jobs: []api.ClaimedJob{}}
		for _, stream := range found {
			for _, m := range stream.Messages {
				kind, _ := m.Values["t"].(string)
				payload, _ := m.Values["p"].(string)
				claimed.Jobs = append(claimed.Jobs, api.ClaimedJob{ID: m.ID, Token: "1767366245000000", Fence: 1767366245000000, Attempt: 1, Type: kind, Payload: json.RawMessage(payload), LeaseMS: 30_000})
			}
		}
		text, err := json.Marshal(claimed)
		return string(text), err
	})
	handle("POST", "/v1/queues/{queue}/results", http.StatusOK, func(r *http.Request, body []byte) (string, error) {
		var results api.JobResults
		if err := json.Unmarshal(body, &results); err != nil {
			return "", err
		}
		ids := made(len(results.Results), func(i int) string { return results.Results[i].ID })
		_, err := db.Pipelined(r.Context(), func(p redis.Pipeliner) error {
			p.XAck(r.Context(), queueOf(r), group, ids...)
			p.XDel(r.Context(), queueOf(r), ids...)
			return nil
		})
		return `{"results":[` + listed(len(ids), func(i int) string { return `{"id":"` + ids[i] + `","status":"ok"}` }) + `]}`, err
	})
}

// queueOf is the stream of a request's queue.
func queueOf(r *http.Request) string { return "bare:queue:" + chi.URLParam(r, "queue") }
