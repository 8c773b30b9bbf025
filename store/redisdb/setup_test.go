package redisdb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// world is a Redis of its own, and what it was sent.
type world struct {
	*redisdb.DB
	server     *storetest.RedisServer
	roundTrips *roundTrips
}

func setup(t *testing.T) *world {
	t.Helper()
	return setupWith(t, redisdb.Options{})
}

func setupWith(t *testing.T, o redisdb.Options, args ...string) *world {
	t.Helper()
	server := storetest.Redis(t, args...)
	o.URL = server.URL()
	w := &world{DB: storetest.OpenWith(t, o), server: server, roundTrips: newRoundTrips()}
	w.Client().AddHook(w.roundTrips)
	return w
}

// roundTrips is a hook of the client that sees every pipeline and can hold it.
type roundTrips struct {
	mu      sync.Mutex
	seen    [][]redis.Cmder
	hold    chan struct{} // nil: nothing is held
	arrived chan struct{}
}

func newRoundTrips() *roundTrips { return &roundTrips{arrived: make(chan struct{}, 1<<16)} }

// holdNext holds every pipeline from now on until the returned function runs.
func (h *roundTrips) holdNext() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := make(chan struct{})
	h.hold, h.seen = held, nil
	return sync.OnceFunc(func() {
		h.mu.Lock()
		h.hold = nil
		h.mu.Unlock()
		close(held)
	})
}

func (h *roundTrips) all() [][]redis.Cmder {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([][]redis.Cmder(nil), h.seen...)
}

func (h *roundTrips) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "info" { // Run's look at the server, at any time
			return next(ctx, cmds)
		}
		h.mu.Lock()
		h.seen = append(h.seen, cmds)
		held := h.hold
		h.mu.Unlock()
		h.arrived <- struct{}{}
		if held != nil {
			<-held
		}
		return next(ctx, cmds)
	}
}

// waitContext tells when somebody waits for it to end: in Share that is when
// the call has joined its queue.
type waitContext struct {
	context.Context
	waiting chan struct{}
	once    *sync.Once
}

func newWaitContext(ctx context.Context) *waitContext {
	return &waitContext{Context: ctx, waiting: make(chan struct{}), once: new(sync.Once)}
}

func (c *waitContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waiting) })
	return c.Context.Done()
}

// pending is a Share that runs in the background.
type pending struct {
	cmd  *redis.Cmd
	done chan error
}

// share starts a call and returns when it has joined its queue.
func (w *world) share(ctx context.Context, m redisdb.Mode, args ...any) *pending {
	p := &pending{cmd: redis.NewCmd(ctx, args...), done: make(chan error, 1)}
	joined := newWaitContext(ctx)
	go func() { p.done <- w.Share(joined, m, p.cmd) }()
	<-joined.waiting
	return p
}

func (p *pending) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("Share did not return")
		return nil
	}
}

func mustCode(t testing.TB, err error, want api.Code) {
	t.Helper()
	if got := api.CodeOf(err); got != want {
		t.Fatalf("code %q, want %q: %v", got, want, err)
	}
}

func mustNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventuallySet waits until a write goes through.
func eventuallySet(t testing.TB, db *redisdb.DB, within time.Duration, key string) {
	t.Helper()
	storetest.Eventually(t, within, "a write goes through again", func() bool {
		cmd := redis.NewCmd(t.Context(), "set", key, "1")
		return db.Share(t.Context(), redisdb.Write, cmd) == nil && cmd.Err() == nil
	})
}

var errPlain = errors.New("plain")

func keyOf(t testing.TB, n int) string { return fmt.Sprintf("{%s}%d", t.Name(), n) }
