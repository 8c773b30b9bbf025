package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

const scheduleS = "/v1/schedules/s"

func TestSchedules(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		shown := func(members string) string {
			return `{"id":"s",` + members + `,"next_at":"*","created_at":"*","updated_at":"*"}`
		}
		const whole = `"queue":"reports","type":"daily","payload":{"to":"<ä>"},"key":"k","max_attempts":3,"cron":"30 6 * * mon-fri","time_zone":"Europe/Berlin"`
		w.get(scheduleS).wants(t, 404, problem(api.CodeNotFound, "there is no schedule s"))
		w.get("/v1/schedules").wants(t, 200, `{"items":[]}`)
		w.do(put(scheduleS, `{"queue":"q","type":"t","payload":null,"cron":"* * * * *"}`)).wants(t, 201, shown(`"queue":"q","type":"t","cron":"* * * * *","time_zone":"UTC"`))
		w.do(put(scheduleS, `{"queue":"reports","type":"daily","payload": {"to": "<\u00e4>"},"key":"k","max_attempts":3,"cron":"30 6 * * mon-fri","time_zone":"Europe/Berlin"}`)).wants(t, 200, shown(whole))
		before := w.get(scheduleS).wants(t, 200, shown(whole)).body
		if again := w.do(put(scheduleS, "{"+whole+"}")).wants(t, 200, shown(whole)).body; again != before {
			t.Errorf("the same again is %s, want %s", again, before)
		}
		for i := range 3 {
			w.do(put(fmt.Sprintf("/v1/schedules/r%d", i), `{"queue":"q","type":"t","payload":1,"cron":"0 0 29 2 *"}`))
		}
		first := w.get("/v1/schedules?limit=3")
		if got := scheduleIDs(t, first); got != "r0 r1 r2" {
			t.Errorf("the first page has %s", got)
		}
		w.get("/v1/schedules?cursor="+first.member(t, "next")).wants(t, 200,
			`{"items":[`+strings.Replace(shown(whole), `"payload":{"to":"<ä>"},`, "", 1)+`]}`)
		w.del(scheduleS).wants(t, 204, "")
		w.del(scheduleS).wants(t, 204, "")
		w.get(scheduleS).wants(t, 404, problem(api.CodeNotFound, "there is no schedule s"))
	})
}

// scheduleIDs are those of the items of a page.
func scheduleIDs(t *testing.T, a answer) string {
	t.Helper()
	var page api.ScheduleList
	storetest.Must(t, json.Unmarshal([]byte(a.body), &page))
	all := make([]string, len(page.Items))
	for i, s := range page.Items {
		all[i] = s.ID
	}
	return strings.Join(all, " ")
}

func TestBadSchedules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const cronRule = "must be five fields: minute, hour, day of the month, month and weekday, such as 30 6 * * mon-fri"
	takes := func(values string) string { return ", which takes " + values + ", and lists, ranges and steps of them" }
	with := func(members string) call { return put(scheduleS, `{"queue":"q","type":"t",`+members+`}`) }
	run(t, w, []bad{
		{"an id with a space", put("/v1/schedules/a%20b", `{"queue":"q","type":"t","cron":"* * * * *"}`), 422, broken("id", "identifier", identifierRule)},
		{"no queue", put(scheduleS, `{"type":"t","cron":"* * * * *"}`), 422, broken("queue", "required", "is required")},
		{"a queue with a slash", put(scheduleS, `{"queue":"a/b","type":"t","cron":"* * * * *"}`), 422, broken("queue", "identifier", identifierRule)},
		{"no type", put(scheduleS, `{"queue":"q","cron":"* * * * *"}`), 422, broken("type", "required", "is required")},
		{"no cron", put(scheduleS, `{"queue":"q","type":"t"}`), 422, broken("cron", "required", "is required")},
		{"a cron of six fields", with(`"cron":"0 * * * * *"`), 422, broken("cron", "cron", cronRule)},
		{"an hour that no day has", with(`"cron":"0 25 * * *"`), 422, broken("cron", "cron", `has "25" as its hour`+takes("0 to 23"))},
		{"a weekday that no week has", with(`"cron":"0 1 * * fun"`), 422, broken("cron", "cron", `has "fun" as its weekday`+takes("0 to 7, or sun to sat"))},
		{"a cron that is never due", with(`"cron":"0 0 31 2 *"`), 422, broken("cron", "cron", "is never due")},
		{"a long cron", with(`"cron":"` + strings.Repeat("1,", 130) + `1 * * * *"`), 422, broken("cron", "max", "must be at most 256 bytes")},
		{"another time zone", with(`"cron":"* * * * *","time_zone":"Europe/Atlantis"`), 422, broken("time_zone", "time_zone", "must be a time zone of the IANA database, such as Europe/Berlin")},
		{"a key with a space", with(`"cron":"* * * * *","key":"a b"`), 422, broken("key", "identifier", identifierRule)},
		{"no attempt", with(`"cron":"* * * * *","max_attempts":0`), 422, broken("max_attempts", "min", "must be at least 1")},
		{"a large payload", with(`"cron":"* * * * *","payload":"` + strings.Repeat("x", api.MaxJobPayload) + `"`), 422, broken("payload", "max", "must be at most 61440 bytes as JSON")},
		{"what GET gave", with(`"cron":"* * * * *","next_at":"2026-01-01T00:00:00Z"`), 400, badJSON("next_at", "is not a field of this call")},
		{"a limit of 501", get("/v1/schedules?limit=501"), 422, broken("limit", "max", "must be at most 500")},
	})
	a := w.do(with(`"cron":"x","time_zone":"y"`))
	if body := a.body; a.status != 422 || !strings.Contains(body, `"field":"cron"`) || !strings.Contains(body, `"field":"time_zone"`) {
		t.Errorf("two bad fields: %d %s", a.status, body)
	}
	w.get("/v1/schedules").wants(t, 200, `{"items":[]}`)
}
