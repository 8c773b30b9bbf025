package chat

import (
	"context"
	"fmt"
	"os"
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
	w.wantRead("c", "bob", MessagesQuery{After: after(1), Epoch: epoch}, "2:other first=1 last=2") // misses nothing
	w.wantRead("c", "bob", MessagesQuery{Epoch: epoch}, "1:one 2:other first=1 last=2 gap")        // nobody knows
	ack := func(id int64, epoch string) error {
		_, err := w.Ack(t.Context(), w.id("bob"), map[string]int64{w.id("c"): id}, map[string]string{w.id("c"): epoch})
		return err
	}
	storetest.WantCode(t, ack(2, epoch), api.CodeValidation) // bob saw the lost one
	storetest.WantCode(t, ack(1, "x"), api.CodeValidation)
	storetest.Must(t, ack(1, epoch))
	w.wantSent("c", "alice", "one", "k1", 1, true)
	w.wantSent("c", "alice", "lost", "k2", 3, false)

	// From here on the new epoch holds, and the chat is still the same.
	m := w.mustRead("c", "bob", MessagesQuery{})
	storetest.Must(t, ack(2, m.Epoch))
	if !strings.HasPrefix(m.Epoch, epoch+".") {
		t.Errorf("the epoch %s became %s", epoch, m.Epoch)
	}
	w.mustSend("c", "bob", "hi")
	w.wantRead("c", "bob", MessagesQuery{After: after(3), Epoch: m.Epoch}, "4:hi first=3 last=4")
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

// mustFollow makes a replica that has all that its master has, with an append-only file
// as that has.
func mustFollow(t *testing.T, args ...string) (first, second *storetest.RedisServer) {
	t.Helper()
	args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	first, second = storetest.Redis(t, args...), storetest.Redis(t, args...)
	storetest.Must(t, second.Client().ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(first.Port())).Err())
	mustLink(t, second)
	return first, second
}

func mustLink(t *testing.T, replica *storetest.RedisServer) {
	t.Helper()
	storetest.Eventually(t, testPatience, "the replica follows", func() bool {
		text, err := replica.Client().Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(text, "master_link_status:up")
	})
}

var offset = regexp.MustCompile(`master_repl_offset:\d+`)

// mustPromote ends a replica's following once it has all that there is.
func mustPromote(t *testing.T, first, second *storetest.RedisServer) {
	t.Helper()
	storetest.Eventually(t, testPatience, "the replica has it all", func() bool {
		ours, err := first.Client().Info(t.Context(), "replication").Result()
		theirs, err2 := second.Client().Info(t.Context(), "replication").Result()
		return err == nil && err2 == nil && offset.FindString(ours) == offset.FindString(theirs)
	})
	storetest.Must(t, second.Client().ReplicaOf(t.Context(), "no", "one").Err())
}

// C7: a master is replaced and becomes the master again, without a restart: what it lost
// in between it has lost, append-only file or not.
func TestC7_AMasterThatComesBack(t *testing.T) {
	t.Parallel()
	first, second := mustFollow(t)
	w := newWorld(t, storetest.Open(t, first.URL()), Options{})
	epoch := w.mustCreate("c", "alice", "bob").Epoch
	w.mustSend("c", "alice", "one")
	mustPromote(t, first, second)
	w.mustSend("c", "alice", "lost")
	storetest.Must(t, first.Client().ReplicaOf(t.Context(), "127.0.0.1", fmt.Sprint(second.Port())).Err())
	mustLink(t, first)
	storetest.Must(t, first.Client().ReplicaOf(t.Context(), "no", "one").Err())

	w.mustSend("c", "alice", "other")
	w.wantRead("c", "bob", MessagesQuery{After: after(2), Epoch: epoch}, "first=1 last=2 gap")
}

// C7: ids that were acknowledged are given again by a server of which nothing tells any more
// that it may lack them: who has seen them is told, and who has not misses nothing.
func TestC7_NothingTellsOfTheLoss(t *testing.T) {
	t.Parallel()
	// lose ends with a server that has one message, while another one was acknowledged.
	for name, lose := range map[string]func(t *testing.T, one, lost func(*storetest.RedisServer)) *storetest.RedisServer{
		"a replica was promoted, and restarts": func(t *testing.T, one, lost func(*storetest.RedisServer)) *storetest.RedisServer {
			first, second := mustFollow(t)
			one(first)
			mustPromote(t, first, second)
			lost(first)
			storetest.Eventually(t, testPatience, "its append-only file is there", func() bool {
				text, err := second.Client().Info(t.Context(), "persistence").Result()
				return err == nil && strings.Contains(text, "aof_rewrite_in_progress:0") && strings.Contains(text, "aof_rewrite_scheduled:0")
			})
			second.Restart()
			return second
		},
		"a replica was promoted, and is alone for long": func(t *testing.T, one, lost func(*storetest.RedisServer)) *storetest.RedisServer {
			first, second := mustFollow(t, "--repl-backlog-ttl", "1")
			one(first)
			mustPromote(t, first, second)
			lost(first)
			storetest.Eventually(t, testPatience, "it forgets whom it followed", func() bool {
				text, err := second.Client().Info(t.Context(), "replication").Result()
				return err == nil && strings.Contains(text, "master_replid2:0000000000")
			})
			return second
		},
		"the append-only file lacks its end": func(t *testing.T, one, lost func(*storetest.RedisServer)) *storetest.RedisServer {
			server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
			one(server)
			dir := server.Client().ConfigGet(t.Context(), "dir").Val()["dir"] + "/appendonlydir"
			kept := t.TempDir() + "/kept"
			storetest.Must(t, os.CopyFS(kept, os.DirFS(dir)))
			lost(server)
			server.Kill()
			storetest.Must(t, os.RemoveAll(dir))
			storetest.Must(t, os.CopyFS(dir, os.DirFS(kept)))
			server.Restart()
			return server
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w *world
			epoch := ""
			server := lose(t, func(server *storetest.RedisServer) {
				w = newWorld(t, storetest.Open(t, server.URL()), Options{})
				epoch = w.mustCreate("c", "alice", "bob").Epoch
				w.mustSend("c", "alice", "one")
			}, func(*storetest.RedisServer) { w.mustSend("c", "alice", "lost") })
			now := newWorld(t, storetest.Open(t, server.URL()), Options{})
			now.prefix = w.prefix
			now.mustSend("c", "alice", "other")
			now.wantRead("c", "bob", MessagesQuery{After: after(2), Epoch: epoch}, "first=1 last=2 gap")
			now.wantRead("c", "bob", MessagesQuery{After: after(1), Epoch: epoch}, "2:other first=1 last=2")
		})
	}
}

// C7: another run of the server that has lost nothing is no gap to anybody.
func TestC7_ARestartThatLosesNothing(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	w := newWorld(t, storetest.Open(t, redis.URL()), Options{})
	epoch := w.mustCreate("c", "alice", "bob").Epoch
	w.mustSend("c", "alice", "one")
	for i := range int64(3) {
		redis.Restart()
		w.wantRead("c", "bob", MessagesQuery{After: after(i + 1), Epoch: epoch}, fmt.Sprint("first=1 last=", i+1))
		w.mustSend("c", "alice", "more")
		w.wantRead("c", "bob", MessagesQuery{After: after(i + 1), Epoch: epoch}, fmt.Sprint(i+2, ":more first=1 last=", i+2))
		epoch = w.mustRead("c", "bob", MessagesQuery{}).Epoch
	}
}

// Chats whose meta does not tell of another run, as it did not in the beginning, are read
// and go on.
func TestC7_AMetaOfOneRun(t *testing.T) {
	t.Parallel()
	eachWorld(t, Options{}, func(t *testing.T, w *world) {
		epoch := w.mustCreate("c", "alice", "bob").Epoch
		w.mustSend("c", "alice", "one")
		meta := strings.Fields(w.db.Client().Get(t.Context(), metaKey(w.id("c"))).Val())
		storetest.Must(t, w.db.Client().Set(t.Context(), metaKey(w.id("c")), strings.Join(meta[:7], " "), 0).Err())
		for range 2 {
			w.wantRead("c", "bob", MessagesQuery{After: after(1)}, "first=1 last=1")
			w.wantRead("c", "bob", MessagesQuery{After: after(1), Epoch: epoch}, "first=1 last=1")
			w.mustAck("c", "bob", 0)
		}
		w.mustSend("c", "alice", "two")
		w.wantRead("c", "bob", MessagesQuery{After: after(1), Epoch: epoch}, "2:two first=1 last=2")
	})
}

// C14: pushes that a crash left, posted or not, have the same names in another run of the
// server, and can be noted as done.
func TestC14_PushesOfAnotherRun(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	w := newWorld(t, storetest.Open(t, redis.URL()), Options{})
	w.mustCreate("c", "alice", "bob")
	var posted []string
	p := NewPusher(w.Store, PusherOptions{Post: func(_ context.Context, events ...api.NamedEvent) ([]error, error) {
		for _, e := range events {
			posted = append(posted, e.Name)
		}
		return nil, nil
	}})
	w.mustPush("c", "alice", "one")
	w.mustPush("c", "alice", "two")
	early := w.mustBatch("c", 1, "1:one ...")
	storetest.Must(t, p.post(t.Context(), w.id("c"), w.mustBatch("c", 2, "1:one 2:two"))) // and dies
	redis.Restart()
	w.mustPush("c", "alice", "three")
	storetest.Must(t, w.PushDone(t.Context(), w.id("c"), early.Epoch, 1))
	w.mustBatch("c", 10, "2:two 3:three")
	p.push(t.Context(), w.id("c"))
	w.wantDue("")
	if len(posted) != 4 || posted[1] != posted[2] || posted[3] != strings.TrimSuffix(posted[2], "2")+"3" {
		t.Errorf("posted %q", posted)
	}
}
