package live

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/storetest"
)

// inTime is how late a message may be: twice what is promised, or, on a machine that is busy with
// other tests, less than the time until streams compare positions in any case.
func inTime() time.Duration {
	if storetest.Full() {
		return 2 * 2 * time.Second
	}
	return 10 * time.Second
}

// metaKey is a key of a chat, by which its master is found.
func metaKey(chat string) string {
	return fmt.Sprintf("ff:{chat:%03d}:meta:%s", crc32.ChecksumIEEE([]byte(chat))%256, chat)
}

// C13: on a Cluster only the master that has a chat hears of its messages: nothing goes to
// the others over the Cluster's bus, and each master is subscribed to for its own chats.
func TestC13_NoNodeHearsOfMessagesOfOthers(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	w := newWorld(t, storetest.Open(t, cluster.URL()))
	h := w.mustHub()
	var want []string
	chats := map[*storetest.RedisServer]int{}
	for i := range 30 {
		name := fmt.Sprint("c", i)
		w.mustCreate(name, "ann", "bob")
		chats[cluster.MasterOf(t, metaKey(w.id(name)))]++
		want = append(want, w.id(name)+" hi")
	}
	st := mustFollow(t, h, w.id("bob"), "")
	published := func() (n string) { // what went over the bus, by the kind of message
		for _, node := range cluster.Nodes {
			info, err := node.Client().ClusterInfo(t.Context()).Result()
			storetest.Must(t, err)
			for line := range strings.Lines(info) {
				if strings.HasPrefix(line, "cluster_stats_messages_publish") && strings.Contains(line, "_sent:") {
					n += line
				}
			}
		}
		return n
	}
	before := published()
	for i := range 30 {
		_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: w.id(fmt.Sprint("c", i)), Sender: w.id("ann"), Text: "hi"})
		storetest.Must(t, err)
	}
	st.await(want...)
	if after := published(); after != before {
		t.Errorf("the bus carried %q, before %q", after, before)
	}
	for _, node := range cluster.Nodes {
		if on := node.Client().PubSubShardChannels(t.Context(), "*").Val(); len(on) != chats[node] || len(on) == 0 {
			t.Errorf("%d channels, want %d: %q", len(on), chats[node], on)
		}
	}
}

// audience are open streams, one for each member of some chats but those who talk, and what
// they are told.
type audience struct {
	*world
	chats   []string
	members []*listener
	talking sync.WaitGroup
	hearing sync.WaitGroup
	silent  context.CancelFunc // ends the talk

	mu       sync.Mutex
	answered map[string]map[string]time.Time // by chat and text: when Send had its answer
}

// listener is a stream.
type listener struct {
	chat string

	mu    sync.Mutex
	heard map[string]time.Time
	wrong string // what must not come
}

// mustGather opens the streams: each of each members of each chat.
func mustGather(t *testing.T, w *world, h *Hub, chats []string, each int) *audience {
	t.Helper()
	a := &audience{world: w, chats: chats, answered: map[string]map[string]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		a.hearing.Wait()
	})
	open := make(chan error, len(chats)*each)
	for _, chat := range chats {
		a.answered[chat] = map[string]time.Time{}
		var users []string
		for i := range each {
			users = append(users, w.id(fmt.Sprint(chat, "-", i)))
		}
		request := &api.ChatRequest{ID: chat, Creator: w.id("ann"), Members: users}
		_, _, err := w.Create(t.Context(), request, api.Idempotency{}, false)
		storetest.Must(t, err)
		for _, user := range users {
			l := &listener{chat: chat, heard: map[string]time.Time{}}
			a.members = append(a.members, l)
			a.hearing.Go(func() {
				st, err := h.Stream(ctx, user, "")
				if open <- err; err == nil {
					defer st.Close(ctx)
					l.listen(ctx, st)
				}
			})
		}
	}
	for range a.members {
		storetest.Must(t, <-open)
	}
	return a
}

func (l *listener) listen(ctx context.Context, st *Stream) {
	for {
		select {
		case <-st.Wake():
		case <-ctx.Done():
			return
		}
		events, err := st.Read(ctx)
		l.mu.Lock()
		if err != nil && ctx.Err() == nil {
			l.wrong += err.Error() + "; "
		}
		for _, e := range events {
			switch {
			case e.Gap != nil:
				l.wrong += fmt.Sprintf("a gap: %+v; ", *e.Gap)
			case e.Message != nil && !l.heard[e.Message.Text].IsZero():
				l.wrong += e.Message.Text + " twice; "
			case e.Message != nil:
				l.heard[e.Message.Text] = time.Now()
			}
		}
		l.mu.Unlock()
	}
}

// talk has something said in each chat every 100 ms until it is paused.
func (a *audience) talk() {
	ctx, cancel := context.WithCancel(a.t.Context())
	a.silent = cancel
	for _, to := range a.chats {
		a.talking.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					a.say(ctx, to)
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// say sends a message, again and again until Redis takes it.
func (a *audience) say(ctx context.Context, to string) {
	a.mu.Lock()
	text := fmt.Sprint(len(a.answered[to]))
	a.mu.Unlock()
	m := chat.Outgoing{Chat: to, Sender: a.id("ann"), Text: text, Once: api.Idempotency{Scope: a.id("talk"), Key: text}}
	for ctx.Err() == nil {
		if _, _, err := a.Send(a.t.Context(), m); err == nil {
			a.mu.Lock()
			a.answered[to][text] = time.Now()
			a.mu.Unlock()
			return
		}
	}
}

// mustGoOn waits until ten more messages have been said in each of some chats.
func (a *audience) mustGoOn(chats ...string) {
	a.t.Helper()
	said := func(chat string) int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.answered[chat])
	}
	before := map[string]int{}
	for _, chat := range chats {
		before[chat] = said(chat)
	}
	storetest.Eventually(a.t, testPatience, "the talk goes on", func() bool {
		return !slices.ContainsFunc(chats, func(chat string) bool { return said(chat) < before[chat]+10 })
	})
}

// pause ends the talk.
func (a *audience) pause() {
	a.silent()
	a.talking.Wait()
}

// hush ends the talk and checks that each stream has had all, once and in time.
func (a *audience) hush() {
	a.t.Helper()
	a.pause()
	late, worst := time.Duration(0), ""
	for i, l := range a.members {
		said := a.answered[l.chat]
		what := fmt.Sprint("stream ", i, " of ", l.chat, " has all ", len(said))
		storetest.Eventually(a.t, testPatience, what, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.wrong != "" || len(l.heard) >= len(said)
		})
		l.mu.Lock()
		if l.wrong != "" {
			a.t.Errorf("stream %d of %s: %s", i, l.chat, l.wrong)
		}
		for text, at := range said {
			if took := l.heard[text].Sub(at); took > late {
				late, worst = took, fmt.Sprintf("%s of stream %d of %s", text, i, l.chat)
			}
		}
		l.mu.Unlock()
	}
	a.t.Logf("%d streams; the latest came after %v: %s", len(a.members), late, worst)
	if late > inTime() {
		a.t.Errorf("%s comes %v late", worst, late)
	}
}

// chatsOn finds names of chats by whether their keys are in the slot of one.
func chatsOn(as string, in bool, count int) (names []string) {
	slot := func(chat string) uint32 { return crc32.ChecksumIEEE([]byte(chat)) % 256 }
	for n := 0; len(names) < count; n++ {
		if name := fmt.Sprint("talk", n); (slot(name) == slot(as)) == in {
			names = append(names, name)
		}
	}
	return names
}

// mustMoveSlot moves the slot of a key from its master to the next, as redis-cli does,
// calling between once half is done.
func mustMoveSlot(t *testing.T, cluster *storetest.RedisCluster, key string, between func()) {
	t.Helper()
	from, to := cluster.MasterOf(t, key), cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	do := func(node *storetest.RedisServer, args ...any) any {
		t.Helper()
		got, err := node.Client().Do(t.Context(), args...).Result()
		storetest.Must(t, err)
		return got
	}
	slot, fromID, toID := do(from, "cluster", "keyslot", key), do(from, "cluster", "myid"), do(to, "cluster", "myid")
	do(to, "cluster", "setslot", slot, "importing", fromID)
	do(from, "cluster", "setslot", slot, "migrating", toID)
	between()
	for {
		keys := do(from, "cluster", "getkeysinslot", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		do(from, append([]any{"migrate", "127.0.0.1", to.Port(), "", 0, 5000, "keys"}, keys...)...)
	}
	between()
	for _, node := range append([]*storetest.RedisServer{to, from}, cluster.Nodes...) {
		do(node, "cluster", "setslot", slot, "node", toID)
	}
}

// C13: a slot moves to another master under 1,000 open streams of chats in it and of others:
// nothing is missing, nothing comes twice or late.
func TestC13_ASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	w := newWorld(t, storetest.Open(t, cluster.URL()))
	moving := chatsOn("talk0", true, 5)
	a := mustGather(t, w, w.mustHub(), append(moving, chatsOn("talk0", false, 5)...), 100)
	a.talk()
	a.mustGoOn(a.chats...)
	mustMoveSlot(t, cluster, metaKey(moving[0]), func() { a.mustGoOn(a.chats[9]) })
	a.mustGoOn(a.chats...)
	a.hush()
}

// C13: a master fails over under 1,000 open streams of chats on it and on others: nothing
// that was taken is missing, nothing comes twice, and what is said then is not late.
func TestC13_AMasterFailsOver(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 1)
	w := newWorld(t, storetest.Open(t, cluster.URL()))
	a := mustGather(t, w, w.mustHub(), append(chatsOn("talk0", true, 3), chatsOn("talk0", false, 7)...), 100)
	a.talk()
	a.mustGoOn(a.chats...)
	a.pause() // a master that dies with what it has not passed on loses it
	master := cluster.MasterOf(t, metaKey(a.chats[0]))
	storetest.Eventually(t, testPatience, "its replica has all", func() bool {
		info, err := master.Client().InfoMap(t.Context(), "replication").Result()
		of := info["Replication"]
		return err == nil && strings.Contains(of["slave0"], "offset="+of["master_repl_offset"]+",")
	})
	master.Kill()
	a.talk()
	a.mustGoOn(a.chats...)
	a.hush()
}

// C13: masters that know no SPUBLISH, as those before 7.0, publish to all, and are
// subscribed to for that.
func TestC13_AClusterWithoutShardedChannels(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0, "--rename-command", "SPUBLISH", "", "--rename-command", "SSUBSCRIBE", "")
	w := newWorld(t, storetest.Open(t, cluster.URL()))
	for i := range 10 {
		w.mustCreate(fmt.Sprint("c", i), "ann", "bob")
	}
	st := mustFollow(t, w.mustHub(), w.id("bob"), "")
	began := time.Now()
	for i := range 10 {
		_, _, err := w.Send(t.Context(), chat.Outgoing{Chat: w.id(fmt.Sprint("c", i)), Sender: w.id("ann"), Text: "hi"})
		storetest.Must(t, err)
		st.await(w.id(fmt.Sprint("c", i)) + " hi")
	}
	if took := time.Since(began); took > checkEvery/2 {
		t.Errorf("it took %v: positions were compared instead", took)
	}
}
