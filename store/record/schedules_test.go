package record_test

import (
	"encoding/json"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// A schedule is on record with its payload as it was sent; its next due time stays unless the times are others, and is
// advanced once.
func TestSchedulesOnRecord(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		due := time.UnixMilli(time.Now().Add(time.Hour).UnixMilli())
		next := func(_, last time.Time) (time.Time, error) {
			if !last.IsZero() {
				return last.Add(time.Hour), nil
			}
			return due, nil
		}
		payload := `{"to":"Zoë","zero":"\u0000","big":123456789012345678901234567890}`
		request := &api.ScheduleRequest{Queue: "mails", Type: "welcome", Cron: "0 * * * *", TimeZone: "Europe/Berlin", Payload: json.RawMessage(payload)}
		put := func(id string) (*api.Schedule, bool) {
			t.Helper()
			s, created, err := db.PutSchedule(ctx, id, request, next)
			storetest.Must(t, err)
			return s, created
		}
		for _, id := range []string{"a", "B", "b"} {
			if s, created := put(id); !created || !s.NextAt.Equal(due) || s.LastAt != nil {
				t.Errorf("%s: %+v", id, s)
			}
		}
		if _, created := put("a"); created {
			t.Error("the same again is new")
		}
		s, now, err := db.Schedule(ctx, "a")
		if err != nil || string(s.Payload) != payload || time.Since(now).Abs() > time.Minute {
			t.Errorf("%+v %v %v", s, now, err)
		}
		times, err := db.ScheduleTimes(ctx, 2*time.Hour)
		if err != nil || len(times) != 3 || times[0].NextAt != due.UnixMilli() {
			t.Errorf("%+v %v", times, err)
		}
		if times, err = db.ScheduleTimes(ctx, time.Minute); err != nil || len(times) != 0 {
			t.Errorf("%+v %v", times, err)
		}
		for _, from := range []time.Time{due, due} { // the second comes too late
			storetest.Must(t, db.AdvanceSchedules(ctx, []record.ScheduleRun{{ID: "a", From: from, Last: from, Next: due.Add(time.Hour)}}))
		}
		request.Type = "other"
		if s, created := put("a"); created || !s.NextAt.Equal(due.Add(time.Hour)) || !s.LastAt.Equal(due) || s.Type != "other" {
			t.Errorf("%+v", s)
		}
		request.Cron = "1 * * * *"
		if s, _ := put("a"); !s.NextAt.Equal(due.Add(time.Hour)) {
			t.Errorf("%+v", s)
		}
		page, err := db.Schedules(ctx, "B", 1)
		if err != nil || len(page) != 1 || page[0].ID != "a" || len(page[0].Payload) != 0 {
			t.Errorf("%+v %v", page, err)
		}
		storetest.Must(t, db.DeleteSchedule(ctx, "a"))
		storetest.Must(t, db.DeleteSchedule(ctx, "a"))
		_, _, err = db.Schedule(ctx, "a")
		storetest.WantCode(t, err, api.CodeNotFound)

		// Of several, each has its own times; one that was advanced meanwhile, or is gone, changes nothing of the others.
		storetest.Must(t, db.AdvanceSchedules(ctx, []record.ScheduleRun{
			{ID: "b", From: due.Add(time.Minute), Last: due, Next: due.Add(2 * time.Hour)},
			{ID: "a", From: due, Last: due, Next: due.Add(3 * time.Hour)},
			{ID: "B", From: due, Last: due, Next: due.Add(time.Hour)}}))
		for id, want := range map[string]time.Time{"b": due, "B": due.Add(time.Hour)} {
			if s, _, err := db.Schedule(ctx, id); err != nil || !s.NextAt.Equal(want) || (s.LastAt != nil) != (id == "B") {
				t.Errorf("%s: %+v %v", id, s, err)
			}
		}
	})
}
