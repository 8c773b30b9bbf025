package record_test

import (
	"context"
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

func entry(user string, n int) api.DeviceEntry {
	return api.DeviceEntry{User: user, Token: token(n), Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox}
}

// putBatch registers a batch as devices.Store does, in the name of the owners.
func putBatch(ctx context.Context, db *record.DB, once api.Idempotency, list ...api.DeviceEntry) (record.Change, bool, error) {
	var tokens []string
	for _, d := range list {
		tokens = append(tokens, d.Token)
	}
	owners, err := db.DeviceOwners(ctx, tokens)
	if err != nil {
		return record.Change{}, false, err
	}
	return db.PutDevices(ctx, record.DeviceBatch{Devices: list, Owners: owners}, once)
}

func mustPutBatch(t testing.TB, db *record.DB, list ...api.DeviceEntry) record.Change {
	t.Helper()
	c, _, err := putBatch(t.Context(), db, api.Idempotency{}, list...)
	storetest.Must(t, err)
	return c
}

// mustTokens lists a user's devices as their numbers, with the state of those that are not active.
func mustTokens(t testing.TB, db *record.DB, user string) (out []string) {
	t.Helper()
	for _, d := range mustDevices(t, db, user) {
		text := strings.TrimLeft(d.Token, "0")
		if d.State != api.DeviceActive {
			text += " " + string(d.State)
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func mustDrop(t testing.TB, db *record.DB, n int, at int64) {
	t.Helper()
	found, err := db.DevicesByToken(t.Context(), token(n))
	storetest.Must(t, err)
	registered := found[token(n)].RegisteredAt
	mustSetState(t, db, token(n), record.StateChange{State: api.DeviceDropped, Reason: "x", RegisteredAt: registered, At: api.AtMillis(registered.UnixMilli() + at)})
}

// TestP13_ABatchIsWhatItsCallsWouldBe: new devices, one that registers again, one that was dropped,
// and one of another user, in one transaction with one row in the outbox.
func TestP13_ABatchIsWhatItsCallsWouldBe(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		again, _, alice := mustPut(t, db, "alice", token(1))
		mustPut(t, db, "alice", token(2))
		mustDrop(t, db, 2, 1000)
		moved, _, bob := mustPut(t, db, "bob", token(3))
		before := mustCount(t, db, "outbox")
		located := entry("alice", 3)
		located.Locale = "de-AT"
		c := mustPutBatch(t, db, entry("carl", 4), located, entry("alice", 2), entry("alice", 1))
		rose := len(c.Users) == 3 && c.Users[0].Version == alice.Users[0].Version+3 && c.Users[1].Version == bob.Users[0].Version+1 && c.Users[2].Version > 0
		if !rose || c.Users[0].User != "alice" || c.Users[1].User != "bob" || c.Users[2].User != "carl" || mustCount(t, db, "outbox") != before+1 {
			t.Fatalf("%+v", c)
		}
		for user, want := range map[string][]string{"alice": {"1", "2", "3"}, "bob": nil, "carl": {"4"}} {
			if got := mustTokens(t, db, user); !slices.Equal(got, want) {
				t.Errorf("%s has %v, want %v", user, got, want)
			}
		}
		found, err := db.DevicesByToken(t.Context(), token(1), token(2), token(3))
		storetest.Must(t, err)
		if !found[token(1)].RegisteredAt.After(again.RegisteredAt.Time) || !found[token(3)].RegisteredAt.After(moved.RegisteredAt.Time) {
			t.Error("a registration is not later than the one before")
		}
		if found[token(3)].Locale != "de-AT" || found[token(2)].Locale != "" {
			t.Errorf("the locales are %q and %q", found[token(3)].Locale, found[token(2)].Locale)
		}
		if d := found[token(2)]; d.Reason != "" || d.DroppedAt != nil {
			t.Errorf("revived: %+v", d)
		}
	})
}

// TestP13_ALargeBatch has more devices than one statement.
func TestP13_ALargeBatch(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		list := make([]api.DeviceEntry, api.MaxDeviceBatch)
		for i := range list {
			list[i] = entry(fmt.Sprintf("u%04d", i), len(list)-i)
		}
		first, second := mustPutBatch(t, db, list...), mustPutBatch(t, db, list...)
		want := record.UserVersion{User: "u0999", Version: first.Users[len(first.Users)-1].Version + 1}
		if len(first.Users) != len(list) || len(second.Users) != len(list) || second.Users[999] != want {
			t.Fatalf("%d and %d users, the last %+v, want %+v", len(first.Users), len(second.Users), second.Users[len(second.Users)-1], want)
		}
		if n := mustCount(t, db, "devices"); n != len(list) {
			t.Fatalf("%d devices", n)
		}
	})
}

// TestP13_AFiftyFirstDevice: a batch is refused as a whole and names each device that does not fit.
// What leaves the user in the same batch, and what was dropped longest ago, makes room.
func TestP13_AFiftyFirstDevice(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		var full []api.DeviceEntry
		for i := range api.MaxDevices {
			full = append(full, entry("alice", i))
		}
		mustPutBatch(t, db, full...)
		refused := func(t *testing.T, want []string, list ...api.DeviceEntry) {
			t.Helper()
			outbox, devices := mustCount(t, db, "outbox"), mustCount(t, db, "devices")
			_, _, err := putBatch(t.Context(), db, api.Idempotency{}, list...)
			var no *api.Error
			if !errors.As(err, &no) || no.Code != api.CodeValidation {
				t.Fatalf("answered with %v", err)
			}
			var got []string
			for _, f := range no.Fields {
				got = append(got, f.Field)
				if f.Rule != "max" || f.Message != "would be one more than the 50 devices a user may have" {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, want) || mustCount(t, db, "outbox") != outbox || mustCount(t, db, "devices") != devices {
				t.Errorf("named %v, want %v; %d devices, %d before", got, want, mustCount(t, db, "devices"), devices)
			}
		}
		refused(t, []string{"devices[1].token", "devices[3].token"}, entry("bob", 90), entry("alice", 91), entry("alice", 7), entry("alice", 92))
		many := make([]api.DeviceEntry, 0, 60)
		for i := range 60 {
			many = append(many, entry("carl", 1000+i))
		}
		refused(t, []string{"devices[51].token", "devices[52].token"}, append([]api.DeviceEntry{entry("bob", 90)}, many[:52]...)...)
		mustDrop(t, db, 10, 3000)
		mustDrop(t, db, 11, 2000)
		mustDrop(t, db, 12, 1000)
		t.Run("TheOneDroppedLongestAgoGoes", func(t *testing.T) {
			mustPutBatch(t, db, entry("alice", 90), entry("alice", 12))                                       // 12 is revived and stays
			if open, err := db.OldestGuards(t.Context(), []string{token(11)}); len(open) != 1 || err != nil { // it names alice
				t.Errorf("the guard of the one that goes is to be written: %v, %v", open, err)
			}
			got := mustTokens(t, db, "alice")
			if len(got) != api.MaxDevices || slices.Contains(got, "b dropped") || !slices.Contains(got, "a dropped") || !slices.Contains(got, "c") {
				t.Errorf("%v", got)
			}
		})
		t.Run("WhatLeavesMakesRoom", func(t *testing.T) {
			mustPutBatch(t, db, entry("alice", 91), entry("alice", 92), entry("bob", 0))
			if got := mustTokens(t, db, "alice"); len(got) != api.MaxDevices || slices.Contains(got, "a dropped") {
				t.Errorf("%d devices: %v", len(got), got)
			}
			if got := mustTokens(t, db, "bob"); len(got) != 1 {
				t.Errorf("bob has %v", got)
			}
			refused(t, []string{"devices[2].token"}, entry("bob", 1), entry("alice", 93), entry("alice", 94))
		})
	})
}

// TestP13_ADeviceThatStaysWithAnotherTakesNoRoom: a batch goes on without it. It is no 51st device of the user whom the batch
// names, none of the user's dropped devices goes for it, and the user who has it gets no room by it for another device.
func TestP13_ADeviceThatStaysWithAnotherTakesNoRoom(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		var full []api.DeviceEntry
		for i := range api.MaxDevices {
			full = append(full, entry("alice", 1000+i), entry("bob", 2000+i))
		}
		mustPutBatch(t, db, full...)
		mustDrop(t, db, 1000, 1000)
		older := func(n int) api.DeviceEntry {
			e := entry("alice", n)
			e.RegisteredAt = new(api.At(time.Now().Add(-time.Hour)))
			return e
		}
		c := mustPutBatch(t, db, older(2001), older(2002), entry("carl", 1))
		if d := c.Devices[token(2001)]; d.User != "bob" || len(c.Devices) != 3 {
			t.Errorf("%d devices changed hands, one is %+v", len(c.Devices), d)
		}
		_, _, err := putBatch(t.Context(), db, api.Idempotency{}, older(2001), entry("bob", 1), entry("bob", 2003))
		var no *api.Error
		if !errors.As(err, &no) || len(no.Fields) != 1 || no.Fields[0].Field != "devices[1].token" {
			t.Errorf("a 51st device: %v", err)
		}
		for user, want := range map[string]int{"alice": api.MaxDevices, "bob": api.MaxDevices, "carl": 1} {
			if got := mustTokens(t, db, user); len(got) != want {
				t.Errorf("%s has %v", user, got)
			}
		}
	})
}

// TestP13_AnOldOwnerIsNoticed: a batch that knows another owner than there is now changes nothing.
func TestP13_AnOldOwnerIsNoticed(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		mustPut(t, db, "bob", token(1))
		for _, owners := range []map[string]string{nil, {token(1): "alice"}} {
			_, _, err := db.PutDevices(t.Context(), record.DeviceBatch{Devices: []api.DeviceEntry{entry("carl", 2), entry("carl", 1)}, Owners: owners}, api.Idempotency{})
			if !errors.Is(err, record.ErrOwnerChanged) || mustCount(t, db, "devices") != 1 {
				t.Fatalf("owners %v: %v", owners, err)
			}
		}
	})
}

// TestP13_ARepeatChangesNothing: a repeat with the same key does not bring back what was removed
// since, and a batch that was refused may be sent again.
func TestP13_ARepeatChangesNothing(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		once := api.Idempotency{Scope: "s", Key: "k", Body: [32]byte{1}}
		var full []api.DeviceEntry
		for i := range api.MaxDevices + 1 {
			full = append(full, entry("bob", i))
		}
		_, _, err := putBatch(t.Context(), db, once, full...)
		storetest.WantCode(t, err, api.CodeValidation)
		for n := range 2 {
			c, replayed, err := putBatch(t.Context(), db, once, entry("alice", 100))
			if err != nil || replayed != (n == 1) || len(c.Users) != 1-n {
				t.Fatalf("call %d: %+v, %t, %v", n, c, replayed, err)
			}
			_, err = db.DeleteDevice(t.Context(), "alice", token(100))
			storetest.Must(t, err)
			if n := mustCount(t, db, "devices"); n != 0 {
				t.Errorf("%d devices", n)
			}
		}
		once.Body = [32]byte{2}
		_, _, err = putBatch(t.Context(), db, once, entry("alice", 101))
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
	})
}

// TestP13_AnEarlierBuildLeavesTheRow: a relay that does not know the kind of the row neither reports
// it nor removes it.
func TestP13_AnEarlierBuildLeavesTheRow(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		mustPutBatch(t, db, entry("alice", 1), entry("bob", 2))
		forbidden := func(_ context.Context, rows []record.OutboxRow) ([]string, error) {
			t.Errorf("it was handed %+v", rows)
			return nil, nil
		}
		handlers := map[string]record.OutboxHandler{}
		for _, kind := range []string{record.KindSettings, record.KindGuard, record.KindContact, record.KindUpload} {
			handlers[kind] = forbidden
		}
		storetest.Must(t, db.NewRelay(record.RelayOptions{Age: 1}, handlers).Sweep(t.Context()))
		if n := mustCount(t, db, "outbox"); n != 1 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// TestP13_ManyBatchesHoldUpNoOtherRows: the relay of batches is cut into pieces, and ends.
func TestP13_ManyBatchesHoldUpNoOtherRows(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		for i := range 25 {
			mustPutBatch(t, db, entry("alice", i))
		}
		relay := db.NewRelay(record.RelayOptions{Every: 1, Age: 1}, map[string]record.OutboxHandler{
			record.KindDevices: func(_ context.Context, rows []record.OutboxRow) ([]string, error) { return ids(rows), nil },
		})
		for _, left := range []int{15, 5, 0} {
			storetest.Must(t, relay.Sweep(t.Context()))
			if n := mustCount(t, db, "outbox"); n != left {
				t.Fatalf("%d rows are left, want %d", n, left)
			}
		}
	})
}
