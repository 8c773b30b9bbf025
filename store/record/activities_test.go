package record_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// activity is the registration of an activity of match:7.
func activity() *api.ActivityRequest {
	return &api.ActivityRequest{Platform: "apns", Topic: "com.example.app.push-type.liveactivity", Environment: api.EnvProduction, Kind: api.ActivityUpdate, Object: "match:7"}
}

// mustActivity registers an activity of a user whose token was the owner's.
func mustActivity(t testing.TB, db *record.DB, user, owner, token string, r *api.ActivityRequest) (a *api.Activity, created bool) {
	t.Helper()
	a, created, _, err := db.PutActivity(t.Context(), record.DeviceWrite{User: user, Token: token, Owner: owner}, r, "")
	storetest.Must(t, err)
	return a, created
}

// G1: an activity is no device in lists and counts, its users are found by its object, and it moves with its token.
func TestG1_ActivitiesOnRecord(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		first, created := mustActivity(t, db, "alice", "", token(1), activity())
		if ends := first.EndsAt.Sub(first.RegisteredAt.Time); !created || ends != api.MaxActivityLife || first.Kind != api.ActivityUpdate || first.Object != "match:7" {
			t.Errorf("%+v ends after %v", first, ends)
		}
		start := activity()
		start.Kind, start.Object, start.AttributesType = api.ActivityStart, "", "Match"
		if a, _ := mustActivity(t, db, "alice", "", token(2), start); a.EndsAt != nil || a.Kind != api.ActivityStart || a.Object != "" || a.AttributesType != "Match" {
			t.Errorf("%+v", a)
		}
		mustActivity(t, db, "carol", "", token(3), activity())
		mustPut(t, db, "bob", token(4))
		users := func(object string) []string {
			t.Helper()
			got, err := db.UsersWithDevice(ctx, object, "", 10)
			storetest.Must(t, err)
			return got
		}
		want := func(what string, got []string, want ...string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		want("all", users(""), "bob")
		want("match:7", users("match:7"), "alice", "carol")
		want("match:8", users("match:8"))
		found, err := db.Snapshots(ctx, []string{"alice"})
		storetest.Must(t, err)
		if d := found["alice"].Devices; len(mustDevices(t, db, "alice")) != 0 || len(d) != 2 || d[0].Live == nil || d[0].Live.Object != "match:7" || d[1].Live.Object != api.LiveStarts {
			t.Errorf("%+v", found["alice"].Devices)
		}
		owned, err := db.DevicesByToken(ctx, token(1))
		if storetest.Must(t, err); owned[token(1)].User != "alice" {
			t.Errorf("%+v", owned)
		}
		_, _, _, err = db.PutActivity(ctx, record.DeviceWrite{User: "bob", Token: token(1)}, activity(), "")
		if !errors.Is(err, record.ErrOwnerChanged) {
			t.Errorf("without its owner: %v", err)
		}
		if again, created := mustActivity(t, db, "bob", "alice", token(1), activity()); !created || !again.RegisteredAt.After(first.RegisteredAt.Time) {
			t.Errorf("%+v", again)
		}
		want("match:7 then", users("match:7"), "bob", "carol")
		for user, changes := range map[string]int{"alice": 0, "bob": 1} {
			c, err := db.DeleteActivities(ctx, user, []string{token(1), token(9)})
			if err != nil || len(c.Users) != changes {
				t.Errorf("%s deletes: %+v, %v", user, c, err)
			}
		}
		if c, err := db.DeleteActivities(ctx, "bob", []string{token(4)}); err != nil || len(c.Users) != 0 {
			t.Errorf("a device is deleted as an activity: %+v, %v", c, err)
		}
		if c, err := db.DeleteDevice(ctx, "carol", token(3)); err != nil || len(c.Users) != 0 {
			t.Errorf("an activity is deleted as a device: %+v, %v", c, err)
		}
	})
}

// W3, G1: a device whose token was an activity of the user is a new device.
func TestW3_ADeviceThatWasAnActivityIsNew(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		mustActivity(t, db, "alice", "", token(1), activity())
		for _, want := range []bool{true, false} {
			done, _, err := db.PutDevice(t.Context(), record.DeviceWrite{User: "alice", Token: token(1), Owner: "alice"},
				&api.DeviceRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvProduction})
			if storetest.Must(t, err); done.Created != want {
				t.Errorf("created is %t, want %t", done.Created, want)
			}
		}
	})
}

// G1: 20 activities of a user that have not ended. Those that have ended make room, and are removed.
func TestG1_ActivitiesMakeRoom(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		for i := range api.MaxActivities {
			mustActivity(t, db, "alice", "", token(i), activity())
		}
		for i := range api.MaxDevices { // devices have a limit of their own
			mustPut(t, db, "alice", token(100+i))
		}
		_, _, _, err := db.PutActivity(ctx, record.DeviceWrite{User: "alice", Token: token(99)}, activity(), "")
		storetest.WantCode(t, err, api.CodeValidation)
		exec := func(query string, args ...any) {
			t.Helper()
			_, err := db.SQL().Exec(query, args...)
			storetest.Must(t, err)
		}
		list := func() (tokens []string) {
			t.Helper()
			found, err := db.LiveActivities(ctx, "alice")
			storetest.Must(t, err)
			for _, d := range found {
				tokens = append(tokens, d.Token)
			}
			return tokens
		}
		exec("UPDATE devices SET ends_at = 1 WHERE token IN ('" + token(3) + "', '" + token(4) + "')")
		mustSetState(t, db, token(5), record.StateChange{State: api.DeviceDropped, Reason: "Unregistered", RegisteredAt: api.At(time.Now().Add(time.Hour))})
		if got := list(); len(got) != api.MaxActivities-3 {
			t.Errorf("%d are listed", len(got))
		}
		mustActivity(t, db, "alice", "", token(98), activity())
		if n := mustCount(t, db, "devices"); n != api.MaxDevices+api.MaxActivities-2 {
			t.Errorf("%d rows", n)
		}
		for i := range 600 {
			exec(fmt.Sprintf("INSERT INTO %s, object, ends_at) VALUES %s, 'match:9', %d)", devicesInto[:len(devicesInto)-1], deviceValues(1000+i, api.DeviceActive)[:len(deviceValues(1000+i, api.DeviceActive))-1], i%2*1_000_000_000_000_000))
		}
		exec("DELETE FROM outbox")
		exec("UPDATE devices SET ends_at = 1 WHERE token = '" + token(6) + "'")
		if more, err := db.PurgeActivities(ctx); err != nil || more {
			t.Errorf("more %v, %v", more, err)
		}
		if open, err := db.OldestGuards(ctx, []string{token(6)}); len(open) != 1 || err != nil { // it names alice
			t.Errorf("the guard of one that has ended is to be written: %v, %v", open, err)
		}
		if n := mustCount(t, db, "devices"); n != api.MaxDevices+api.MaxActivities-3+300 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// G1: rows of a phone that is no device of the user any more make room, a start token takes the place of the earlier one of
// the phone, and on APNs, which tells no phone, of the oldest of its type when there is no room.
func TestG1_StartsAndPhonesMakeRoom(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		phone := func(n int) string { return fmt.Sprintf("cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-%03d", n) }
		put := func(n int, target, object, typ string) error {
			r := &api.ActivityRequest{Platform: "fcm", Topic: "com.example.app", Kind: api.ActivityUpdate, Object: object, AttributesType: typ}
			if object == "" {
				r.Kind = api.ActivityStart
			}
			if target == "" {
				r.Platform, r.Topic, r.Environment = "apns", "com.example.app.push-type.liveactivity", api.EnvProduction
			}
			_, _, _, err := db.PutActivity(ctx, record.DeviceWrite{User: "alice", Token: token(n)}, r, target)
			return err
		}
		wantRows := func(n int) {
			t.Helper()
			if list, err := db.LiveActivities(ctx, "alice"); err != nil || len(list) != n {
				t.Errorf("%d activities, %v; want %d", len(list), err, n)
			}
		}
		for n := range 2 {
			_, _, err := db.PutDevice(ctx, record.DeviceWrite{User: "alice", Token: phone(n)}, &api.DeviceRequest{Platform: "fcm", Topic: "com.example.app"})
			storetest.Must(t, err)
		}
		iphone := func(n, own int) string { return phone(n) + " " + token(own) }
		storetest.WantCode(t, put(1, iphone(7, 101), "match:7", ""), api.CodeValidation) // another's phone
		storetest.Must(t, put(1, iphone(0, 101), "match:7", ""))
		storetest.Must(t, put(2, phone(1), "match:7", ""))
		storetest.Must(t, put(3, iphone(0, 102), "", "Match"))
		storetest.Must(t, put(4, iphone(0, 103), "", "Match")) // it rotates
		wantRows(3)
		storetest.Must(t, put(5, iphone(0, 104), "", "Parcel"))
		storetest.Must(t, put(6, phone(1), "", "Match")) // another phone
		wantRows(5)
		_, err := db.DeleteDevice(ctx, "alice", phone(0))
		storetest.Must(t, err)
		storetest.Must(t, put(7, "", "match:8", ""))
		wantRows(3)
		for n := range api.MaxActivities - 3 {
			storetest.Must(t, put(200+n, "", "", "Match"))
		}
		wantRows(api.MaxActivities)
		storetest.WantCode(t, put(300, "", "match:9", ""), api.CodeValidation)
		storetest.WantCode(t, put(301, "", "", "Parcel"), api.CodeValidation)
		storetest.Must(t, put(302, "", "", "Match"))
		wantRows(api.MaxActivities)
	})
}

// G1: no activity is registered on a phone that is dropped, and those that stand on it make room. When it is registered again, they
// may stand on it again.
func TestG1_ADroppedPhone(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		const phone = "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-phone"
		android, iphone := phone, phone+" "+token(101)
		put := func(n int, target string) error {
			r := activity()
			if target != "" {
				r = &api.ActivityRequest{Platform: "fcm", Topic: "com.example.app", Kind: api.ActivityUpdate, Object: fmt.Sprint("match:", n)}
			}
			_, _, _, err := db.PutActivity(t.Context(), record.DeviceWrite{User: "alice", Token: token(n)}, r, target)
			return err
		}
		register := func() {
			t.Helper()
			owner, err := db.DeviceOwner(t.Context(), phone)
			storetest.Must(t, err)
			_, _, err = db.PutDevice(t.Context(), record.DeviceWrite{User: "alice", Token: phone, Owner: owner}, &api.DeviceRequest{Platform: "fcm", Topic: "com.example.app"})
			storetest.Must(t, err)
		}
		wants := func(when string, tokens ...string) {
			t.Helper()
			var got []string
			list, err := db.LiveActivities(t.Context(), "alice")
			storetest.Must(t, err)
			for _, a := range list {
				got = append(got, a.Token)
			}
			if !slices.Equal(got, tokens) {
				t.Errorf("%s the activities are %q, want %q", when, got, tokens)
			}
		}
		register()
		storetest.Must(t, put(1, android))
		storetest.Must(t, put(2, iphone))
		mustSetState(t, db, phone, record.StateChange{State: api.DeviceDropped, Reason: "UNREGISTERED", RegisteredAt: api.At(time.Now().Add(time.Hour))})
		for n, target := range map[int]string{3: android, 4: iphone} {
			storetest.WantCode(t, put(n, target), api.CodeValidation)
		}
		wants("after the refusals", token(1), token(2))
		storetest.Must(t, put(5, ""))
		wants("when another one comes", token(5))
		register()
		storetest.Must(t, put(3, android))
		storetest.Must(t, put(4, iphone))
		wants("when the phone is registered again", token(3), token(4), token(5))
	})
}

// G8: activities are counted by platform, without those that have ended or are dropped, up to a limit.
func TestG8_ActivitiesAreCounted(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		for i := range 4 {
			mustActivity(t, db, fmt.Sprint("user-", i), "", token(i), activity())
		}
		other := activity()
		other.Object = "match:8"
		mustActivity(t, db, "user-0", "", token(9), other)
		for i, set := range []string{"platform = 'fcm'", "ends_at = 1", "state = 'dropped'"} {
			_, err := db.SQL().ExecContext(t.Context(), "UPDATE devices SET "+set+" WHERE token = '"+token(i)+"'")
			storetest.Must(t, err)
		}
		wants := func(object string, limit int, want map[string]int64) {
			t.Helper()
			if got, err := db.CountActivities(t.Context(), object, limit); err != nil || !maps.Equal(got, want) {
				t.Errorf("%s: %v %v, want %v", object, got, err, want)
			}
		}
		mustActivity(t, db, "user-5", "", token(5), activity())
		wants("match:7", 100, map[string]int64{"apns": 2, "fcm": 1})
		wants("match:9", 100, map[string]int64{})
		got, err := db.CountActivities(t.Context(), "match:7", 2)
		if storetest.Must(t, err); got["apns"]+got["fcm"] != 2 {
			t.Errorf("with a limit of 2: %v", got)
		}
	})
}

// P4: until Redis knows of an activity that made room, each registration of its user returns it. Rows of guards name nobody, and
// an erasure waits for the rows of the user (E7).
func TestP4_WhatMadeRoomIsOnRecord(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		start := activity()
		start.Kind, start.Object, start.AttributesType = api.ActivityStart, "", "Match"
		gone := func(user string, n int, want ...string) {
			t.Helper()
			_, _, c, err := db.PutActivity(ctx, record.DeviceWrite{User: user, Token: token(n), Owner: user}, start, "")
			storetest.Must(t, err)
			if !slices.Equal(c.Gone, want) {
				t.Errorf("%s registers %d: gone are %q, want %q", user, n, c.Gone, want)
			}
		}
		relay := func(kinds ...string) (named []string) {
			t.Helper()
			for _, kind := range kinds {
				rows, err := db.OutboxPage(ctx, kind, 0, record.OpenRow{}, 1000)
				storetest.Must(t, err)
				for _, r := range rows {
					if kind == record.KindGuard && strings.Contains(r.Payload, "alice") {
						named = append(named, r.Subject)
					}
					storetest.Must(t, db.DeleteOutbox(ctx, r.ID))
				}
			}
			return named
		}
		for n := range api.MaxActivities {
			gone("alice", n)
		}
		gone("bob", 50)
		gone("alice", 98, token(0))
		gone("alice", 98, token(0))
		gone("alice", 99, token(0), token(1))
		gone("bob", 50)
		if named := relay(record.KindGuard); len(named) > 0 {
			t.Errorf("guards of %q name alice", named)
		}
		gone("alice", 99, token(0), token(1))
		o := mustErase(t, db, "alice")
		if n, err := db.OpenErasure(ctx, o, 0); err != nil || n == 0 {
			t.Errorf("an erasure waits for %d rows, %v", n, err)
		}
		relay(record.KindSettings, record.KindGuard)
		if n, err := db.OpenErasure(ctx, o, 0); err != nil || n != 0 {
			t.Errorf("an erasure waits for %d rows when all are relayed, %v", n, err)
		}
		gone("alice", 99)
	})
}
