package chat

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// C7: Redis restarts without a message that was acknowledged, and its id is given again:
// who has seen the lost one is told, although there is a message of that id. Idempotency
// keys of what was not lost still hold.
func TestC7_IDsThatAreGivenAgain(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := newWorld(t, storetest.Open(t, redis.URL()), Options{})
	epoch := w.mustCreate("c", "alice", "bob").Epoch
	w.wantSent("c", "alice", "one", "k1", 1, false)
	w.wantRead("c", "bob", MessagesQuery{After: after(0), Epoch: epoch}, "1:one first=1 last=1")
	storetest.Must(t, redis.Client().Save(t.Context()).Err())
	w.wantSent("c", "alice", "lost", "k2", 2, false)
	redis.Restart()

	w.wantRead("c", "bob", MessagesQuery{After: after(2), Epoch: epoch}, "first=1 last=1 gap")
	w.wantSent("c", "alice", "other", "k3", 2, false)
	w.wantRead("c", "bob", MessagesQuery{After: after(2), Epoch: epoch}, "first=1 last=2 gap")
	w.wantRead("c", "bob", MessagesQuery{After: after(0), Epoch: epoch}, "1:one 2:other first=1 last=2 gap")
	w.wantSent("c", "alice", "one", "k1", 1, true)
	w.wantSent("c", "alice", "lost", "k2", 3, false)

	// From here on the new epoch holds, and the chat is still the same.
	m := w.mustRead("c", "bob", MessagesQuery{})
	if !strings.HasPrefix(m.Epoch, epoch+".") {
		t.Errorf("the epoch %s became %s", epoch, m.Epoch)
	}
	w.mustSend("c", "bob", "hi")
	w.wantRead("c", "bob", MessagesQuery{After: after(3), Epoch: m.Epoch}, "4:hi first=1 last=4")
	_, _, err := w.Create(t.Context(), &api.ChatRequest{ID: w.id("c"), Creator: w.id("alice")}, api.Idempotency{}, false)
	storetest.WantCode(t, err, api.CodeConflict)
}

// The same with the first messages of a chat.
func TestC7_TheFirstIDsAreGivenAgain(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	w := newWorld(t, storetest.Open(t, redis.URL()), Options{})
	epoch := w.mustCreate("c", "alice", "bob").Epoch
	storetest.Must(t, redis.Client().Save(t.Context()).Err())
	w.mustSend("c", "alice", "lost")
	w.wantRead("c", "bob", MessagesQuery{After: after(0), Epoch: epoch}, "1:lost first=1 last=1")
	redis.Restart()
	w.mustSend("c", "alice", "other")
	w.mustSend("c", "alice", "third")
	w.wantRead("c", "bob", MessagesQuery{After: after(1), Epoch: epoch}, "2:third first=1 last=2 gap")
}

// C7: a master is replaced and becomes the master again, without a restart: what it lost
// in between it has lost, append-only file or not.
func TestC7_AMasterThatComesBack(t *testing.T) {
	t.Parallel()
	first := storetest.Redis(t, "--appendonly", "yes")
	second := storetest.Redis(t, "--appendonly", "yes", "--replicaof", fmt.Sprint("127.0.0.1 ", first.Port()))
	follows := func(replica *storetest.RedisServer) {
		storetest.Eventually(t, testPatience, "the replica follows", func() bool {
			text, err := replica.Client().Info(t.Context(), "replication").Result()
			return err == nil && strings.Contains(text, "master_link_status:up")
		})
	}
	follows(second)
	w := newWorld(t, storetest.Open(t, first.URL()), Options{})
	epoch := w.mustCreate("c", "alice", "bob").Epoch
	w.mustSend("c", "alice", "one")
	offset := regexp.MustCompile(`master_repl_offset:\d+`)
	storetest.Eventually(t, testPatience, "the replica has it all", func() bool {
		ours, err := first.Client().Info(t.Context(), "replication").Result()
		theirs, err2 := second.Client().Info(t.Context(), "replication").Result()
		return err == nil && err2 == nil && offset.FindString(ours) == offset.FindString(theirs)
	})
	storetest.Must(t, second.Client().ReplicaOf(t.Context(), "no", "one").Err())
	w.mustSend("c", "alice", "lost")
	storetest.Must(t, first.Client().ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(second.Port())).Err())
	follows(first)
	storetest.Must(t, first.Client().ReplicaOf(t.Context(), "no", "one").Err())

	w.mustSend("c", "alice", "other")
	w.wantRead("c", "bob", MessagesQuery{After: after(2), Epoch: epoch}, "first=1 last=2 gap")
}
