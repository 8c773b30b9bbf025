package record_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

func yes() bool { return true }

// toldOf reads what the outbox tells about a device, one text for each fact.
func toldOf(t testing.TB, db *record.DB, tok string) (told []string) {
	t.Helper()
	rows, err := db.OpenFacts(t.Context(), []string{api.TokenDigest(tok), "another"})
	storetest.Must(t, err)
	for _, row := range rows {
		var f record.Fact
		storetest.Must(t, json.Unmarshal([]byte(row.Payload), &f))
		var d struct{ User, Device, Platform, Topic, Environment, Reason string }
		storetest.Must(t, json.Unmarshal(f.Data, &d))
		if age := time.Since(time.UnixMilli(f.At)); row.Kind != record.KindFact || age < -time.Minute || age > time.Minute {
			t.Errorf("row %+v is %v old", row, age)
		}
		told = append(told, fmt.Sprint(f.Type, " ", d.User, " ", d.Device, " ", d.Platform, " ", d.Topic, " ", d.Environment, " ", d.Reason))
	}
	return told
}

// setState changes the state of a device, telling of it.
func setState(t testing.TB, db *record.DB, tok string, state api.DeviceState, reason string) record.Change {
	t.Helper()
	found, err := db.DevicesByToken(t.Context(), tok)
	storetest.Must(t, err)
	d := found[tok]
	c, err := db.SetDeviceState(t.Context(), record.DeviceWrite{User: d.User, Token: tok, Owner: d.User, Tells: yes},
		record.StateChange{State: state, Reason: reason, RegisteredAt: d.RegisteredAt})
	storetest.Must(t, err)
	return c
}

// H1, H2: the transaction that takes a device from its user has the fact of it, each time, in order; no other has one.
func TestH1_ADropHasItsFact(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		put := func(user, owner string) {
			t.Helper()
			_, c, err := db.PutDevice(t.Context(), record.DeviceWrite{User: user, Token: token(1), Owner: owner, Tells: yes}, request())
			storetest.Must(t, err)
			if moved := owner != "" && owner != user; moved != slices.Equal(c.Told, []string{api.TokenDigest(token(1))}) {
				t.Errorf("%s after %q: told %v", user, owner, c.Told)
			}
		}
		put("alice", "")
		setState(t, db, token(1), api.DeviceSuspect, "BadDeviceToken")
		if c := setState(t, db, token(1), api.DeviceDropped, "BadDeviceToken"); !slices.Equal(c.Told, []string{api.TokenDigest(token(1))}) {
			t.Errorf("told %v", c.Told)
		}
		if c := setState(t, db, token(1), api.DeviceDropped, "Unregistered"); c.Told != nil {
			t.Errorf("a device was dropped twice: %v", c.Told)
		}
		put("alice", "alice")
		setState(t, db, token(1), api.DeviceDropped, "Unregistered")
		put("alice", "alice")
		put("bob", "alice")
		put("bob", "bob")
		short := " 00000000 apns com.example.app sandbox "
		want := []string{"device.dropped alice" + short + "BadDeviceToken", "device.dropped alice" + short + "Unregistered", "device.dropped alice" + short + "moved"}
		if got := toldOf(t, db, token(1)); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// No fact tells of calls that change the caller's own devices, of users who are erased, of changes that do not happen, or of types that
// are off.
func TestH1_NoFactWithoutADrop(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		mustPut(t, db, "alice", token(1))
		mustPut(t, db, "alice", token(2))
		_, _, err := db.PutDevice(ctx, record.DeviceWrite{User: "alice", Token: token(3), Replaces: token(2), Tells: yes}, request())
		storetest.Must(t, err)
		_, err = db.DeleteDevice(ctx, "alice", token(3))
		storetest.Must(t, err)
		_, _, err = db.PutDevice(ctx, record.DeviceWrite{User: "bob", Token: token(1), Tells: yes}, request())
		if !errors.Is(err, record.ErrOwnerChanged) {
			t.Errorf("a token was taken unseen: %v", err)
		}
		mustPut(t, db, "bob", token(1)) // while nobody wants to hear of it
		mustDrop(t, db, 1, 1000)
		mustPutDropped := func(user, owner string) {
			t.Helper()
			_, _, err := db.PutDevice(ctx, record.DeviceWrite{User: user, Token: token(1), Owner: owner, Tells: yes}, request())
			storetest.Must(t, err)
		}
		mustPutDropped("carol", "bob") // bob had lost it before
		mustActivity(t, db, "alice", "", token(4), activity())
		setState(t, db, token(4), api.DeviceDropped, "Unregistered")
		mustActivity(t, db, "alice", "", token(5), activity())
		_, _, err = db.PutDevice(ctx, record.DeviceWrite{User: "bob", Token: token(5), Owner: "alice", Tells: yes}, request())
		storetest.Must(t, err)
		mustPut(t, db, "erased", token(6))
		erase, err := db.StartErasure(ctx, "erased", time.Now().UnixMilli())
		storetest.Must(t, err)
		o, err := db.OpenOperation(ctx, erase)
		storetest.Must(t, err)
		if c, err := db.EraseSettings(ctx, o); err != nil || len(c.Users) != 1 {
			t.Errorf("erased: %+v, %v", c, err)
		}
		if n := mustFacts(t, db); n != 0 {
			t.Errorf("%d facts on record", n)
		}
	})
}

// H1: a device is lost, too, when another user registers its token for an activity, and only then.
func TestH1_AnActivityTakesADevice(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		mustPut(t, db, "alice", token(1))
		mustPut(t, db, "dave", token(2))
		take := func(user, owner string, n int, want ...string) {
			t.Helper()
			_, _, c, err := db.PutActivity(t.Context(), record.DeviceWrite{User: user, Token: token(n), Owner: owner, Tells: yes}, activity(), "")
			storetest.Must(t, err)
			if !slices.Equal(c.Told, want) {
				t.Errorf("%s after %q: told %v, want %v", user, owner, c.Told, want)
			}
		}
		take("bob", "alice", 1, api.TokenDigest(token(1)))
		take("carol", "bob", 1) // it was an activity
		take("dave", "dave", 2)
		want := []string{"device.dropped alice 00000000 apns com.example.app sandbox moved"}
		if got := toldOf(t, db, token(1)); !slices.Equal(got, want) || mustFacts(t, db) != 1 {
			t.Errorf("told %q, want %q; %d facts", got, want, mustFacts(t, db))
		}
	})
}

// mustFacts counts the facts in the outbox.
func mustFacts(t testing.TB, db *record.DB) int64 {
	t.Helper()
	open, _, err := db.OutboxLag(t.Context(), record.KindFact)
	storetest.Must(t, err)
	return open
}

// H1: a batch tells of each device that it takes from another user.
func TestH1_ABatchTellsWhatItMoves(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		const n = 620 // more than one statement has
		owners, list := map[string]string{}, make([]api.DeviceEntry, n)
		var first []api.DeviceEntry
		for i := range n {
			list[i] = entry(fmt.Sprint("new-", i/10), i)
			if i%20 < 19 {
				was := entry(fmt.Sprint("old-", i/10), i)
				first, owners[was.Token] = append(first, was), was.User
			}
		}
		mustPutBatch(t, db, first...)
		c, _, err := db.PutDevices(t.Context(), record.DeviceBatch{Devices: list, Owners: owners, Tells: yes}, api.Idempotency{})
		storetest.Must(t, err)
		if len(c.Told) != len(first) || mustFacts(t, db) != int64(len(first)) {
			t.Errorf("%d keys are told and %d facts are on record, want %d", len(c.Told), mustFacts(t, db), len(first))
		}
		if got := toldOf(t, db, token(25)); len(got) != 1 || !strings.HasPrefix(got[0], "device.dropped old-2 ") || !strings.HasSuffix(got[0], " moved") {
			t.Errorf("told %q", got)
		}
	})
}

// E7: an operation is not done while the outbox has a fact that names its user and was there when it began, or soon after that.
func TestE7_FactsOnRecordAreWaitedFor(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		for i, user := range []string{"alice", "al"} {
			mustPut(t, db, user, token(i))
			setState(t, db, token(i), api.DeviceDropped, "Unregistered")
		}
		id, err := db.StartErasure(ctx, "alice", time.Now().UnixMilli())
		storetest.Must(t, err)
		o, err := db.OpenOperation(ctx, id)
		storetest.Must(t, err)
		open := func() int64 {
			t.Helper()
			for _, kind := range []string{record.KindSettings, record.KindGuard} {
				rows, err := db.OutboxPage(ctx, kind, 0, record.OpenRow{}, 100)
				storetest.Must(t, err)
				for _, row := range rows {
					storetest.Must(t, db.DeleteOutbox(ctx, row.ID))
				}
			}
			n, err := db.OpenErasure(ctx, o, 0)
			storetest.Must(t, err)
			return n
		}
		if n := open(); n != 1 {
			t.Errorf("%d rows are waited for, want 1", n)
		}
		rows, err := db.OpenFacts(ctx, []string{api.TokenDigest(token(0))})
		storetest.Must(t, err)
		storetest.Must(t, db.DeleteOutbox(ctx, rows[0].ID))
		if n := open(); n != 0 {
			t.Errorf("%d rows are waited for", n)
		}
		storetest.Eventually(t, time.Minute, "the moment of the beginning is over", func() bool { return time.Now().UnixMilli() > o.CreatedAt+1 })
		mustPut(t, db, "alice", token(9))
		setState(t, db, token(9), api.DeviceDropped, "Unregistered")
		soon := open()
		if later, err := db.OpenErasure(ctx, o, time.Minute); err != nil || soon != 0 || later != 1 {
			t.Errorf("of what happened after the beginning %d rows are waited for at once, and %d for a minute, %v", soon, later, err)
		}
	})
}
