package devices_test

import (
	"errors"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// putDated registers a device in each of the two ways, at a time that the caller names.
func putDated(t testing.TB, w *world, batch bool, user string, n int, at time.Time) (*api.Device, error) {
	t.Helper()
	e := entry(user, n)
	e.RegisteredAt = new(api.At(at))
	if batch {
		if _, err := w.store.PutDevices(t.Context(), []api.DeviceEntry{e}, api.Idempotency{}); err != nil {
			return nil, err
		}
	} else if _, _, err := w.store.PutDevice(t.Context(), user, e.Token, &api.DeviceRequest{
		Platform: e.Platform, Topic: e.Topic, Environment: e.Environment, RegisteredAt: e.RegisteredAt,
	}); err != nil {
		return nil, err
	}
	list, err := w.store.Devices(t.Context(), user)
	storetest.Must(t, err)
	for i := range list.Items {
		if list.Items[i].Token == e.Token {
			return &list.Items[i], nil
		}
	}
	t.Fatalf("the device is not there: %+v", list)
	return nil, nil
}

// W3, P13: a backend that registers devices again and again says when they registered themselves. A push
// service's word about the token counts for as long as the device has not registered since.
func TestW3_RegisteredAtKeepsWhatAPushServiceSaid(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		for i, batch := range []bool{false, true} {
			n, before := 1+i, time.Now().Add(-time.Hour)
			put := func(user string, at time.Time, want api.DeviceState) *api.Device {
				t.Helper()
				d, err := putDated(t, w, batch, user, n, at)
				if storetest.Must(t, err); d.State != want || (d.DroppedAt != nil) != (want == api.DeviceDropped) || (d.Reason != "") != (want != api.DeviceActive) {
					t.Errorf("batch %v: the device is %+v, want %s", batch, d, want)
				}
				return d
			}
			d := put("alice", before, api.DeviceActive)
			if !d.RegisteredAt.Equal(api.At(before).Time) {
				t.Errorf("registered at %v, want %v", d.RegisteredAt, before)
			}
			gone := before.Add(time.Minute)
			storetest.Must(t, w.store.Drop(t.Context(), token(n), "Unregistered", api.At(gone), d.RegisteredAt))
			last := d.RegisteredAt
			for range 3 { // each night
				if d = put("alice", before, api.DeviceDropped); !d.RegisteredAt.After(last.Time) || d.RegisteredAt.After(gone) {
					t.Errorf("registered at %v after %v", d.RegisteredAt, last)
				}
				last = d.RegisteredAt
			}
			put("alice", gone, api.DeviceDropped)
			put("bob", before, api.DeviceDropped)
			if g := mustGuard(t, w, token(n)); g.Reaches("bob") || g.Reaches("alice") {
				t.Errorf("the guard is %+v", g)
			}
			d = put("bob", gone.Add(time.Second), api.DeviceActive)
			storetest.Must(t, w.store.MarkSuspect(t.Context(), token(n), "BadDeviceToken", d.RegisteredAt))
			d = put("bob", gone.Add(time.Second), api.DeviceSuspect)
			put("bob", d.RegisteredAt.Add(time.Second), api.DeviceActive)
			storetest.Must(t, w.store.Drop(t.Context(), token(n), "gone", api.Time{}, api.At(time.Now())))
			put("bob", gone.Add(30*time.Minute), api.DeviceDropped)
			if d := mustPut(t, w.store, "bob", token(n)); d.State != api.DeviceActive {
				t.Errorf("a registration without a time does not revive: %+v", d)
			}
		}
	})
}

// W3: a time that is ahead by the difference of two clocks is now, and one that is further ahead is refused.
// W3: a nightly job that read a token before its phone changed hands does not take it back.
func TestW3_AnOlderRegistrationTakesNoDevice(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		for i, batch := range []bool{false, true} {
			n, before := 1+i, time.Now().Add(-time.Hour)
			_, err := putDated(t, w, batch, "alice", n, before)
			storetest.Must(t, err)
			mustPut(t, w.store, "bob", token(n))
			e := entry("alice", n)
			e.RegisteredAt = new(api.At(before))
			if batch {
				_, err = w.store.PutDevices(t.Context(), []api.DeviceEntry{e, entry("carol", 9)}, api.Idempotency{})
				storetest.Must(t, err)
			} else { // the answer tells nothing of bob's device
				d, created, err := w.store.PutDevice(t.Context(), "alice", e.Token, &api.DeviceRequest{Platform: e.Platform, Topic: e.Topic, Environment: e.Environment, RegisteredAt: e.RegisteredAt})
				if storetest.WantCode(t, err, api.CodeConflict); d != nil || created {
					t.Errorf("%+v, created %t", d, created)
				}
			}
			if g := mustGuard(t, w, token(n)); !g.Reaches("bob") {
				t.Errorf("batch %v: the guard says %+v", batch, g)
			}
			for user, want := range map[string]int{"alice": 0, "bob": n} {
				if list, err := w.store.Devices(t.Context(), user); err != nil || len(list.Items) != want {
					t.Errorf("batch %v: %s has %+v, %v", batch, user, list, err)
				}
			}
			if _, err := putDated(t, w, batch, "alice", n, time.Now().Add(time.Minute)); err != nil { // she has it again
				t.Error(err)
			}
			mustPut(t, w.store, "bob", token(n))
		}
	})
}

func TestW3_RegisteredAtIsNotInTheFuture(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		d, err := putDated(t, w, false, "alice", 1, time.Now().Add(time.Minute))
		if storetest.Must(t, err); d.RegisteredAt.After(time.Now().Add(10 * time.Second)) {
			t.Errorf("registered at %v", d.RegisteredAt)
		}
		for batch, field := range map[bool]string{false: "registered_at", true: "devices[0].registered_at"} {
			_, err := putDated(t, w, batch, "bob", 2, time.Now().Add(time.Hour))
			var e *api.Error
			if !errors.As(err, &e) || e.Code != api.CodeValidation || len(e.Fields) != 1 || e.Fields[0].Field != field || e.Fields[0].Rule != "past" {
				t.Errorf("%v", err)
			}
		}
		if list, err := w.store.Devices(t.Context(), "bob"); err != nil || len(list.Items) != 0 {
			t.Errorf("%+v %v", list, err)
		}
	})
}
