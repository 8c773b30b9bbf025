package live

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// testPatience is how long tests wait for what should take a moment.
const testPatience = 30 * time.Second

// world is the chats of one test: on a Redis of its own, or under names of its
// own on the Cluster that all tests share.
type world struct {
	*chat.Store
	t      testing.TB
	db     *redisdb.DB
	prefix string
}

// eachWorld runs a test on a real Redis, on the embedded one and on a Cluster.
func eachWorld(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) { fn(t, newWorld(t, db)) })
}

func newWorld(t testing.TB, db *redisdb.DB) *world {
	return &world{Store: chat.New(db, chat.Options{}), t: t, db: db, prefix: strings.ToLower(rand.Text()[:10]) + "-"}
}

// id makes a name that no other test has.
func (w *world) id(name string) string { return w.prefix + name }

// mustCreate makes a chat of two members, the first of whom is the creator.
func (w *world) mustCreate(name, creator, member string) {
	w.t.Helper()
	ctx := w.t.(interface{ Context() context.Context }).Context()
	_, _, err := w.Create(ctx, &api.ChatRequest{ID: w.id(name), Creator: w.id(creator), Members: []string{w.id(member)}}, api.Idempotency{}, false)
	storetest.Must(w.t, err)
}

// mustHub runs a hub until the test ends.
func (w *world) mustHub() *Hub {
	w.t.Helper()
	h := New(w.Store, w.db, storetest.Logger(w.t, slog.LevelDebug))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		storetest.Must(w.t, <-done)
	})
	return h
}
