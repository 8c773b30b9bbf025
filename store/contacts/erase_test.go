package contacts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/store/record"
	"fanfare/store/storetest"
)

// mustBegin begins to erase a user, at a later moment than anything before it.
func (w *world) mustBegin(t testing.TB, user string) *record.Operation {
	t.Helper()
	id, err := w.rec.StartErasure(t.Context(), user, time.Now().UnixMilli())
	storetest.Must(t, err)
	o, err := w.rec.OpenOperation(t.Context(), id)
	storetest.Must(t, err)
	return o
}

// named lists the keys of Redis that name a user.
func (w *world) named(t testing.TB, user string) (keys []string) {
	t.Helper()
	c := w.db.Client()
	all, err := c.Keys(t.Context(), "ff:{c:*").Result()
	storetest.Must(t, err)
	for _, key := range all {
		text := key
		if strings.HasSuffix(key, ":recent") {
			text += fmt.Sprint(c.ZRange(t.Context(), key, 0, -1).Val())
		} else if strings.HasSuffix(key, ":state") {
			text += fmt.Sprint(c.HGetAll(t.Context(), key).Val())
		}
		if strings.Contains(text, user) {
			keys = append(keys, key)
		}
	}
	return keys
}

// E4: an erased user is in no index of others, also not as the floor, and the others' indexes are
// right. Whoever becomes a contact later is listed as any other.
func TestE4_AnErasedUserIsInNoIndex(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 3, Min: 1, Page: 2}, func(t *testing.T, w *world) {
		w.relay = quick
		w.work(t)
		const gone = "zoe"
		for i, contact := range []string{"a", "b", gone, "c", "d"} {
			w.mustUpload(t, "u"+contact, contact, "public", int64(10-i))
			w.mustPut(t, "floor", contact, "friend") // the cap is 3, so zoe is listed last and c is the floor
			w.mustPut(t, contact, gone, "friend")
		}
		for _, contact := range []string{"a", gone} {
			w.mustPut(t, "lists", contact, "friend")
			w.mustPut(t, gone, contact, "friend")
		}
		for i := range 4 { // zoe is the floor of this one
			contact := fmt.Sprint("newer", i)
			w.mustUpload(t, "u"+contact, contact, "public", int64(100+i))
			w.mustPut(t, "below", contact, "friend")
		}
		w.mustPut(t, "below", gone, "friend")
		for _, user := range []string{"floor", "lists", "below", gone} {
			w.mustRecent(t, user, 2)
		}
		w.waitForJobs(t)
		if len(w.named(t, gone)) < 4 {
			t.Fatalf("only %v name the user: nothing would be tested", w.named(t, gone))
		}
		o := w.mustBegin(t, gone)
		storetest.Eventually(t, testPatience, "everything is erased", func() bool {
			_, busy, err := w.EraseUploads(t.Context(), o)
			storetest.Must(t, err)
			if busy {
				return false
			}
			found, busy, err := w.EraseContacts(t.Context(), o)
			storetest.Must(t, err)
			return !found && !busy
		})
		w.waitForJobs(t)
		if keys := w.named(t, gone); len(keys) > 0 {
			t.Errorf("these keys name the user: %v", keys)
		}
		w.want(t, "floor", 3, "a@10 b@9 c@7")
		w.want(t, "lists", 2, "a@10")
		w.want(t, "below", 3, "newer3@103 newer2@102 newer1@101")
		w.want(t, gone, 2, "")
		w.mustUpload(t, "uzoe", gone, "public", 1000) // the id is free again
		w.mustPut(t, "lists", gone, "friend")
		w.waitForJobs(t)
		w.want(t, "lists", 2, "zoe@1000 a@10")
	})
}

// A floor may lose its name, and the index is right even so.
func TestR6_AFloorWithoutItsName(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{Max: 2, Min: 1}, func(t *testing.T, w *world) {
		w.work(t)
		for i, contact := range []string{"a", "b", "c", "d"} {
			w.mustUpload(t, "u"+contact, contact, "public", int64(10-i))
			w.mustPut(t, "me", contact, "friend")
		}
		w.waitForJobs(t)
		w.want(t, "me", 2, "a@10 b@9")
		w.mustRemove(t, "me", "c")
		w.waitForJobs(t)
		if floor := w.db.Client().HMGet(t.Context(), stateKey("me"), "fs", "fm").Val(); floor[0] != "8" || floor[1] != "~" {
			t.Errorf("the floor is %v, want 8 without a name", floor)
		}
		w.mustRemove(t, "me", "a")
		w.waitForJobs(t)
		w.want(t, "me", 2, "b@9 d@7")
		w.mustUpload(t, "ud2", "d", "public", int64(20))
		w.waitForJobs(t)
		w.want(t, "me", 2, "d@20 b@9")
	})
}
