package handlers_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"fanfare/api"
)

// An event type has an ETag. If-Match and If-None-Match are optional: a PUT without them replaces
// what is there.
func TestEventTypesHaveETags(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const path = "/v1/event-types/photo.shared"
		typed := func(title string, revision int) string {
			return fmt.Sprintf(`{"type":"photo.shared","title":"%s","push_type":"alert","collapse":true,"retry_unknown":true,"revision":%d,"created_at":"*","updated_at":"*"}`, title, revision)
		}
		send := func(method, title string, headers ...string) answer {
			t.Helper()
			c := call{method: method, path: path}.with(headers...)
			if title != "" {
				c.body = `{"title":"` + title + `"}`
			}
			return w.do(c)
		}
		refused := func(a answer, title string, revision int) {
			t.Helper()
			a.wants(t, 412, problem(api.CodeVersionMismatch, "the event type is not the one that the condition asks for",
				fmt.Sprintf(`"version":%d,"event_type":%s`, revision, typed(title, revision))))
			wantHeader(t, a, "ETag", fmt.Sprintf(`"%d"`, revision))
		}
		absent := func(a answer) {
			t.Helper()
			a.wants(t, 412, problem(api.CodeVersionMismatch, "the event type is not the one that the condition asks for"))
		}

		absent(send("PUT", "a", `If-Match: *`))
		first := send("PUT", "a", `If-None-Match: *`).wants(t, 201, typed("a", 1)).header.Get("ETag")
		refused(send("PUT", "b", `If-None-Match: *`), "a", 1)
		wantHeader(t, send("PUT", "a").wants(t, 200, typed("a", 1)), "ETag", first) // nothing has changed

		wantHeader(t, w.get(path).wants(t, 200, typed("a", 1)), "ETag", first)
		if a := send("GET", "", "If-None-Match: "+first); a.status != 304 || a.body != "" || a.header.Get("ETag") != first {
			t.Errorf("unchanged: %d %v %s", a.status, a.header, a.body)
		}
		second := send("PUT", "b", "If-Match: "+first).wants(t, 200, typed("b", 2)).header.Get("ETag")
		if a := send("GET", "", "If-None-Match: "+first).wants(t, 200, typed("b", 2)); second == first || a.header.Get("ETag") != second {
			t.Errorf("ETag %s after %s", second, first)
		}
		refused(send("PUT", "c", "If-Match: "+first), "b", 2)
		refused(send("PUT", "c", `If-Match: W/"2"`), "b", 2)
		refused(send("PUT", "c", `If-None-Match: "2"`), "b", 2)
		send("PUT", "c", `If-Match: "1", "2"`).wants(t, 200, typed("c", 3))
		send("PUT", "d").wants(t, 200, typed("d", 4)) // without a condition it replaces

		refused(send("DELETE", "", `If-Match: "3"`), "d", 4)
		send("DELETE", "", `If-Match: "4"`).wants(t, 204, "")
		absent(send("DELETE", "", `If-Match: "4"`))
		w.del(path).wants(t, 204, "")
		send("PUT", "e", `If-None-Match: *`).wants(t, 201, typed("e", 5)) // a deleted type is not there
		absent(w.do(call{method: "PUT", path: "/v1/event-types/other", body: `{"title":"x"}`}.with(`If-Match: "1"`)))

		for _, bad := range []string{"If-Match: 5", `If-None-Match: "5`, "If-Match: \"5\"\nIf-None-Match: *"} {
			c := call{method: "PUT", path: path, body: `{"title":"x"}`}.with(strings.Split(bad, "\n")...)
			if a := w.do(c); a.status != 422 || a.member(t, "code") != "validation_failed" {
				t.Errorf("%s: %d %s", bad, a.status, a.body)
			}
		}
		w.get(path).wants(t, 200, typed("e", 5))
	})
}

// Of several changes of an event type with the same condition exactly one is made.
func TestOneOfManyChangesOfAnEventTypeWins(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const path, callers = "/v1/event-types/photo.shared", 8
		w.put(path, `{"title":"x"}`)
		for revision := 1; revision <= 3; revision++ {
			statuses := make([]int, callers)
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					a, err := w.try(call{method: "PUT", path: path, body: fmt.Sprintf(`{"title":"%d of %d"}`, i, revision)}.with(fmt.Sprintf(`If-Match: "%d"`, revision)))
					if err != nil {
						t.Error(err)
					}
					statuses[i] = a.status
				})
			}
			all.Wait()
			made, refused := 0, 0
			for _, status := range statuses {
				switch status {
				case 200:
					made++
				case 412:
					refused++
				}
			}
			if made != 1 || refused != callers-1 {
				t.Errorf("revision %d: %v", revision, statuses)
			}
		}
	})
}
