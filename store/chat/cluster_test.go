package chat

import (
	"fmt"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// The slots are those that a node of a real Cluster computes.
func TestKeysOfOneScriptShareASlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Cluster(t).URL()), Options{})
	slot := func(key string) int64 {
		n, err := w.db.Client().ClusterKeySlot(t.Context(), key).Result()
		storetest.Must(t, err)
		return n
	}
	used := map[int64]bool{}
	for i := range 300 {
		chat := fmt.Sprint("chat:", i, "@x")
		want := slot(metaKey(chat))
		used[want] = true
		for _, key := range []string{
			logKey(chat), membersKey(chat), joinsKey(chat), ownKey(chat, "u:1"), dueKey(bucketOf(chat)),
			recordKey(chat, api.Idempotency{Scope: "any"}.Name(chat)),
		} {
			if got := slot(key); got != want {
				t.Errorf("%s is in slot %d, %s in %d", key, got, metaKey(chat), want)
			}
		}
	}
	if len(used) < 100 {
		t.Errorf("300 chats are in %d slots", len(used))
	}
	slots := map[int64]bool{}
	for bucket := range buckets {
		slots[slot(dueKey(bucket))] = true
	}
	if len(slots) < buckets-8 {
		t.Errorf("%d buckets are in %d slots", buckets, len(slots))
	}
}

// On a Cluster a user's chats are on all masters, and his index on one.
func TestCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Cluster(t).URL()), Options{})
	want := ""
	masters := map[int64]bool{}
	for i := range 30 {
		chat := fmt.Sprintf("c%02d", i)
		w.mustCreate(chat, "alice", "bob")
		w.mustPush(chat, "alice", "hi")
		want += fmt.Sprintf("%s:1[1:hi] ", chat)
		n, err := w.db.Client().ClusterKeySlot(t.Context(), metaKey(w.id(chat))).Result()
		storetest.Must(t, err)
		masters[n/5462] = true
	}
	if len(masters) != 3 {
		t.Fatalf("the chats are on %d masters", len(masters))
	}
	if got := w.pending("bob", 0) + " "; got != want {
		t.Errorf("pending is %q, want %q", got, want)
	}
	acks := map[string]int64{}
	for i := range 30 {
		acks[w.id(fmt.Sprintf("c%02d", i))] = 1
	}
	acked, err := w.Ack(t.Context(), w.id("bob"), acks, nil)
	storetest.Must(t, err)
	if len(acked.Acked) != 30 || len(acked.Errors) > 0 {
		t.Errorf("acknowledged %+v", acked)
	}
	w.wantPending("bob", "")
	if got := len(w.due()); got != 30*3+29 {
		t.Errorf("%d chats are due: %q", (got+1)/4, w.due())
	}
}
