package handlers_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"fanfare/api"
)

var eventID = regexp.MustCompile(`"id":"([^"]+)"`)

// The list of events over HTTP: whole items, pages, filters, and what is refused.
func TestN9_ListOfEvents(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const path = "/v1/events"
		w.get(path).wants(t, 200, `{"items":[]}`)
		var ids []string
		for i := range 5 {
			typ := []string{"album.shared", "photo.shared"}[i%2]
			ids = append(ids, w.post(path, fmt.Sprintf(`{"type":%q,"audience":{"users":["bob"]},"alert":{"title":"Secret"}}`, typ)).member(t, "id"))
		}
		item := `{"id":"*","type":"*","state":"queued","accepted_at":"*","recipients":0,"notifications":0,"delivered":0,"failed":0,"expired":0,"cancelled":0}`
		w.get(path+"?limit=5").wants(t, 200, `{"items":[`+item+`,`+item+`,`+item+`,`+item+`,`+item+`]}`)
		w.get(path+"?state=done").wants(t, 200, `{"items":[]}`)
		w.get(path+"?state=queued&type=photo.shared&limit=1").wants(t, 200, `{"items":[`+item+`],"next":"*"}`)
		var seen []string
		for next, pages := path+"?limit=2", 0; next != ""; pages++ {
			a := w.get(next)
			for _, m := range eventID.FindAllStringSubmatch(a.body, -1) {
				seen = append(seen, m[1])
			}
			if next = a.member(t, "next"); next != "" {
				next = path + "?limit=2&cursor=" + next
			}
			if pages > 3 {
				t.Fatal("the list has no end")
			}
		}
		slices.Sort(ids)
		slices.Reverse(ids)
		if !slices.Equal(seen, ids) {
			t.Errorf("pages had %v, want %v", seen, ids)
		}

		broken := func(field, rule string) string {
			return problem(api.CodeValidation, "*", `"errors":[{"field":"`+field+`","rule":"`+rule+`","message":"*"}]`)
		}
		w.get(path+"?state=gone").wants(t, 422, broken("state", "oneof"))
		w.get(path+"?type=a%20type").wants(t, 422, broken("type", "identifier"))
		w.get(path+"?limit=501").wants(t, 422, broken("limit", "max"))
		w.get(path+"?cursor=MXg").wants(t, 422, broken("cursor", "cursor")) // of an id that is none
		w.get(path+"?cursor=x").wants(t, 422, broken("cursor", "cursor"))
	})
}
