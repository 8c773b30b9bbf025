package handlers_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// hookVersion is the version in the ETag of an answer.
func hookVersion(t testing.TB, a answer) int {
	t.Helper()
	text, _, _ := strings.Cut(strings.Trim(a.header.Get("ETag"), `"`), "-")
	version, err := strconv.Atoi(text)
	if err != nil || version <= 0 {
		t.Fatalf("%d has the ETag %s: %s", a.status, a.header.Get("ETag"), a.body)
	}
	return version
}

// A webhook has an ETag. If-Match and If-None-Match are optional: without them a PUT replaces what is there, and a DELETE removes it.
func TestWebhooksHaveETags(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		secrets := "" // members that are there once another secret was made
		shown := func(host string, version int, more string) string {
			return fmt.Sprintf(`{"id":"s","version":%d,"url":"https://%s.example.com/","types":["event.done"],"max":100,"state":"on","secret_at":"*","created_at":"*","updated_at":"*"%s}`, version, host, secrets+more)
		}
		send := func(method, host string, headers ...string) answer {
			t.Helper()
			c := call{method: method, path: hookS}.with(headers...)
			if host != "" {
				c.body = `{"url":"https://` + host + `.example.com/","types":["event.done"]}`
			}
			return w.do(c)
		}
		const other = "the webhook is not the one that the condition asks for"
		refused := func(a answer, host string, version int) {
			t.Helper()
			a.wants(t, 412, problem(api.CodeVersionMismatch, other, fmt.Sprintf(`"version":%d,"webhook":%s`, version, shown(host, version, ""))))
			wantHeader(t, a, "ETag", fmt.Sprintf(`"%d"`, version))
		}
		absent := func(a answer) {
			t.Helper()
			wantHeader(t, a.wants(t, 412, problem(api.CodeVersionMismatch, other)), "ETag", "")
		}
		only := func(version int) string { return fmt.Sprintf(`If-Match: "%d"`, version) }

		absent(send("PUT", "a", `If-Match: *`))
		absent(send("DELETE", "", `If-Match: *`))
		w.get(hookS).wants(t, 404, problem(api.CodeNotFound, "there is no webhook s"))
		made := send("PUT", "a", `If-None-Match: *`)
		first := hookVersion(t, made)
		made.wants(t, 201, shown("a", first, `,"secret":"*","since":"*"`))
		refused(send("PUT", "b", `If-None-Match: *`), "a", first)
		send("PUT", "a").wants(t, 200, shown("a", first, `,"since":"*"`)) // nothing has changed

		read := w.get(hookS)
		tag := read.header.Get("ETag")
		read.wants(t, 200, shown("a", first, `,"position":"*","lag_ms":0,"gap":0`))
		if a := send("GET", "", "If-None-Match: "+tag); a.status != 304 || a.body != "" || a.header.Get("ETag") != tag {
			t.Errorf("unchanged: %d %v %s", a.status, a.header, a.body)
		}
		w.post(hookS+"/secrets", "").wants(t, 201, `{"secret":"*","old_secret_until":"*"}`)
		secrets = `,"old_secret_until":"*"`
		w.post(hookS+"/replay", `{}`).wants(t, 204, "")
		if a := send("GET", "", "If-None-Match: "+tag); a.status != 200 || hookVersion(t, a) != first || a.header.Get("ETag") == tag {
			t.Errorf("with another secret: %d %v %s", a.status, a.header, a.body)
		}

		replaced := send("PUT", "b", "If-Match: "+tag) // another secret and a replay do not matter
		second := hookVersion(t, replaced)
		replaced.wants(t, 200, shown("b", second, `,"since":"*"`))
		if second <= first {
			t.Errorf("version %d after %d", second, first)
		}
		refused(send("PUT", "c", only(first)), "b", second)
		refused(send("PUT", "c", fmt.Sprintf(`If-Match: W/"%d"`, second)), "b", second)
		refused(send("PUT", "c", fmt.Sprintf(`If-None-Match: "%d"`, second)), "b", second)
		refused(send("DELETE", "", only(first)), "b", second)
		third := hookVersion(t, send("PUT", "c", fmt.Sprintf(`If-Match: "%d", "%d"`, first, second)))
		fourth := hookVersion(t, send("PUT", "d")) // without a condition it replaces
		if third <= second || fourth <= third {
			t.Errorf("versions %d, %d, %d", second, third, fourth)
		}
		w.get("/v1/webhooks").wants(t, 200, `{"items":[`+shown("d", fourth, "")+`]}`)

		hook, err := w.webhooks.Get(t.Context(), "s")
		storetest.Must(t, err)
		storetest.Must(t, w.webhooks.End(t.Context(), hook)) // the receiver answers 410
		if a := send("PUT", "e", only(fourth)); a.status != 412 || hookVersion(t, a) <= fourth || !strings.Contains(a.body, `"gone":true`) {
			t.Errorf("turned on again unseen: %d %s", a.status, a.body)
		}
		fifth := hookVersion(t, send("PUT", "e", `If-Match: *`))

		send("DELETE", "", only(fifth)).wants(t, 204, "")
		absent(send("DELETE", "", only(fifth)))
		w.del(hookS).wants(t, 204, "")
		if again := send("PUT", "e", `If-None-Match: *`); again.status != 201 || hookVersion(t, again) <= fifth {
			t.Errorf("made again: %d %v", again.status, again.header)
		}
		if a := send("PUT", "f", only(fifth)); a.status != 412 {
			t.Errorf("a webhook that was made again is taken for the old one: %d %s", a.status, a.body)
		}
		for _, bad := range []string{"If-Match: 5", `If-None-Match: "5`, "If-Match: \"5\"\nIf-None-Match: *"} {
			for _, method := range []string{"PUT", "DELETE"} {
				c := call{method: method, path: hookS}.with(strings.Split(bad, "\n")...)
				if method == "PUT" {
					c.body = `{"url":"https://f.example.com/","types":["event.done"]}`
				}
				if a := w.do(c); a.status != 422 || a.member(t, "code") != "validation_failed" {
					t.Errorf("%s %s: %d %s", method, bad, a.status, a.body)
				}
			}
		}
		if a := w.get(hookS); a.member(t, "url") != "https://e.example.com/" {
			t.Errorf("at the end it is %s", a.body)
		}
	})
}

// Of several calls, of two processes, that make one webhook, exactly one makes it, and of several changes with the same condition exactly
// one is made. The others change nothing, and nobody but the maker gets a secret.
func TestOneOfManyChangesOfAWebhookWins(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		redis := storetest.Redis(t).URL()
		processes := []*world{setupSQL(t, storetest.Open(t, redis), url), setupSQL(t, storetest.Open(t, redis), url)}
		const callers = 8
		round := 0
		race := func(method, condition string, status int) (winner answer) {
			t.Helper()
			round++
			answers := make([]answer, callers)
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					c := call{method: method, path: hookS}.with(condition)
					if method == "PUT" {
						c.body = fmt.Sprintf(`{"url":"https://shop.example.com/%d/%d","types":["event.done"]}`, round, i)
					}
					var err error
					if answers[i], err = processes[i%2].try(c); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			won := 0
			for _, a := range answers {
				switch {
				case a.status == status:
					won, winner = won+1, a
				case a.status != 412 || strings.Contains(a.body, "whsec_"):
					t.Errorf("%s with %s: %d %s", method, condition, a.status, a.body)
				}
			}
			if won != 1 {
				t.Fatalf("%s with %s: %d of %d calls were answered %d", method, condition, won, callers, status)
			}
			return winner
		}
		for range 3 {
			made := race("PUT", "If-None-Match: *", 201)
			winner := made
			for range 2 {
				hook, err := processes[0].webhooks.Get(t.Context(), "s")
				storetest.Must(t, err)
				if hook.URL != winner.member(t, "url") || hook.Secrets[0] != made.member(t, "secret") || int(hook.Version) != hookVersion(t, winner) {
					t.Errorf("%+v is on record after %s", hook, winner.body)
				}
				winner = race("PUT", fmt.Sprintf(`If-Match: "%d"`, hook.Version), 200)
			}
			race("DELETE", fmt.Sprintf(`If-Match: "%d"`, hookVersion(t, winner)), 204)
		}
		made := 0
		for _, w := range processes {
			made += strings.Count(w.log.String(), `"webhooks.put"`)
		}
		if made != 3*3 {
			t.Errorf("%d changes are in the logs", made)
		}
	})
}
