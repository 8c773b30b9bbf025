package record_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"

	"fanfare/api"
	"fanfare/store/record"
)

func request() *api.DeviceRequest {
	return &api.DeviceRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox}
}

// mustPut registers a token as devices.Store does, in the name of its owner.
func mustPut(t testing.TB, db *record.DB, user, tok string) (*api.Device, bool, record.Change) {
	t.Helper()
	owner, err := db.DeviceOwner(t.Context(), tok)
	storetest.Must(t, err)
	done, c, err := db.PutDevice(t.Context(), record.DeviceWrite{User: user, Token: tok, Owner: owner}, request())
	storetest.Must(t, err)
	return done.Device, done.Created, c
}

func mustSetState(t testing.TB, db *record.DB, tok string, v record.StateChange) record.Change {
	t.Helper()
	owner, err := db.DeviceOwner(t.Context(), tok)
	storetest.Must(t, err)
	c, err := db.SetDeviceState(t.Context(), record.DeviceWrite{User: owner, Token: tok, Owner: owner}, v)
	storetest.Must(t, err)
	return c
}

func mustDevices(t testing.TB, db *record.DB, user string) []api.Device {
	t.Helper()
	list, err := db.Devices(t.Context(), user)
	storetest.Must(t, err)
	return list
}

// W1: the longest token fits into its row and into the outbox row of its guard, and tokens that differ
// only in case are two devices.
func TestW1_TheLongestTokenFits(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		long := strings.Repeat("aZ_:.-90", api.MaxDeviceToken/8)
		other := long[:api.MaxDeviceToken-1] + "1"
		for _, tok := range []string{long, other, strings.ToLower(long)} {
			mustPut(t, db, "alice", tok)
		}
		list := mustDevices(t, db, "alice")
		owned, err := db.DevicesByToken(t.Context(), long)
		storetest.Must(t, err)
		if len(list) != 3 || owned[long].User != "alice" || owned[long].Token != long {
			t.Errorf("%d devices, %+v", len(list), owned)
		}
		rows, err := db.OutboxPage(t.Context(), record.KindGuard, 0, record.OpenRow{}, 10)
		storetest.Must(t, err)
		if !slices.ContainsFunc(rows, func(r record.OpenRow) bool { return r.Subject == long }) {
			t.Errorf("the outbox has %+v", rows)
		}
	})
}

// W1: a device's locale is kept as given until it registers again. A process of an earlier version, which
// knows no locales, registers devices without one.
func TestW1_LocalesAreOnRecord(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		longest := strings.Repeat("abcdefg-", 4) + "abc"
		for _, locale := range []string{"de-AT", longest, ""} {
			r := request()
			r.Locale = locale
			owner, err := db.DeviceOwner(t.Context(), token(1))
			storetest.Must(t, err)
			done, _, err := db.PutDevice(t.Context(), record.DeviceWrite{User: "alice", Token: token(1), Owner: owner}, r)
			storetest.Must(t, err)
			d := done.Device
			mustSetState(t, db, token(1), record.StateChange{State: api.DeviceSuspect, RegisteredAt: d.RegisteredAt})
			snapshots, err := db.Snapshots(t.Context(), []string{"alice"})
			storetest.Must(t, err)
			for _, got := range []string{d.Locale, mustDevices(t, db, "alice")[0].Locale, snapshots["alice"].Devices[0].Locale} {
				if got != locale {
					t.Errorf("the locale is %q, want %q", got, locale)
				}
			}
		}
		_, err := db.SQL().Exec("INSERT INTO devices (token, user_id, platform, topic, environment, state, reason, registered_at) " +
			"VALUES ('" + token(2) + "', 'bob', 'apns', 't', 'sandbox', 'active', '', 1)")
		storetest.Must(t, err)
		if list := mustDevices(t, db, "bob"); len(list) != 1 || list[0].Locale != "" {
			t.Errorf("%+v", list)
		}
	})
}

// W2: the longest target fits, stays when a push service refuses the device, and goes with the next
// registration. The answer that is kept for an idempotency key has nothing of it but the origin.
func TestW2_TargetsAreOnRecord(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		longest := "https://fcm.googleapis.com/" + strings.Repeat("e", api.MaxEndpoint-len("https://fcm.googleapis.com/"))
		tok, once := api.TokenOfEndpoint(longest), api.Idempotency{Scope: "s", Key: "k"}
		put := func(s api.Subscription, once api.Idempotency) record.Registered {
			t.Helper()
			owner, err := db.DeviceOwner(t.Context(), tok)
			storetest.Must(t, err)
			r := &api.DeviceRequest{Platform: "webpush", Topic: "shop", Target: s.Target()}
			done, _, err := db.PutDevice(t.Context(), record.DeviceWrite{User: "alice", Token: tok, Owner: owner, Once: once}, r)
			storetest.Must(t, err)
			return done
		}
		first, second := storetest.Subscription(t, longest), storetest.Subscription(t, longest)
		before := put(first, once)
		if !before.Created || before.Replayed || before.Device.Target != first.Target() || before.Device.Origin != "https://fcm.googleapis.com" {
			t.Errorf("registered %+v", before)
		}
		mustSetState(t, db, tok, record.StateChange{State: api.DeviceSuspect, RegisteredAt: before.Device.RegisteredAt})
		if d := mustDevices(t, db, "alice")[0]; d.Target != first.Target() || d.State != api.DeviceSuspect {
			t.Errorf("suspect %+v", d)
		}
		if done := put(second, api.Idempotency{}); done.Created || !done.Device.RegisteredAt.After(before.Device.RegisteredAt.Time) {
			t.Errorf("registered again %+v", done)
		}
		again := put(first, once)
		if d := again.Device; !again.Created || !again.Replayed || d.Token != tok || d.Origin != before.Device.Origin || d.Target != "" ||
			d.State != api.DeviceActive || !d.RegisteredAt.Equal(before.Device.RegisteredAt.Time) {
			t.Errorf("replayed %+v", d)
		}
		snapshots, err := db.Snapshots(t.Context(), []string{"alice"})
		storetest.Must(t, err)
		owned, err := db.DevicesByToken(t.Context(), tok)
		storetest.Must(t, err)
		for _, got := range []string{mustDevices(t, db, "alice")[0].Target, snapshots["alice"].Devices[0].Target, owned[tok].Target} {
			if got != second.Target() {
				t.Errorf("the target is %q, want %q", got, second.Target())
			}
		}
		var answers string
		storetest.Must(t, db.SQL().QueryRow("SELECT answer FROM idempotency").Scan(&answers))
		if strings.Contains(answers, "eeee") || strings.Contains(answers, first.Keys.Auth) || strings.Contains(answers, first.Keys.P256dh) {
			t.Errorf("the answer is kept as %s", answers)
		}
	})
}

func TestDevices(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		first, created, c := mustPut(t, db, "alice", token(1))
		if !created || first.State != api.DeviceActive || len(c.Users) != 1 || c.Users[0].User != "alice" || c.Users[0].Version < 1 || mustCount(t, db, "outbox") != 2 {
			t.Fatalf("created %v: %+v %+v", created, first, c)
		}
		t.Run("EachRegistrationIsLater", func(t *testing.T) {
			at := first.RegisteredAt
			for range 5 {
				d, created, _ := mustPut(t, db, "alice", token(1))
				if created || !d.RegisteredAt.After(at.Time) {
					t.Fatalf("created %v, registered %v after %v", created, d.RegisteredAt, at)
				}
				at = d.RegisteredAt
			}
		})
		t.Run("AMovedTokenLeavesTheFirstUser", func(t *testing.T) {
			before := mustCount(t, db, "outbox")
			_, created, c := mustPut(t, db, "bob", token(1))
			if !created || len(c.Users) != 2 || mustCount(t, db, "outbox") != before+3 || len(mustDevices(t, db, "alice")) != 0 || len(mustDevices(t, db, "bob")) != 1 {
				t.Fatalf("created %v: %+v", created, c)
			}
		})
		t.Run("AWriterWithAnOldOwnerIsToldSo", func(t *testing.T) {
			for _, owner := range []string{"", "alice"} {
				_, _, err := db.PutDevice(t.Context(), record.DeviceWrite{User: "carol", Token: token(1), Owner: owner}, request())
				if !errors.Is(err, record.ErrOwnerChanged) {
					t.Fatalf("owner %q: %v", owner, err)
				}
			}
		})
		t.Run("AnotherUsersDeviceIsNotDeleted", func(t *testing.T) {
			c, err := db.DeleteDevice(t.Context(), "alice", token(1))
			if err != nil || len(c.Users) != 0 || len(mustDevices(t, db, "bob")) != 1 {
				t.Fatalf("%+v, %v", c, err)
			}
			c, err = db.DeleteDevice(t.Context(), "bob", token(1))
			if err != nil || len(c.Users) != 1 || len(mustDevices(t, db, "bob")) != 0 {
				t.Fatalf("%+v, %v", c, err)
			}
		})
	})
}

func TestSetDeviceState(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		d, _, _ := mustPut(t, db, "alice", token(1))
		before, after := api.AtMillis(d.RegisteredAt.UnixMilli()-1), api.AtMillis(d.RegisteredAt.UnixMilli()+1000)
		steps := []struct {
			name    string
			change  record.StateChange
			changes bool
			state   api.DeviceState
		}{
			{"seen before it registered again: kept", record.StateChange{State: api.DeviceDropped, Reason: "Unregistered", RegisteredAt: before}, false, api.DeviceActive},
			{"410 older than the registration: kept", record.StateChange{State: api.DeviceDropped, Reason: "Unregistered", RegisteredAt: d.RegisteredAt, At: before}, false, api.DeviceActive},
			{"suspect", record.StateChange{State: api.DeviceSuspect, Reason: "BadDeviceToken", RegisteredAt: d.RegisteredAt}, true, api.DeviceSuspect},
			{"suspect again", record.StateChange{State: api.DeviceSuspect, Reason: "BadDeviceToken", RegisteredAt: d.RegisteredAt}, false, api.DeviceSuspect},
			{"dropped", record.StateChange{State: api.DeviceDropped, Reason: "Unregistered", RegisteredAt: d.RegisteredAt, At: after}, true, api.DeviceDropped},
			{"dropped again", record.StateChange{State: api.DeviceDropped, Reason: "ExpiredToken", RegisteredAt: d.RegisteredAt}, false, api.DeviceDropped},
			{"never suspect after dropped", record.StateChange{State: api.DeviceSuspect, Reason: "x", RegisteredAt: d.RegisteredAt}, false, api.DeviceDropped},
		}
		for _, s := range steps {
			c := mustSetState(t, db, token(1), s.change)
			now := mustDevices(t, db, "alice")[0]
			if (len(c.Users) > 0) != s.changes || now.State != s.state {
				t.Fatalf("%s: %+v, %+v", s.name, c, now)
			}
		}
		now := mustDevices(t, db, "alice")[0]
		if now.Reason != "Unregistered" || now.DroppedAt == nil || !now.DroppedAt.Equal(after.Time) {
			t.Fatalf("reason and time are not kept: %+v", now)
		}
		if d, created, _ := mustPut(t, db, "alice", token(1)); created || d.State != api.DeviceActive || d.Reason != "" || d.DroppedAt != nil {
			t.Fatalf("registering again did not revive it: %+v", d)
		}
	})
}

func TestSetDeviceState_AnyReasonFits(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		d, _, _ := mustPut(t, db, "alice", token(1))
		mustSetState(t, db, token(1), record.StateChange{State: api.DeviceDropped, Reason: "größer\n" + strings.Repeat("x", 1<<16), RegisteredAt: d.RegisteredAt})
		if r := mustDevices(t, db, "alice")[0].Reason; len(r) != 128 || !strings.HasPrefix(r, "gr??er?xx") {
			t.Fatalf("reason %q", r)
		}
	})
}

func TestDeviceLimit(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		var devices []*api.Device
		for i := range api.MaxDevices {
			d, _, _ := mustPut(t, db, "alice", token(i))
			devices = append(devices, d)
		}
		_, _, err := db.PutDevice(t.Context(), record.DeviceWrite{User: "alice", Token: token(99)}, request())
		storetest.WantCode(t, err, api.CodeValidation)
		mustPut(t, db, "alice", token(0)) // one that is there may register again
		for i, at := range []int64{2000, 1000} {
			d := devices[10+i]
			mustSetState(t, db, d.Token, record.StateChange{State: api.DeviceDropped, Reason: "x", RegisteredAt: d.RegisteredAt, At: api.AtMillis(d.RegisteredAt.UnixMilli() + at)})
		}
		mustPut(t, db, "alice", token(99))
		list := mustDevices(t, db, "alice")
		has := func(tok string) bool {
			return slices.ContainsFunc(list, func(d api.Device) bool { return d.Token == tok })
		}
		if len(list) != api.MaxDevices || !has(token(99)) || !has(token(10)) || has(token(11)) {
			t.Fatalf("%d devices; the one dropped longest ago did not make room", len(list))
		}
	})
}

func TestOptOutLimit(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		mustFill(t, db, "opt_outs (user_id, type, created_at)", "('alice', 'x%d', 0)", api.MaxOptOuts-1)
		_, err := db.PutOptOut(ctx, "alice", "last")
		storetest.Must(t, err)
		_, err = db.PutOptOut(ctx, "alice", "onemore")
		storetest.WantCode(t, err, api.CodeValidation)
		if c, err := db.PutOptOut(ctx, "alice", "last"); err != nil || len(c.Users) != 0 {
			t.Fatalf("the same opt-out again: %+v, %v", c, err)
		}
		before, err := db.UserVersions(ctx, []string{"alice"})
		storetest.Must(t, err)
		c, err := db.DeleteOptOut(ctx, "alice", "last")
		if err != nil || c.Users[0].Version != before["alice"]+1 {
			t.Fatalf("%+v, %v", c, err)
		}
		if c, err := db.DeleteOptOut(ctx, "alice", "last"); err != nil || len(c.Users) != 0 {
			t.Fatalf("deleting what is not there: %+v, %v", c, err)
		}
		_, err = db.PutOptOut(ctx, "alice", "onemore")
		storetest.Must(t, err)
	})
}

func TestMutes(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		past, future := api.At(time.Now().Add(-time.Hour)), api.At(time.Now().Add(time.Hour))
		_, err := db.PutMute(ctx, "alice", "album:1", &past)
		storetest.WantCode(t, err, api.CodeValidation)
		mustFill(t, db, "mutes (user_id, object, until, created_at)", "('alice', 'x%d', 1, 0)", api.MaxMutes)
		_, err = db.PutMute(ctx, "alice", "album:1", &future)
		storetest.Must(t, err)
		t.Run("ExpiredOnesAreInvisibleDoNotCountAndAreCleanedUp", func(t *testing.T) {
			s, err := db.Settings(ctx, "alice")
			if err != nil || len(s.Mutes) != 1 || s.Mutes[0].Object != "album:1" || !s.Mutes[0].Until.Equal(future.Time) {
				t.Fatalf("%+v, %v", s, err)
			}
			if n := mustCount(t, db, "mutes"); n != 1 {
				t.Fatalf("%d rows are left", n)
			}
		})
		t.Run("AnyChat", func(t *testing.T) { // C14: also with an id of 128 bytes
			object := api.ChatObject(strings.Repeat("c", api.MaxIdentifier))
			_, err := db.PutMute(ctx, "chatter", object, nil)
			storetest.Must(t, err)
			s, err := db.Settings(ctx, "chatter")
			if err != nil || len(s.Mutes) != 1 || s.Mutes[0].Object != object {
				t.Fatalf("%+v, %v", s, err)
			}
		})
		t.Run("MutingAgainChangesTheEnd", func(t *testing.T) {
			_, err := db.PutMute(ctx, "alice", "album:1", nil)
			storetest.Must(t, err)
			s, err := db.Settings(ctx, "alice")
			if err != nil || len(s.Mutes) != 1 || s.Mutes[0].Until != nil {
				t.Fatalf("%+v, %v", s, err)
			}
		})
		t.Run("Limit", func(t *testing.T) {
			mustFill(t, db, "mutes (user_id, object, until, created_at)", "('alice', 'y%d', NULL, 0)", api.MaxMutes-1)
			_, err := db.PutMute(ctx, "alice", "onemore", nil)
			storetest.WantCode(t, err, api.CodeValidation)
			_, err = db.PutMute(ctx, "alice", "album:1", &future)
			storetest.Must(t, err)
			_, err = db.DeleteMute(ctx, "alice", "album:1")
			storetest.Must(t, err)
			_, err = db.PutMute(ctx, "alice", "onemore", nil)
			storetest.Must(t, err)
		})
	})
}

// mustFill writes n rows directly.
func mustFill(t testing.TB, db *record.DB, table, values string, n int) {
	t.Helper()
	query := "INSERT INTO " + table + " VALUES "
	for i := range n {
		query += fmt.Sprintf(values, i) + ","
	}
	_, err := db.SQL().Exec(query[:len(query)-1])
	storetest.Must(t, err)
}

func mustCount(t testing.TB, db *record.DB, table string) (n int) {
	t.Helper()
	storetest.Must(t, db.SQL().Get(&n, "SELECT COUNT(*) FROM "+table))
	return n
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		a, _, _ := mustPut(t, db, "alice", token(1))
		mustPut(t, db, "alice", token(2))
		mustSetState(t, db, token(1), record.StateChange{State: api.DeviceDropped, Reason: "x", RegisteredAt: a.RegisteredAt})
		_, err := db.PutOptOut(ctx, "bob", "like")
		storetest.Must(t, err)
		_, err = db.PutMute(ctx, "bob", "album:1", nil)
		storetest.Must(t, err)
		users := []string{"alice", "bob", "nobody"}
		for i := range 1500 { // more than one IN list
			users = append(users, fmt.Sprintf("u%d", i))
		}
		found, err := db.Snapshots(ctx, users)
		storetest.Must(t, err)
		alice, bob := found["alice"], found["bob"]
		if alice.Version < 3 || len(alice.Devices) != 1 || alice.Devices[0].Token != token(2) {
			t.Fatalf("alice: %+v", alice)
		}
		if bob.Version < 2 || len(bob.OptOuts) != 1 || len(bob.Mutes) != 1 || found["nobody"].Version != 0 || len(found) != len(users) {
			t.Fatalf("bob: %+v, nobody: %+v", bob, found["nobody"])
		}
	})
}

func TestVersionsRiseInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		seen := make([]int64, 24)
		storetest.AtOnce(t, len(seen), func(ctx context.Context, i int) error {
			c, err := db.PutOptOut(ctx, "alice", fmt.Sprintf("type%d", i))
			if err == nil {
				seen[i] = c.Users[0].Version
			}
			return err
		})
		slices.Sort(seen)
		for i, v := range seen {
			if v != seen[0]+int64(i) {
				t.Fatalf("versions %v", seen)
			}
		}
	})
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		mustPut(t, db, "alice", token(1))
		due, err := db.OutboxPage(ctx, record.KindSettings, 5000, record.OpenRow{}, 10)
		if err != nil || len(due) != 0 {
			t.Fatalf("a young row is due: %+v, %v", due, err)
		}
		due, err = db.OutboxPage(ctx, record.KindSettings, 0, record.OpenRow{}, 10)
		if err != nil || len(due) != 1 || due[0].Subject != "alice" {
			t.Fatalf("%+v, %v", due, err)
		}
		all := []string{due[0].ID}
		due, err = db.OutboxPage(ctx, record.KindGuard, 0, record.OpenRow{}, 10)
		if err != nil || len(due) != 1 || due[0].Subject != token(1) {
			t.Fatalf("%+v, %v", due, err)
		}
		all = append(all, due[0].ID)
		for range 2 {
			storetest.Must(t, db.DeleteOutbox(ctx, all...))
		}
		storetest.Must(t, db.DeleteOutbox(ctx))
		if n := mustCount(t, db, "outbox"); n != 0 {
			t.Fatalf("%d rows are left", n)
		}
	})
}
