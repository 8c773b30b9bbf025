package handlers_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// S9: conditions are those of RFC 9110 (13.1): lists, and * for any existing sale. A weak tag never
// matches in If-Match.
func TestS9_ConditionsAreLists(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const path = "/v1/sales/s"
	stock := 5
	put := func(header string) answer {
		t.Helper()
		stock++ // each call is a change, if it is allowed
		return w.do(call{method: "PUT", path: path, body: saleBody(fmt.Sprintf(`[{"sku":"a","stock":%d}]`, stock)), headers: strings.Split(header, "\n")})
	}
	tag := put("If-None-Match: *").header.Get("ETag")
	long := strings.TrimPrefix(tag, `"1`) // the rest of the tag of version 1, which is used with another version below
	for _, c := range []struct {
		header string // the version rises with each change
		status int
	}{
		{`If-Match: "zz", "1"`, 200}, // 2
		{`If-Match: "zz", "1"`, 412},
		{`If-Match: "1", "2", "3"`, 200}, // 3
		{`If-Match: "1","2" , ,"30"`, 412},
		{`If-Match: W/"3"`, 412},
		{`If-Match: W/"3", "3"`, 200},             // 4
		{"If-Match: \"1\"\nIf-Match: \"4\"", 200}, // 5
		{`If-Match: "5` + long, 200},              // 6
		{`If-Match: "5` + long, 412},
		{`If-Match: "6-what"`, 412},
		{`If-Match: *`, 200}, // 7
		{`If-None-Match: *`, 412},
		{`If-None-Match: "7"`, 412},
		{`If-None-Match: W/"7"`, 412},
		{`If-None-Match: "1", "7` + long, 412},
		{`If-None-Match: "1", "6"`, 200}, // 8
		{`If-None-Match: "zz"`, 200},     // 9
	} {
		if a := put(c.header); a.status != c.status {
			t.Errorf("%s: %d %s", c.header, a.status, a.body)
		}
	}
	restock := func(header string) int {
		return w.post(path+"/stock", `{"sku":"a","delta":1}`, header).status
	}
	for header, status := range map[string]int{`If-Match: "3", "8"`: 412, `If-Match: W/"9"`: 412, `If-None-Match: "1", "9"`: 412} {
		if got := restock(header); got != status {
			t.Errorf("stock with %s: %d", header, got)
		}
	}
	if got := restock(`If-Match: "3", "9"`); got != 200 {
		t.Errorf("stock with a list: %d", got)
	}
	absent := call{method: "PUT", path: "/v1/sales/none", body: saleBody(`[{"sku":"a","stock":1}]`)}
	w.do(absent.with(`If-Match: "1", "2"`)).wants(t, 412, problem(api.CodeVersionMismatch, "*"))
	if a := w.do(absent.with(`If-None-Match: "1"`)); a.status != 201 {
		t.Errorf("not at version 1, since it is not there: %d %s", a.status, a.body)
	}
}

// S9: the ETag of a sale covers the whole answer, so that 304 means that nothing in it has changed.
// As the condition of a change only the version in it counts.
func TestS9_TheETagCoversWhatIsAvailable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const path = "/v1/sales/s"
	made := w.put(path, saleBody(`[{"sku":"a","stock":9}]`))
	first := made.header.Get("ETag")
	if !regexp.MustCompile(`^"1-[0-9a-f]{16}"$`).MatchString(first) {
		t.Errorf("ETag %s", first)
	}
	unless := func(tags string) answer {
		t.Helper()
		return w.do(call{method: "GET", path: path, headers: []string{"If-None-Match: " + tags}})
	}
	unchanged := func(tags, want string) {
		t.Helper()
		if a := unless(tags); a.status != 304 || a.body != "" || a.header.Get("ETag") != want || a.header.Get("Content-Type") != "" {
			t.Errorf("If-None-Match: %s: %d %v %q, want 304 and %s", tags, a.status, a.header, a.body, want)
		}
	}
	for _, tags := range []string{first, "W/" + first, `"zz", W/"y",` + first, "*"} {
		unchanged(tags, first)
	}
	for _, tags := range []string{`"1"`, `"zz"`, "nonsense", `"unclosed`, strings.Trim(first, `"`)} {
		wantHeader(t, unless(tags).wants(t, 200, made.body), "ETag", first)
	}

	held := w.post(path+"/reservations", `{"user":"u","lines":[{"sku":"a","quantity":2}]}`).member(t, "id")
	storetest.Eventually(t, 10*time.Second, "the answer from memory", func() bool { return unless(first).status == 200 })
	second := unless(first)
	if !strings.Contains(second.body, `"available":7,"held":2`) || second.header.Get("ETag") == first {
		t.Errorf("%v %s", second.header, second.body)
	}
	unchanged(first+", "+second.header.Get("ETag"), second.header.Get("ETag"))
	if a := w.post(path+"/reservations/"+held+"/release", ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	storetest.Eventually(t, 10*time.Second, "what it was before", func() bool { return unless(first).status == 304 })

	// Both tags are of version 1, and so is the sale that is replaced.
	restocked := w.post(path+"/stock", `{"sku":"a","delta":1}`, "If-Match: "+second.header.Get("ETag"))
	restocked.wants(t, 200, `{"sku":"a","total":10,"available":10,"held":0,"sold":0,"low_at":null}`)
	if a := w.post(path+"/stock", `{"sku":"a","delta":1}`, "If-Match: "+first); a.status != 412 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
