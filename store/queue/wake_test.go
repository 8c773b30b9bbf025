package queue_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// hole is a proxy before Redis that can swallow blocking reads: their
// connections stay open, and nothing comes through any more.
type hole struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	lines    []*line
}

// line is one connection through a hole.
type line struct {
	blocking atomic.Bool // its last command blocks
	dead     atomic.Bool
}

func mustDig(t testing.TB, target string) *hole {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{listener: listener, target: target}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go h.serve(client)
		}
	}()
	return h
}

func (h *hole) url() string { return "redis://" + h.listener.Addr().String() }

func (h *hole) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", h.target)
	if err != nil {
		return
	}
	defer server.Close()
	l := &line{}
	h.mu.Lock()
	h.lines = append(h.lines, l)
	h.mu.Unlock()
	go func() {
		defer client.Close()
		l.copy(client, server, nil)
	}()
	l.copy(server, client, func(sent []byte) {
		l.blocking.Store(bytes.Contains(bytes.ToLower(sent), []byte("block\r\n")))
	})
}

// copy passes on what comes; of a dead line it swallows all.
func (l *line) copy(to io.Writer, from io.Reader, see func([]byte)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if see != nil {
			see(buffer[:n])
		}
		if !l.dead.Load() {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// blocking lists the lines that are in a blocking read and alive.
func (h *hole) blocking() (out []*line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		if l.blocking.Load() && !l.dead.Load() {
			out = append(out, l)
		}
	}
	return out
}

// TestQ5_ADeadBlockingConnection swallows a worker's blocking read. The lease,
// and so the regular look, is a minute: only the look after an enqueueing can
// notice. A busy machine is forgiven in single rounds.
func TestQ5_ADeadBlockingConnection(t *testing.T) {
	t.Parallel()
	h := mustDig(t, storetest.Redis(t).Addr())
	w := setup(t, storetest.Open(t, h.url()), func(o *queue.Options) { o.Lease = time.Minute })
	started := make(chan time.Time, 10)
	w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
		started <- time.Now()
		return queue.Result{}
	}))
	var took []time.Duration
	for range 5 {
		eventually(t, "the worker is blocked", func() bool { return len(h.blocking()) == 1 })
		h.blocking()[0].dead.Store(true)
		before := time.Now()
		w.mustEnqueue(queue.Job{})
		took = append(took, (<-started).Sub(before))
		w.mustBeEmpty()
	}
	t.Logf("%v", took)
	if best := slices.Min(took); best > time.Second {
		t.Errorf("the soonest start with a dead connection was after %v", best)
	}
	if worst := slices.Max(took); worst > 30*time.Second {
		t.Errorf("a start took %v: half the time of the regular look", worst)
	}
}

// TestCrashedConsumersAreRemoved leaves one consumer with a pending entry, one
// without, and one that lives.
func TestCrashedConsumersAreRemoved(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Lease = time.Hour })
	consumers := func() (names []string) {
		for _, c := range w.db.Client().XInfoConsumers(t.Context(), w.prefix(0)+"main", "g").Val() {
			names = append(names, c.Name)
		}
		return names
	}
	crashed := func() *queue.Stepper { return queue.NewStepper(w.another().q) }
	w.mustEnqueue(queue.Job{}, queue.Job{})
	holds, free := crashed(), crashed()
	if batch, err := holds.Claim(1); err != nil || len(batch) != 1 {
		t.Fatal(batch, err)
	}
	kept := consumers()
	batch, err := free.Claim(1)
	if err != nil || len(batch) != 1 {
		t.Fatal(batch, err)
	}
	if _, err := free.Finish(batch[0], queue.Result{}); err != nil {
		t.Fatal(err)
	}
	if n, err := free.DropConsumers(time.Hour); err != nil || n != 0 || len(consumers()) != 2 {
		t.Errorf("%d removed that were idle for less than an hour, %v", n, err)
	}
	eventually(t, "the one without work is removed", func() bool {
		_, err := free.DropConsumers(20 * time.Millisecond)
		return err == nil && len(consumers()) == 1
	})
	if !slices.Equal(consumers(), kept) {
		t.Errorf("consumers %v, want %v", consumers(), kept)
	}
	w.mustBeConsistent()
}
