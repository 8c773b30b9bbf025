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

// Fault decides what happens to the commands of one process. It is called twice for each command:
// before the command is sent and, with answered set, after Redis has answered it. name is the name
// of the script file without ".lua", or of a plain command in lower case. If Fault returns an
// error, the process gets that error: in the first case the command is not sent, and in the second
// its answer is lost.
type Fault func(name string, answered bool) error

// Errors that a Fault may return. Any other error means a broken connection.
var (
	// ErrTwice runs the command a second time, as redisdb does when an answer was lost.
	ErrTwice = errors.New("send again")
	// ErrLost is a broken connection: it is not known whether the command ran.
	ErrLost = errors.New("the connection was lost")
	// ErrCut is a Redis out of reach: the command did not run.
	ErrCut = fmt.Errorf("cut off: %w", redis.ErrPoolTimeout)
	// ErrNoRoom is the error of a Redis whose memory is full.
	ErrNoRoom = redisdb.ScriptError("OOM command not allowed when used memory > 'maxmemory'")
)

// faultTimeout is the deadline of a round trip on which a Fault may wait.
const faultTimeout = time.Minute

// Faulty opens the Redis of db once more, as another process does, with a fault between them. It
// runs no background work, so that its Clock is the machine's clock.
func Faulty(t testing.TB, db *redisdb.DB, f Fault) *redisdb.DB {
	t.Helper()
	return FaultyBy(t, db, NameOf, f)
}

// FaultyBy is Faulty with other names for the commands. The fault is not called for commands whose
// name is "".
func FaultyBy(t testing.TB, db *redisdb.DB, names func(redis.Cmder) string, f Fault) *redisdb.DB {
	t.Helper()
	faulty, err := redisdb.Open(t.Context(), redisdb.Options{URL: URLOf(db), Timeout: faultTimeout})
	if err != nil {
		t.Fatalf("open redis again: %v", err)
	}
	t.Cleanup(func() { _ = faulty.Close() })
	for _, client := range []redisdb.Client{faulty.Client(), faulty.Blocking()} {
		hook := &faultHook{name: names, fault: f, asked: map[redis.Cmder]error{}}
		if cluster, ok := client.(*redis.ClusterClient); ok {
			cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
			continue
		}
		client.AddHook(hook)
	}
	return faulty
}

// URLOf is the URL of a Redis.
func URLOf(db *redisdb.DB) string {
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

// faultHook calls a Fault for the commands that a client sends to one node.
type faultHook struct {
	name  func(redis.Cmder) string
	fault Fault
	mu    sync.Mutex
	asked map[redis.Cmder]error // commands under way, and commands that failed, which redisdb may send again
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

// send calls the fault for all commands, sends those that are allowed, and calls the fault for
// their answers.
func (h *faultHook) send(cmds []redis.Cmder, next func([]redis.Cmder) error) error {
	sent := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool { return h.before(cmd) != nil })
	if len(sent) > 0 {
		if err := next(sent); err != nil && firstError(sent) == nil {
			return err // an error of the new connection itself
		}
	}
	twice := slices.DeleteFunc(sent, func(cmd redis.Cmder) bool { return !h.after(cmd) })
	if len(twice) > 0 {
		_ = next(twice) // each command has its own error
	}
	return firstError(cmds)
}

// before returns the error of a command that is not sent. A command that failed before fails again,
// because redisdb repeats it. For a command that was sent before, to a server that did not know the
// script, the fault is not called again.
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

// after removes an answer if the fault decides so. It reports whether the command runs again.
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

// ask calls the fault in another goroutine. If a check of the test fails there, only that goroutine
// ends, and the command counts as lost.
func (h *faultHook) ask(name string, answered bool) error {
	err, done := ErrLost, make(chan struct{})
	go func() {
		defer close(done)
		err = h.fault(name, answered)
	}()
	<-done
	return err
}

// NameOf is the name of a command for a Fault; "" for commands of the connection itself.
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

// isAnswer reports whether err is the answer of the command itself, which may be an error, and not
// the server's refusal to run it.
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

// Mortal simulates a process that is killed at its n-th contact with Redis: if n is even before a
// step is sent, and if it is odd after the step was answered. Commands of one name that are sent
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

// Fault is the Fault for Faulty. After its death nothing of the process reaches Redis.
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

// Dead reports whether the process was killed.
func (m *Mortal) Dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}
