package handlers_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustFail posts an event of which a notification failed for each of the reasons, and returns its id.
func (w *world) mustFail(reasons ...string) string {
	w.t.Helper()
	id := w.post("/v1/events", `{"type":"photo.shared","alert":{"title":"T"},"audience":{"users":["bob"]}}`).member(w.t, "id")
	ctx, cancel := context.WithCancel(w.t.Context())
	stopped := make(chan error, 1)
	go func() {
		stopped <- w.queue.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			j, err := events.JobOf(c)
			if err != nil || c.ID != id {
				return queue.Result{Outcome: queue.Release}
			}
			var sent events.Sent
			for _, why := range reasons {
				sent.Make(api.PlatformAPNs, 1)
				sent.Count(events.FailedBy("other"))
				sent.Fail(events.Failed{User: "bob", Token: api.ShortToken(token), Platform: api.PlatformAPNs, Topic: "com.example.app",
					Environment: api.EnvSandbox, Reason: why, At: time.Now().UnixMilli(), Attempts: 1})
			}
			return j.End(events.Counts{Recipients: 1}, sent, true, time.Hour)
		}))
	}()
	storetest.Eventually(w.t, 30*time.Second, "the event to be done", func() bool {
		return strings.Contains(w.get("/v1/events/"+id).body, `"state":"done"`)
	})
	cancel()
	storetest.Must(w.t, <-stopped)
	return id
}

// The list of who failed over HTTP: whole items, pages, scopes and what is refused.
func TestN21_WhoFailed(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		id := w.mustFail("Unregistered", "BadDeviceToken", "<b>")
		path := "/v1/events/" + id + "/notifications?state=failed"
		item := func(reason string) string {
			return `{"user":"bob","token":"` + token[:8] + `","platform":"apns","topic":"com.example.app","environment":"sandbox","state":"failed","reason":"` + reason + `","at":"*","attempts":1}`
		}
		w.get(path).wants(t, 200, `{"items":[`+item("Unregistered")+`,`+item("BadDeviceToken")+`,`+item("<b>")+`],"complete":true}`)
		first := w.get(path + "&limit=2")
		first.wants(t, 200, `{"items":[`+item("Unregistered")+`,`+item("BadDeviceToken")+`],"complete":true,"next":"*"}`)
		w.get(path+"&limit=2&cursor="+first.member(t, "next")).wants(t, 200, `{"items":[`+item("<b>")+`],"complete":true}`)
		other := w.post("/v1/events", `{"type":"t","alert":{"title":"T"},"audience":{"users":["bob"]}}`).member(t, "id")
		w.get("/v1/events/"+other+"/notifications?state=failed").wants(t, 200, `{"items":[],"complete":true}`)

		listed := func(query string, ids ...string) {
			t.Helper()
			var got []string
			for _, m := range eventID.FindAllStringSubmatch(w.get("/v1/events?"+query).body, -1) {
				got = append(got, m[1])
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(ids))) { // both may be of one millisecond
				t.Errorf("%s lists %v, want %v", query, got, ids)
			}
		}
		listed("failed=true", id)
		listed("failed=false", other)
		listed("", other, id)
		broken := func(field, rule string) string {
			return problem(api.CodeValidation, "*", `"errors":[{"field":"`+field+`","rule":"`+rule+`","message":"*"}]`)
		}
		w.get("/v1/events?failed=yes").wants(t, 422, broken("failed", "oneof"))
		w.get("/v1/events/"+id+"/notifications").wants(t, 422, broken("state", "required"))
		w.get("/v1/events/"+id+"/notifications?state=delivered").wants(t, 422, broken("state", "oneof"))
		w.get(path+"&cursor=MXg").wants(t, 422, broken("cursor", "cursor"))
		w.get("/v1/events/"+queue.NewID(0, time.Now())+"/notifications?state=failed").wants(t, 404, problem(api.CodeNotFound, "*"))
		for scopes, status := range map[string]int{"push ops:read": 200, "ops:read": 403, "push": 403} {
			var list []api.Scope
			for s := range strings.FieldsSeq(scopes) {
				list = append(list, api.Scope(s))
			}
			if a := w.do(get(path).with("Authorization: Bearer " + w.mustKey(list...))); a.status != status {
				t.Errorf("%s: %d, want %d: %s", scopes, a.status, status, a.body)
			}
		}
	})
}

// The page of an event says who failed, with a link to the user, and to the rest.
func TestN1_WhoFailedOnThePageOfAnEvent(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	id := w.mustFail(strings.Split(strings.Repeat("Unregistered,", 11)+"BadDeviceToken", ",")...)
	page := w.page("/console/events/" + id).body
	if n := strings.Count(page, `users/bob">bob</a>`); n != 10 || !strings.Contains(page, `href="./../events/`+id+`/failed"`) || !strings.Contains(page, token[:8]) {
		t.Errorf("%d failures on the page:\n%s", n, page)
	}
	all := w.page("/console/events/" + id + "/failed").body
	if n := strings.Count(all, `users/bob">bob</a>`); n != 12 || !strings.Contains(all, "BadDeviceToken") {
		t.Errorf("%d failures on their own page:\n%s", n, all)
	}
	if list := w.page("/console/events?failed=true").body; !strings.Contains(list, `<a href="./events/`+id+`"><time`) || !strings.Contains(list, `<td class="n bad">12</td>`) || strings.Contains(list, "Cancelled</th>") {
		t.Errorf("the list:\n%s", list)
	}
}
