package handlers_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"fanfare/api"
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
		all := w.get(path).wants(t, 200, `{"items":[`+letter("job")+`,`+letter("job")+`,`+letter("event")+`]}`)
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
			return fmt.Sprintf(`{"kind":%q,"reason":%q,"type":%q,"app":%q,"count":%d}`, kind, reason, eventType, app, n)
		}
		reader := "Authorization: Bearer " + w.mustKey(api.ScopeOpsRead)
		w.do(get(path+"/groups").with(reader)).wants(t, 200, `{"items":[`+strings.Join([]string{
			group("event", "unknown_audience", "likes", "", 3), group("notification", "BadPath", "likes", "shop/production", 2),
			group("notification", "BadPath", "news", "shop/fcm", 1), group("job", "bad_payload", "", "", 1)}, ",")+`]}`)
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
