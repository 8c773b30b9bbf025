package devices_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/storetest"
)

// H1: the process that drops a device, or moves one to another user, is told at once of which devices there are facts; without the
// type there are none.
func TestH1_TheProcessOfADropIsToldOfItsFact(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var told []string
		on := true
		s := w.another(devices.Options{
			Tells: func(typ string) bool { return on && typ == api.FactDeviceDropped },
			Told: func(keys ...string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, keys...)
			},
		})
		take := func(user string, first, last int) {
			t.Helper()
			var list []api.DeviceEntry
			for n := first; n <= last; n++ {
				list = append(list, entry(user, n))
			}
			_, err := s.PutDevices(t.Context(), list, api.Idempotency{})
			storetest.Must(t, err)
		}
		wants := func(what string, numbers ...int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			var want []string
			for _, n := range numbers {
				want = append(want, api.TokenDigest(token(n)))
			}
			slices.Sort(told)
			slices.Sort(want)
			if !slices.Equal(told, want) {
				t.Errorf("%s tells %q, want %q", what, told, want)
			}
			told = nil
		}
		take("ann", 1, 5)
		wants("a new device")
		d, _, err := s.PutDevice(t.Context(), "bob", token(1), &api.DeviceRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox})
		storetest.Must(t, err)
		wants("a device that moves", 1)
		storetest.Must(t, s.Drop(t.Context(), token(1), "Unregistered", api.At(time.Now()), d.RegisteredAt))
		wants("a device that is gone", 1)
		take("bob", 2, 3)
		wants("a batch that moves devices", 2, 3)
		mustActivity(t, s, "eve", token(2))
		wants("an activity that takes a device", 2)
		mustActivity(t, s, "bob", token(2))
		wants("an activity that moves")
		on = false
		take("bob", 4, 5)
		wants("a batch without the type")
	})
}
