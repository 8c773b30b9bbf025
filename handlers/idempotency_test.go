package handlers_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
)

const anEvent = `{"type":"photo.shared","audience":{"users":["bob"]},"alert":{"title":"x"},"data":{"a":"1","b":"2"}}`

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bad := problem(api.CodeInvalidRequest, "an Idempotency-Key is 1 to 255 printable ASCII characters, quoted or bare")
	two := problem(api.CodeInvalidRequest, "send one Idempotency-Key header, not 2")
	for name, c := range map[string]struct {
		want    string
		headers []string
	}{
		"two headers":           {two, []string{"Idempotency-Key: a", "Idempotency-Key: b"}},
		"two that are the same": {two, []string{"Idempotency-Key: a", "Idempotency-Key: a"}},
		"empty":                 {bad, []string{"Idempotency-Key: "}},
		"empty quotes":          {bad, []string{`Idempotency-Key: ""`}},
		"256 bytes":             {bad, []string{"Idempotency-Key: " + strings.Repeat("x", 256)}},
		"not ASCII":             {bad, []string{"Idempotency-Key: schl\u00fcssel"}},
		"a tab":                 {bad, []string{"Idempotency-Key: a\tb"}},
		"an open quote":         {bad, []string{`Idempotency-Key: "abc`}},
		"more after the quote":  {bad, []string{`Idempotency-Key: "abc"d`}},
		"a wrong escape":        {bad, []string{`Idempotency-Key: "a\bc"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.do(post("/v1/events", anEvent).with(c.headers...)).wants(t, 400, c.want)
		})
	}
	t.Run("255 bytes are fine", func(t *testing.T) {
		t.Parallel()
		w.post("/v1/events", anEvent, "Idempotency-Key: "+strings.Repeat("x", 255)).wants(t, 202, `{"id":"*"}`)
	})
}

// GET, PUT, PATCH and DELETE accept an Idempotency-Key, even a malformed one, and it has no effect on
// them: another body under the same key is another change.
func TestIdempotencyKeyWithoutEffect(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.post("/v1/uploads", `{"id":"photo","owner":"bob","visibility":"public"}`)
	w.put("/v1/sales/s", saleBody(`[{"sku":"a","stock":1}]`))
	named := map[string]string{"type": "photo.shared", "user": "bob", "token": token, "id": "photo", "sale": "s"}
	tried := 0
	for _, rt := range handlers.Routes() {
		if rt.Method == "POST" || !strings.HasPrefix(rt.Pattern, "/v1/") || strings.HasSuffix(rt.Pattern, "/stream") {
			continue
		}
		path := regexp.MustCompile(`{(\w+)}`).ReplaceAllStringFunc(rt.Pattern, func(name string) string {
			return cmp.Or(named[strings.Trim(name, "{}")], "x")
		})
		tried++
		bare := w.do(call{method: rt.Method, path: path})
		for _, keys := range [][]string{{"Idempotency-Key: k"}, {"Idempotency-Key: k"}, {"Idempotency-Key: "}, {"Idempotency-Key: a", "Idempotency-Key: b"}} {
			if a := w.do(call{method: rt.Method, path: path}.with(keys...)); a.status != bare.status || a.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("%s %s with %q: %d %v %s, without %d", rt.Method, path, keys, a.status, a.header, a.body, bare.status)
			}
		}
	}
	if tried < 30 {
		t.Errorf("only %d calls were tried", tried)
	}
	const key = "Idempotency-Key: k"
	for revision, title := range []string{"a", "b", "a"} {
		a := w.do(put("/v1/event-types/x", `{"title":"`+title+`"}`).with(key))
		if !strings.Contains(a.body, fmt.Sprintf(`"title":"%s","push_type":"alert","collapse":true,"retry_unknown":true,"revision":%d`, title, revision+1)) {
			t.Errorf("change %d: %d %s", revision+1, a.status, a.body)
		}
	}
	w.post("/v1/uploads", `{"id":"photo2","owner":"bob","visibility":"public"}`)
	for _, visibility := range []string{"friends", "private", "friends"} {
		a := w.do(call{method: "PATCH", path: "/v1/uploads/photo2", body: `{"visibility":"` + visibility + `"}`}.with(key))
		if a.status != 200 || a.member(t, "visibility") != visibility {
			t.Errorf("%s: %d %s", visibility, a.status, a.body)
		}
	}
}

// Every POST checks the header, also one that does not keep the key. A PUT whose answer is a secret accepts it as every PUT does.
func TestIdempotencyKeyIsChecked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, rt := range handlers.Routes() {
		if rt.Method != "POST" || !strings.HasPrefix(rt.Pattern, "/v1/") {
			continue
		}
		path := regexp.MustCompile(`{(\w+)}`).ReplaceAllString(rt.Pattern, "x")
		if a := w.do(post(path, "{}").with("Idempotency-Key: a", "Idempotency-Key: b")); a.status != 400 || !strings.Contains(a.body, "Idempotency-Key") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	const hook = `{"url":"https://shop.example.com/","types":["event.done"]}`
	for _, status := range []int{201, 200} {
		if a := w.do(put("/v1/webhooks/s", hook).with("Idempotency-Key: a", "Idempotency-Key: b")); a.status != status {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestIdempotentEvents(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		key := "Idempotency-Key: k-1"
		first := w.post("/v1/events", anEvent, key).wants(t, 202, `{"id":"*"}`)
		if first.header.Get("Idempotent-Replayed") != "" {
			t.Error("the first answer says that it is a replay")
		}
		for name, again := range map[string]call{
			"same bytes":   post("/v1/events", anEvent).with(key),
			"quoted":       post("/v1/events", anEvent).with(`Idempotency-Key: "k-1"`),
			"other spaces": post("/v1/events", strings.ReplaceAll(anEvent, ",", " ,\n ")).with(key),
			"other order":  post("/v1/events", `{"data":{"b":"2","a":"\u0031"},"alert":{"title":"x"},"audience":{"users":["bob"]},"type":"photo.shared"}`).with(key),
		} {
			a := w.do(again).wants(t, 202, first.body)
			if a.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s: does not say that it is a replay", name)
			}
		}
		w.post("/v1/events", strings.Replace(anEvent, "bob", "carol", 1), key).wants(t, 422,
			problem(api.CodeIdempotencyReused, "*"))
		if other := w.post("/v1/events", anEvent, "Idempotency-Key: k-2"); other.status != 202 || other.body == first.body {
			t.Errorf("another key answers %d %s", other.status, other.body)
		}
		if none := w.post("/v1/events", anEvent); none.status != 202 || none.body == first.body {
			t.Errorf("no key answers %d %s", none.status, none.body)
		}
	})
}

func TestIdempotentBatches(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		batch := fmt.Sprintf(`{"events":[%s,%s]}`, anEvent, anEvent)
		first := w.post("/v1/events/batch", batch, "Idempotency-Key: b").wants(t, 202, `{"items":[{"id":"*"},{"id":"*"}]}`)
		again := w.post("/v1/events/batch", batch, "Idempotency-Key: b").wants(t, 202, first.body)
		if again.header.Get("Idempotent-Replayed") != "true" {
			t.Error("does not say that it is a replay")
		}
		t.Run("another route is another scope", func(t *testing.T) {
			w.post("/v1/events", anEvent, "Idempotency-Key: b").wants(t, 202, `{"id":"*"}`)
		})
	})
}

func TestIdempotencyScope(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := w.post("/v1/events", anEvent, "Idempotency-Key: k").member(t, "id")
	seen := map[string]bool{first: true}
	for range 2 {
		auth := "Authorization: Bearer " + w.mustKey(api.ScopePush)
		id := w.post("/v1/events", anEvent, "Idempotency-Key: k", auth).member(t, "id")
		if seen[id] {
			t.Errorf("%s is the answer to another API key", id)
		}
		seen[id] = true
	}
}

func TestRefusalsAreNotKept(t *testing.T) {
	t.Parallel()
	w := setup(t)
	typed := `{"type":"later","audience":{"users":["bob"]}}`
	a := w.post("/v1/events", typed, "Idempotency-Key: k")
	if a.status != 422 || a.member(t, "code") != "unknown_event_type" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	w.put("/v1/event-types/later", `{"title":"x"}`)
	a = w.post("/v1/events", typed, "Idempotency-Key: k").wants(t, 202, `{"id":"*"}`)
	if a.header.Get("Idempotent-Replayed") != "" {
		t.Error("says that it is a replay")
	}
}

// eachRedis runs f on a server over a real Redis and over the embedded one.
func eachRedis(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, setupOn(t, storetest.Open(t, storetest.Redis(t).URL())))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		f(t, setup(t))
	})
}

// TestIdempotentAtOnce sends one event many times at the same moment. One of the answers is the
// first, and the others repeat it.
func TestIdempotentAtOnce(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const callers = 20
		answers := make(chan answer, callers)
		for range callers {
			go func() {
				a, err := w.try(post("/v1/events", anEvent).with("Idempotency-Key: at-once"))
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
		}
		ids, firsts := map[string]bool{}, 0
		for range callers {
			a := <-answers
			ids[a.body] = true
			if a.header.Get("Idempotent-Replayed") == "" {
				firsts++
			}
		}
		if len(ids) != 1 || firsts != 1 {
			t.Errorf("%d ids, %d first answers", len(ids), firsts)
		}
	})
}
