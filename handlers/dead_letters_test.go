package handlers_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/deadletters"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustDie gives up n jobs of a queue, one after the other.
func mustDie(t *testing.T, q *queue.Queue, n int) { t.Helper(); mustDieBy(t, q, n, "test", "") }

// mustDieAs gives up one more job, of an event of a type and an app.
func mustDieAs(t *testing.T, q *queue.Queue, eventType, app, reason string) {
	t.Helper()
	mustDieBy(t, q, 1, reason, queue.ClassOf(eventType, app))
}

func mustDieBy(t *testing.T, q *queue.Queue, n int, reason, class string) {
	t.Helper()
	before, err := q.Stats(t.Context())
	storetest.Must(t, err)
	for i := range n {
		_, err := q.Enqueue(t.Context(), queue.Job{Type: "t", Payload: fmt.Appendf(nil, `{"n":%d}`, i)})
		storetest.Must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		stopped <- q.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			c.Class = class
			return queue.Result{Outcome: queue.Dead, Reason: reason, Err: "it would not"}
		}))
	}()
	storetest.Eventually(t, 30*time.Second, "all are dead", func() bool {
		after, err := q.Stats(t.Context())
		return err == nil && after.DeadLetters == before.DeadLetters+int64(n)
	})
	cancel()
	storetest.Must(t, <-stopped)
}

var deadID = regexp.MustCompile(`"id":"([^"]+)"`)

// deadIDs lists the ids in a list's body.
func deadIDs(a answer) (ids []string) {
	for _, m := range deadID.FindAllStringSubmatch(a.body, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const path = "/v1/dead-letters"
		w.get(path).wants(t, 200, `{"items":[]}`)
		mustDie(t, w.queue, 1)
		mustDie(t, w.jobs, 2)
		letter := func(kind string) string {
			return `{"id":"*","kind":"` + kind + `","reason":"test","attempts":"*","last_error":"it would not","failed_at":"*","payload":{"n":"*"}}`
		}
		all := w.get(path).wants(t, 200, `{"items":[`+letter("task")+`,`+letter("task")+`,`+letter("event")+`]}`)
		w.get(path+"?kind=event").wants(t, 200, `{"items":[`+letter("event")+`]}`)
		w.get(path+"?kind=notification").wants(t, 200, `{"items":[]}`)

		t.Run("pages hold each once, newest first", func(t *testing.T) {
			var seen []string
			for next := path + "?limit=1"; ; {
				a := w.get(next)
				seen = append(seen, deadIDs(a)...)
				cursor := a.member(t, "next")
				if cursor == "" || len(seen) > 3 {
					break
				}
				next = path + "?limit=1&cursor=" + cursor
			}
			if got, want := strings.Join(seen, " "), strings.Join(deadIDs(all), " "); got != want {
				t.Errorf("pages held %s, want %s", got, want)
			}
		})
		t.Run("cursors that the list never gave", func(t *testing.T) {
			bad := problem(api.CodeValidation, "*", `"errors":[{"field":"cursor","rule":"cursor","message":"*"}]`)
			for _, inner := range []string{`null`, `{"event":{"c":"-5-3-0"}}`, `{"event":{"c":"5--3-0"}}`, `{"event":{"c":"5-3--1"}}`} {
				w.get(path+"?cursor="+base64.RawURLEncoding.EncodeToString([]byte("1"+inner))).wants(t, 422, bad)
			}
		})
		ids := deadIDs(all)
		if len(ids) != 3 {
			t.Fatal(all.body)
		}
		retry := path + "/" + ids[0] + "/retry"
		t.Run("retry", func(t *testing.T) {
			w.post(retry, "", "Idempotency-Key: r").wants(t, 202, `{"id":"`+ids[0]+`"}`)
			again := w.post(retry, "", "Idempotency-Key: r").wants(t, 202, `{"id":"`+ids[0]+`"}`)
			if again.header.Get("Idempotent-Replayed") != "true" {
				t.Error("does not say that it is a replay")
			}
			empty := w.post(retry, `{}`, "Idempotency-Key: r").wants(t, 202, `{"id":"`+ids[0]+`"}`)
			if empty.header.Get("Idempotent-Replayed") != "true" {
				t.Error("an empty object is called another request than no body")
			}
		})
		t.Run("the key of one letter says nothing of another", func(t *testing.T) {
			a := w.post(path+"/"+ids[2]+"/retry", "", "Idempotency-Key: r").wants(t, 202, `{"id":"`+ids[2]+`"}`)
			if a.header.Get("Idempotent-Replayed") != "" {
				t.Error("another letter's retry is called a replay")
			}
		})
		t.Run("delete", func(t *testing.T) {
			w.del(path+"/"+ids[1]).wants(t, 204, "")
			w.get(path).wants(t, 200, `{"items":[]}`)
			w.del(path+"/"+ids[1]).wants(t, 404, problem(api.CodeNotFound, "no dead letter "+ids[1]))
		})
		t.Run("unknown", func(t *testing.T) {
			for _, id := range []string{"x", "events.0.nobody", "events.99.x", "sales.0.x"} {
				w.post(path+"/"+id+"/retry", "").wants(t, 404, problem(api.CodeNotFound, "no dead letter "+id))
				w.del(path+"/"+id).wants(t, 404, problem(api.CodeNotFound, "no dead letter "+id))
			}
		})
	})
}

// N14: letters are found by what they are about, and counted by it. Reading them needs ops:read alone.
func TestN14_DeadLettersByClass(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const path = "/v1/dead-letters"
		w.get(path+"/groups").wants(t, 200, `{"items":[]}`)
		for range 3 {
			mustDieAs(t, w.queue, "likes", "", "unknown_audience")
		}
		for range 2 {
			mustDieAs(t, w.notifications, "likes", "shop/production", "BadPath")
		}
		mustDieAs(t, w.notifications, "news", "shop/fcm", "BadPath")
		mustDieAs(t, w.jobs, "", "", "bad_payload")
		group := func(kind, reason, eventType, app string, n int) string {
			about := ""
			if eventType != "" {
				about = fmt.Sprintf(`"type":%q,`, eventType)
			}
			if app != "" {
				about += fmt.Sprintf(`"app":%q,`, app)
			}
			return fmt.Sprintf(`{"kind":%q,"reason":%q,%s"count":%d}`, kind, reason, about, n)
		}
		reader := "Authorization: Bearer " + w.mustKey(api.ScopeOpsRead)
		w.do(get(path+"/groups").with(reader)).wants(t, 200, `{"items":[`+strings.Join([]string{
			group("event", "unknown_audience", "likes", "", 3), group("notification", "BadPath", "likes", "shop/production", 2),
			group("notification", "BadPath", "news", "shop/fcm", 1), group("task", "bad_payload", "", "", 1)}, ",")+`]}`)
		for query, want := range map[string]int{
			"type=likes": 5, "type=likes&kind=event": 3, "app=shop": 3, "app=shop/fcm": 1, "app=shop/production&type=news": 0,
			"reason=BadPath": 3, "reason=bad_payload&type=likes": 0, "app=sho": 0, "type=nothing": 0,
		} {
			if a := w.do(get(path + "?" + query).with(reader)); a.status != 200 || len(deadIDs(a)) != want {
				t.Errorf("%s: %d with %d letters, want %d", query, a.status, len(deadIDs(a)), want)
			}
		}
		w.do(get(path+"?app=shop/fcm").with(reader)).wants(t, 200, `{"items":[{"id":"*","kind":"notification","reason":"BadPath","type":"news","app":"shop/fcm",`+
			`"attempts":"*","last_error":"it would not","failed_at":"*","payload":"*"}]}`)
		for _, query := range []string{"type=a%20b", "kind=x", "app=" + strings.Repeat("a", 513), "reason=" + strings.Repeat("a", 257)} {
			if a := w.do(get(path + "?" + query).with(reader)); a.status != 422 {
				t.Errorf("%s: %d", query, a.status)
			}
		}
		w.do(get(path+"/groups").with("Authorization: Bearer "+w.mustKey(api.ScopePush))).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"ops:read"`))
	})
}

// mustWorkLetters does operations on dead letters until the test ends.
func (w *world) mustWorkLetters() {
	q := mustQueue(w.t, w.db, "jobs")
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- q.Run(ctx, queue.ByType(w.letters.Handlers())) }()
	w.t.Cleanup(func() { cancel(); storetest.Must(w.t, <-stopped) })
}

// N15: all letters that fit are retried or deleted by one call, and the operation says how far it has come.
func TestN15_ManyDeadLetters(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		for range 3 {
			mustDieAs(t, w.queue, "likes", "", "A")
		}
		mustDieAs(t, w.notifications, "likes", "shop/production", "A")
		mustDieAs(t, w.notifications, "news", "shop/production", "B")
		w.mustWorkLetters()
		newest := time.Now().Add(time.Millisecond)
		storetest.Eventually(t, time.Minute, "that is long ago, also by a clock that was read slowly", func() bool { return time.Since(newest) > time.Second })
		before := newest.UTC().Format(time.RFC3339Nano)
		body := func(filter string, expect int) string {
			return fmt.Sprintf(`{%s,"before":%q,"expect":%d}`, filter, before, expect)
		}
		key := "Authorization: Bearer " + w.mustKey(api.ScopeOps)
		const retry, remove = "/v1/dead-letters/retry", "/v1/dead-letters/delete"
		done := func(id, action string, matched int) {
			t.Helper()
			reader := "Authorization: Bearer " + w.mustKey(api.ScopeOpsRead)
			storetest.Eventually(t, time.Minute, "the operation is done", func() bool {
				return w.do(get("/v1/operations/"+id).with(reader)).member(t, "state") == "done"
			})
			w.do(get("/v1/operations/"+id).with(reader)).wants(t, 200, fmt.Sprintf(`{"id":%q,"action":%q,"state":"done","begun_at":"*","matched":%d,"left":0}`, id, action, matched))
			other := "Authorization: Bearer " + w.mustKey(api.ScopePush)
			w.do(get("/v1/operations/"+id).with(other)).wants(t, 403, problem(api.CodeForbidden, "this API key lacks the scope ops", `"scope":"ops"`))
		}

		t.Run("more than expected", func(t *testing.T) {
			w.post(remove, body(`"reason":"A"`, 3), key).wants(t, 409, problem(api.CodeChanged, "4 dead letters match, more than the 3 that were expected", `"matched":4`))
			w.post(retry, body(`"all":true`, 0), key).wants(t, 409, problem(api.CodeChanged, "*", `"matched":5`))
		})
		t.Run("a key makes it safe to repeat, whatever has changed", func(t *testing.T) {
			first := w.post(remove, body(`"kind":"event","type":"likes"`, 3), key, "Idempotency-Key: k").wants(t, 202, `{"operation":"*","matched":3}`)
			id := first.member(t, "operation")
			if first.header.Get("Location") != "/v1/operations/"+id {
				t.Errorf("Location: %s", first.header.Get("Location"))
			}
			done(id, "dead_letters.delete", 3)
			again := w.post(remove, body(`"kind":"event","type":"likes"`, 3), key, "Idempotency-Key: k").wants(t, 202, first.body)
			if again.header.Get("Idempotent-Replayed") != "true" {
				t.Error("does not say that it is a replay")
			}
			w.post(remove, body(`"kind":"event"`, 3), key, "Idempotency-Key: k").wants(t, 422, problem(api.CodeIdempotencyReused, "this Idempotency-Key was used with another body"))
			if n := strings.Count(w.log.String(), `"msg":"change","action":"dead_letters.delete","target":"`+id+`"`); n != 1 {
				t.Errorf("%d lines about the change", n)
			}
		})
		t.Run("retry, with fewer than expected", func(t *testing.T) {
			id := w.post(retry, body(`"app":"shop","reason":"A"`, 9), key).wants(t, 202, `{"operation":"*","matched":1}`).member(t, "operation")
			done(id, "dead_letters.retry", 1)
			w.get("/v1/dead-letters/groups").wants(t, 401, problem(api.CodeUnauthorized, "*"))
			w.do(get("/v1/dead-letters/groups").with(key)).wants(t, 200, `{"items":[{"kind":"notification","reason":"B","type":"news","app":"shop/production","count":1}]}`)
			if s, err := w.notifications.Stats(t.Context()); err != nil || s.Depth != 1 {
				t.Errorf("%d are queued, %v", s.Depth, err)
			}
		})
		t.Run("all", func(t *testing.T) {
			done(w.post(remove, body(`"all":true`, 1), key).wants(t, 202, `{"operation":"*","matched":1}`).member(t, "operation"), "dead_letters.delete", 1)
			w.do(get("/v1/dead-letters").with(key)).wants(t, 200, `{"items":[]}`)
		})
	})
}

// N15: input that is wrong is refused, naming the field, and begins nothing.
func TestN15_BadInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	now := time.Now().UTC()
	past, future := now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)
	for _, path := range []string{"/v1/dead-letters/retry", "/v1/dead-letters/delete"} {
		for body, fields := range map[string]string{
			`{"all":true,"before":"` + future + `","expect":0}`:                                "before",
			`{"all":true,"expect":0}`:                                                          "before",
			`{"all":true,"before":"` + past + `"}`:                                             "expect",
			`{"all":true,"before":"` + past + `","expect":-1}`:                                 "expect",
			`{"before":"` + past + `","expect":0}`:                                             "all",
			`{"all":false,"before":"` + past + `","expect":0}`:                                 "all",
			`{"kind":"","reason":"","before":"` + past + `","expect":0}`:                       "all",
			`{"kind":"letter","before":"` + past + `","expect":0}`:                             "kind",
			`{"queue":"a b","before":"` + past + `","expect":0}`:                               "queue",
			`{"queue":"a","kind":"task","before":"` + past + `","expect":0}`:                   "queue",
			`{"type":"a b","before":"` + past + `","expect":0}`:                                "type",
			`{"app":"` + strings.Repeat("a", 513) + `","before":"` + past + `","expect":0}`:    "app",
			`{"reason":"` + strings.Repeat("a", 257) + `","before":"` + past + `","expect":0}`: "reason",
			`{}`: "all before expect",
		} {
			a := w.post(path, body)
			var p api.Problem
			storetest.Must(t, json.Unmarshal([]byte(a.body), &p))
			var got []string
			for _, e := range p.Errors {
				got = append(got, e.Field)
			}
			if slices.Sort(got); a.status != 422 || p.Code != api.CodeValidation || strings.Join(got, " ") != fields {
				t.Errorf("%s %s: %d %s", path, body, a.status, a.body)
			}
		}
		w.post(path, `{"all":true,"before":"yesterday","expect":0}`).wants(t, 400, problem(api.CodeInvalidJSON, "*", `"errors":[{"field":"before","rule":"json","message":"*"}]`))
		w.post(path, `{"all":true,"before":"`+past+`","expect":0,"limit":1}`).wants(t, 400, problem(api.CodeInvalidJSON, "*", `"errors":[{"field":"limit","rule":"json","message":"*"}]`))
	}
	if s, err := w.jobs.Stats(t.Context()); err != nil || s.Depth != 0 {
		t.Errorf("%d operations have begun, %v", s.Depth, err)
	}
	unknown := queue.NewID(1, now)
	w.get("/v1/operations/"+unknown).wants(t, 404, problem(api.CodeNotFound, "there is no operation "+unknown+", or it is no longer kept"))
	unknown = queue.NewID(200, now) // of a shard that there is not
	w.get("/v1/operations/"+unknown).wants(t, 404, problem(api.CodeNotFound, "*"))
}

// mustDieInQueue writes a dead letter of a callers' queue, as store/jobs does.
func (w *world) mustDieInQueue(letters *queue.Queue, id, name, kind string) {
	w.t.Helper()
	c, ctx := w.db.Client(), w.t.Context()
	key := func(part string) string { return letters.KeyBeside(letters.Route(name), part) }
	eid, err := c.XAdd(ctx, &redis.XAddArgs{Stream: key("dead"), Values: []any{
		"i", id, "t", kind, "k", "", "u", "", "g", "", "w", "8", "s", "1", "a", "", "p", `[1]`, "reason", "max_attempts", "err", "refused",
		"label", "job", "attempts", 8, "fence", 17, "report", "", "class", queue.ClassOf(kind, name),
	}}).Result()
	storetest.Must(w.t, err)
	storetest.Must(w.t, c.HSet(ctx, key("deadids"), id, eid).Err())
	storetest.Must(w.t, c.ZAdd(ctx, key("deadof:"+name), redis.Z{Member: eid}).Err())
}

// J9: dead jobs of callers' queues are dead letters of the kind job, with their queue, beside those of fanfare's own.
func TestJ9_DeadJobsOfCallersQueues(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	work := queue.New(db, queue.Options{Name: "work", Kind: api.DeadJob, Shards: 64})
	var letters *deadletters.Store
	w := setupOn(t, db, func(o *handlers.Options) {
		o.DeadQueues = append(slices.Clone(o.Queues), work)
		letters = deadletters.New(deadletters.Options{Queues: o.DeadQueues, Jobs: o.Queues[2]})
		o.DeadLetters = letters
	})
	w.letters = letters
	mustDieAs(t, w.notifications, "send", "emails/production", "BadTopic")
	w.mustDieInQueue(work, "emails.a", "emails", "send")
	w.mustDieInQueue(work, "emails.b", "emails", "bounce")
	w.mustDieInQueue(work, "invoices.c", "invoices", "send")
	w.mustWorkLetters()

	const path = "/v1/dead-letters"
	shard := fmt.Sprint(work.Route("invoices"))
	w.get(path+"?queue=invoices").wants(t, 200, `{"items":[{"id":"work.`+shard+`.invoices.c","kind":"job","reason":"max_attempts","type":"send","queue":"invoices",`+
		`"attempts":8,"last_error":"refused","failed_at":"*","payload":[1]}]}`)
	for query, want := range map[string]int{
		"": 4, "?kind=job": 3, "?queue=emails": 2, "?queue=emails&kind=job&type=send": 1, "?queue=email": 0, "?app=emails": 1, "?type=send": 3, "?kind=task": 0, "?queue=emails&app=emails": 0,
	} {
		if a := w.get(path + query); a.status != 200 || len(deadIDs(a)) != want {
			t.Errorf("%s: %d with %d letters, want %d", query, a.status, len(deadIDs(a)), want)
		}
	}
	w.get(path+"/groups").wants(t, 200, `{"items":[{"kind":"notification","reason":"BadTopic","type":"send","app":"emails/production","count":1},`+
		`{"kind":"job","reason":"max_attempts","type":"bounce","queue":"emails","count":1},{"kind":"job","reason":"max_attempts","type":"send","queue":"emails","count":1},`+
		`{"kind":"job","reason":"max_attempts","type":"send","queue":"invoices","count":1}]}`)
	if stats := w.get("/v1/stats"); strings.Contains(stats.body, `"work"`) || strings.Contains(w.scrape(t, "fanfare_queue_depth{"), `queue="work"`) {
		t.Error("the queue of dead letters alone is among the queues")
	}

	t.Run("a queue beside another kind", func(t *testing.T) {
		refused := problem(api.CodeValidation, "queue is for the kind job alone", `"errors":[{"field":"queue","rule":"job","message":"is for the kind job alone"}]`)
		w.get(path+"?queue=emails&kind=task").wants(t, 422, refused)
		w.get(path+"?queue=a%20b").wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"queue","rule":"identifier","message":"*"}]`))
		for _, action := range []string{"/retry", "/delete"} {
			w.post(path+action, `{"kind":"event","queue":"emails","before":"2026-01-01T00:00:00Z","expect":0}`).wants(t, 422, refused)
		}
	})
	t.Run("one", func(t *testing.T) {
		w.del(path+"/work."+shard+".invoices.c").wants(t, 204, "")
		w.del(path+"/work."+shard+".invoices.c").wants(t, 404, problem(api.CodeNotFound, "*"))
	})
	t.Run("many", func(t *testing.T) {
		now, err := work.Now(t.Context(), 0)
		storetest.Must(t, err)
		storetest.Eventually(t, time.Minute, "the letters are older", func() bool { return time.Since(now) > time.Second })
		body := `{"queue":"emails","before":"` + now.Add(time.Millisecond).UTC().Format(time.RFC3339Nano) + `","expect":2}`
		id := w.post(path+"/delete", body).wants(t, 202, `{"operation":"*","matched":2}`).member(t, "operation")
		storetest.Eventually(t, time.Minute, "the operation is done", func() bool { return w.get("/v1/operations/"+id).member(t, "state") == "done" })
		if left := deadIDs(w.get(path)); len(left) != 1 || !strings.HasPrefix(left[0], "notifications.") {
			t.Errorf("left: %q", left)
		}
	})
}
