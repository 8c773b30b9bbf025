package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// Fault decides what happens to the commands of one process. It is asked about each
// command twice: before the command is sent and, with answered set, when Redis has
// answered it. The name is that of the script file without ".lua", or that of a plain
// command in lower case. An error is what the process gets instead: before, the command is
// not sent; after, its answer is lost.
type Fault func(name string, answered bool) error

// What a Fault may return besides errors of its own, which stand for a connection that
// broke.
var (
	// ErrTwice runs the command a second time, as redisdb does when an answer was lost.
	ErrTwice = errors.New("send again")
	// ErrLost is a connection that broke: nobody knows whether the command ran.
	ErrLost = errors.New("the connection was lost")
	// ErrCut is a Redis out of reach: the command did not run.
	ErrCut = fmt.Errorf("cut off: %w", redis.ErrPoolTimeout)
	// ErrNoRoom is what Redis says when its memory is full.
	ErrNoRoom = redisdb.ScriptError("OOM command not allowed when used memory > 'maxmemory'")
)

// faultTimeout is the deadline of a round trip on which a Fault may wait.
const faultTimeout = time.Minute

// Faulty opens the Redis of db once more, as another process does, and puts a fault on the
// way to it. It has no background work: its Clock is the machine's.
func Faulty(t testing.TB, db *redisdb.DB, f Fault) *redisdb.DB {
	t.Helper()
	return FaultyBy(t, db, NameOf, f)
}

// FaultyBy is Faulty with other names for the commands. The fault is not asked about those
// whose name is "".
func FaultyBy(t testing.TB, db *redisdb.DB, names func(redis.Cmder) string, f Fault) *redisdb.DB {
	t.Helper()
	faulty, err := redisdb.Open(t.Context(), redisdb.Options{URL: urlOf(db), Timeout: faultTimeout})
	if err != nil {
		t.Fatalf("open redis again: %v", err)
	}
	t.Cleanup(func() { _ = faulty.Close() })
	for _, client := range []redis.UniversalClient{faulty.Client(), faulty.Blocking()} {
		hook := &faultHook{name: names, fault: f, asked: map[redis.Cmder]error{}}
		if cluster, ok := client.(*redis.ClusterClient); ok {
			cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
			continue
		}
		client.AddHook(hook)
	}
	return faulty
}

// urlOf is where a Redis is.
func urlOf(db *redisdb.DB) string {
	if cluster, ok := db.Client().(*redis.ClusterClient); ok {
		return "redis+cluster://" + strings.Join(cluster.Options().Addrs, ",")
	}
	o := db.Client().(*redis.Client).Options()
	u := url.URL{Scheme: "redis", Host: o.Addr}
	if o.Password != "" {
		u.User = url.UserPassword(o.Username, o.Password)
	}
	return u.String()
}

// faultHook asks a Fault about what a client sends to one node.
type faultHook struct {
	name  func(redis.Cmder) string
	fault Fault
	mu    sync.Mutex
	asked map[redis.Cmder]error // under way, and those that failed: redisdb may send them again
}

// DialHook changes nothing.
func (h *faultHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is for single commands.
func (h *faultHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.send([]redis.Cmder{cmd}, func(cmds []redis.Cmder) error { return next(ctx, cmds[0]) })
	}
}

// ProcessPipelineHook is for pipelines.
func (h *faultHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.send(cmds, func(cmds []redis.Cmder) error { return next(ctx, cmds) })
	}
}

// send asks about all commands, sends those that may leave, and asks about their answers.
func (h *faultHook) send(cmds []redis.Cmder, next func([]redis.Cmder) error) error {
	sent := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool { return h.before(cmd) != nil })
	if len(sent) > 0 {
		if err := next(sent); err != nil && firstError(sent) == nil {
			return err // of the new connection itself
		}
	}
	twice := slices.DeleteFunc(sent, func(cmd redis.Cmder) bool { return !h.after(cmd) })
	if len(twice) > 0 {
		_ = next(twice) // each command has its own error
	}
	return firstError(cmds)
}

// before gives the error of a command that does not leave. One that failed already fails
// again, as redisdb repeats what failed. One that left already, to a server that did not
// know the script, is not asked about again.
func (h *faultHook) before(cmd redis.Cmder) error {
	name := h.name(cmd)
	if name == "" {
		return nil
	}
	h.mu.Lock()
	err, known := h.asked[cmd]
	h.mu.Unlock()
	if !known {
		err = h.ask(name, false)
		h.note(cmd, err)
	}
	if err != nil {
		cmd.SetErr(err)
	}
	return err
}

// after takes an answer away if the fault says so. It tells whether the command runs again.
func (h *faultHook) after(cmd redis.Cmder) (twice bool) {
	name := h.name(cmd)
	if name == "" || !isAnswer(cmd.Err()) {
		return false
	}
	switch err := h.ask(name, true); {
	case errors.Is(err, ErrTwice):
		twice = true
	case err != nil:
		h.note(cmd, err)
		cmd.SetErr(err)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.asked, cmd)
	return twice
}

func (h *faultHook) note(cmd redis.Cmder, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[cmd] = err
}

// ask runs the fault in a goroutine of its own: a check of the test that fails there ends
// that goroutine alone, and the command counts as lost.
func (h *faultHook) ask(name string, answered bool) error {
	err, done := ErrLost, make(chan struct{})
	go func() {
		defer close(done)
		err = h.fault(name, answered)
	}()
	<-done
	return err
}

// NameOf is what a Fault knows a command by, "" for those of the connection itself.
func NameOf(cmd redis.Cmder) string {
	switch name := cmd.Name(); name {
	case "hello", "auth", "select", "client", "readonly", "asking", "cluster", "ping", "info", "script":
		return ""
	case "evalsha":
		if s, ok := cmd.Args()[1].(*redisdb.Script); ok {
			return strings.TrimSuffix(s.Name(), ".lua")
		}
		return name
	default:
		return name
	}
}

// isAnswer tells a command's own answer, which may be an error, from a server's refusal to
// run it.
func isAnswer(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return true
	}
	var reply redis.Error
	refusals := []string{"NOSCRIPT", "MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "OOM "}
	return errors.As(err, &reply) &&
		!slices.ContainsFunc(refusals, func(prefix string) bool { return strings.HasPrefix(reply.Error(), prefix) })
}

func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Mortal is a process that is killed at its n-th contact with Redis: at an even one before
// a step is sent, at an odd one after it was answered. Commands of one name that leave
// together are one step.
type Mortal struct {
	mu       sync.Mutex
	left     int
	name     string
	answered bool
	dead     bool
}

// DieAt makes a process that is killed at its n-th contact.
func DieAt(n int) *Mortal { return &Mortal{left: n + 1, answered: true} }

// Fault is a Fault, for Faulty. From its death on nothing of the process reaches Redis.
func (m *Mortal) Fault(name string, answered bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name != m.name || answered != m.answered {
		m.name, m.answered = name, answered
		m.left--
	}
	if m.dead = m.dead || m.left <= 0; m.dead {
		return ErrLost
	}
	return nil
}

// Dead tells whether the process was killed.
func (m *Mortal) Dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}
