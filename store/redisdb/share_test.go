package redisdb_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// bytesOf is what commands take, without the protocol's overhead.
func bytesOf(cmds []redis.Cmder) int {
	n := 0
	for _, cmd := range cmds {
		for _, arg := range cmd.Args() {
			if s, ok := arg.(string); ok {
				n += len(s)
			}
		}
	}
	return n
}

// TestShareGathers: what arrives while a round trip is in flight leaves together in
// the next one.
func TestShareGathers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := w.roundTrips.holdNext()
	calls := []*pending{w.share(t.Context(), redisdb.Write, "incr", "n")}
	<-w.roundTrips.arrived
	for range 49 {
		calls = append(calls, w.share(t.Context(), redisdb.Write, "incr", "n"))
	}
	release()
	seen := map[int64]bool{}
	for _, c := range calls {
		mustNil(t, c.wait(t))
		n, err := c.cmd.Int64()
		mustNil(t, err)
		seen[n] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d different answers, want 50", len(seen))
	}
	roundTrips := w.roundTrips.all()
	if len(roundTrips) != 2 || len(roundTrips[0]) != 1 || len(roundTrips[1]) != 49 {
		t.Errorf("%d round trips, want one of 1 and one of 49 commands", len(roundTrips))
	}
}

// TestShareBound: a shared round trip carries at most 64 KiB.
func TestShareBound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := w.roundTrips.holdNext()
	calls := []*pending{w.share(t.Context(), redisdb.Read, "ping")}
	<-w.roundTrips.arrived
	for range 50 {
		calls = append(calls, w.share(t.Context(), redisdb.Write, "rpush", "list", strings.Repeat("x", 5000)))
	}
	release()
	for _, c := range calls {
		mustNil(t, c.wait(t))
	}
	roundTrips := w.roundTrips.all()
	for _, cmds := range roundTrips {
		if n := bytesOf(cmds); n > 64<<10 {
			t.Errorf("a round trip of %d bytes", n)
		}
	}
	if len(roundTrips) < 5 || len(roundTrips) > 6 {
		t.Errorf("%d round trips for 250,000 bytes, want the first and 4 or 5", len(roundTrips))
	}
}

// TestShareLargeCall: a call of more than 64 KiB travels by itself and does not
// wait for the queue.
func TestShareLargeCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := w.roundTrips.holdNext()
	first := w.share(t.Context(), redisdb.Read, "ping")
	<-w.roundTrips.arrived
	large := redis.NewCmd(t.Context(), "set", "large", strings.Repeat("x", 70000))
	done := make(chan error, 1)
	go func() { done <- w.Share(t.Context(), redisdb.Write, large) }()
	<-w.roundTrips.arrived // although the queue is held
	release()
	mustNil(t, <-done)
	mustNil(t, first.wait(t))
}

// TestShareCancel: one caller's cancellation never cancels another's.
func TestShareCancel(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := w.roundTrips.holdNext()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	first := w.share(ctx, redisdb.Write, "set", "first", "1") // in flight alone
	<-w.roundTrips.arrived
	gone := w.share(ctx, redisdb.Write, "set", "gone", "1")
	stays := w.share(t.Context(), redisdb.Write, "set", "stays", "1")
	cancel()
	mustCode(t, first.wait(t), api.CodeUnknownOutcome)
	mustCode(t, gone.wait(t), api.CodeUnavailable)
	release()
	mustNil(t, stays.wait(t))
	got, err := w.server.Client().Exists(t.Context(), "first", "stays").Result()
	if err != nil || got != 2 {
		t.Errorf("%d of the 2 keys that left were written: %v", got, err)
	}
	if n := w.server.Client().Exists(t.Context(), "gone").Val(); n != 0 {
		t.Error("a call that was cancelled before its round trip was sent, yet answered unavailable")
	}
}

// TestShareCancelledRead: the outcome of a read is never unknown.
func TestShareCancelledRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := w.roundTrips.holdNext()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	first := w.share(ctx, redisdb.Read, "get", "first")
	<-w.roundTrips.arrived
	cancel()
	mustCode(t, first.wait(t), api.CodeUnavailable)
}

// TestShareOrder: commands of one call run in the order given.
func TestShareOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	set, get := redis.NewCmd(t.Context(), "set", "k", "v"), redis.NewCmd(t.Context(), "get", "k")
	del, gone := redis.NewCmd(t.Context(), "del", "k"), redis.NewCmd(t.Context(), "get", "k")
	mustNil(t, w.Share(t.Context(), redisdb.Write, set, get, del, gone))
	if get.Val() != "v" || gone.Err() != redis.Nil {
		t.Errorf("got %v, then %v", get.Val(), gone.Err())
	}
}

// TestShareOwnErrors: an error of the command's own is an answer.
func TestShareOwnErrors(t *testing.T) {
	t.Parallel()
	w := setup(t)
	set, wrong := redis.NewCmd(t.Context(), "set", "k", "v"), redis.NewCmd(t.Context(), "lpush", "k", "v")
	mustNil(t, w.Share(t.Context(), redisdb.Write, set, wrong))
	if !redis.HasErrorPrefix(wrong.Err(), "WRONGTYPE") {
		t.Errorf("got %v, want WRONGTYPE", wrong.Err())
	}
}

// TestShareBadArgument: what cannot be sent is refused before it can spoil the
// round trip for the others.
func TestShareBadArgument(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := w.roundTrips.holdNext()
	first := w.share(t.Context(), redisdb.Read, "ping")
	<-w.roundTrips.arrived
	good := w.share(t.Context(), redisdb.Write, "set", "k", "v")
	bad := redis.NewCmd(t.Context(), "set", "k", struct{}{})
	if err := w.Share(t.Context(), redisdb.Write, bad); err == nil || !strings.Contains(err.Error(), "struct {}") {
		t.Errorf("got %v, want an error that names the type", err)
	}
	release()
	mustNil(t, first.wait(t))
	mustNil(t, good.wait(t))
}

// TestShareNothing: a call without commands is answered without a round trip.
func TestShareNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	mustNil(t, w.Share(t.Context(), redisdb.Write))
	mustNil(t, w.Pipeline(t.Context(), redisdb.Write))
	if n := len(w.roundTrips.all()); n != 0 {
		t.Errorf("%d round trips, want none", n)
	}
}

// TestShareClosed: after Close calls are refused at once.
func TestShareClosed(t *testing.T) {
	t.Parallel()
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: "embedded"})
	mustNil(t, err)
	mustNil(t, db.Close())
	start := time.Now()
	mustCode(t, db.Share(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "ping")), api.CodeUnavailable)
	mustCode(t, db.Pipeline(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "ping")), api.CodeUnavailable)
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}

// TestShareCloseRefusesWaiting: Close lets the round trip in flight end and refuses
// those that wait.
func TestShareCloseRefusesWaiting(t *testing.T) {
	t.Parallel()
	w := setup(t)
	release := w.roundTrips.holdNext()
	inFlight := w.share(t.Context(), redisdb.Write, "set", "in flight", "1")
	<-w.roundTrips.arrived
	waiting := w.share(t.Context(), redisdb.Write, "set", "waiting", "1")
	closed := make(chan error, 1)
	go func() { closed <- w.Close() }()
	// A call that does not wait shows when the close has begun.
	for w.refuses() == nil {
		time.Sleep(time.Millisecond) //nolint:forbidigo // the pace of a poll
	}
	release()
	mustNil(t, inFlight.wait(t))
	mustCode(t, waiting.wait(t), api.CodeUnavailable)
	mustNil(t, <-closed)
}

// refuses tries a call that is given up at once: while the queue runs it would
// wait, so what is left is the state of the queue.
func (w *world) refuses() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := w.Share(ctx, redisdb.Read, redis.NewCmd(ctx, "ping"))
	if strings.Contains(err.Error(), "client is closed") {
		return err
	}
	return nil
}

// TestEval: the value, or the error of the script itself with its name.
func TestEval(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := mustScript(t, "return {KEYS[1], ARGV[1], redis.sha1hex('')}")
	got, err := w.Eval(t.Context(), redisdb.Read, s, []string{"k"}, 7)
	mustNil(t, err)
	if list := got.([]any); list[0] != "k" || list[1] != "7" {
		t.Errorf("got %v", list)
	}
	_, err = w.Eval(t.Context(), redisdb.Read, mustScript(t, "return redis.error_reply('MINE it went wrong')"), nil)
	if err == nil || !strings.Contains(err.Error(), "MINE") || !strings.Contains(err.Error(), "test.lua") {
		t.Errorf("got %v, want the script's own error and its name", err)
	}
	if _, err = w.Eval(t.Context(), redisdb.Read, mustScript(t, "return nil"), nil); err != redis.Nil {
		t.Errorf("got %v, want redis.Nil", err)
	}
}

// TestDo: the error of a command's own is that of the call as well.
func TestDo(t *testing.T) {
	t.Parallel()
	w := setup(t)
	set, wrong := redis.NewCmd(t.Context(), "set", "k", "v"), redis.NewCmd(t.Context(), "lpush", "k", "v")
	if err := w.Do(t.Context(), redisdb.Write, set, wrong); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("got %v, want WRONGTYPE", err)
	}
	if err := w.Do(t.Context(), redisdb.Read, redis.NewCmd(t.Context(), "get", "none")); err != redis.Nil {
		t.Errorf("got %v, want redis.Nil", err)
	}
	mustNil(t, w.Do(t.Context(), redisdb.Write, set))
}

// TestValue: the value, or the command's own error.
func TestValue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	mustNil(t, w.Do(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "rpush", "l", "a", "b")))
	got, err := redisdb.Value(t.Context(), w.DB, redisdb.Read, redis.NewStringSliceCmd(t.Context(), "lrange", "l", 0, -1))
	if err != nil || len(got) != 2 || got[1] != "b" {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = redisdb.Value(t.Context(), w.DB, redisdb.Read, redis.NewStringCmd(t.Context(), "get", "l"))
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("got %v, want WRONGTYPE", err)
	}
	if _, err = redisdb.Value(t.Context(), w.DB, redisdb.Read, redis.NewStringCmd(t.Context(), "get", "none")); err != redis.Nil {
		t.Errorf("got %v, want redis.Nil", err)
	}
}

// TestList: the list of a script; an error with the script's name for anything else.
func TestList(t *testing.T) {
	t.Parallel()
	w := setup(t)
	list := func(text string) ([]any, error) {
		return w.List(t.Context(), redisdb.Read, mustScript(t, text).Cmd(t.Context(), nil))
	}
	if got, err := list("return {1, 'b'}"); err != nil || redisdb.NumberAt(got, 0) != 1 || redisdb.TextAt(got, 1) != "b" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"return {}", "return 7", "return redis.error_reply('MINE it went wrong')"} {
		if _, err := list(text); err == nil || !strings.Contains(err.Error(), "test.lua") {
			t.Errorf("%s: got %v, want an error with the script's name", text, err)
		}
	}
}

// TestSleep: it lasts as long as it should, or until its context ends.
func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, want := range []time.Duration{3 * time.Second, 2 * time.Second, 0} {
			start := time.Now()
			redisdb.Sleep(ctx, 3*time.Second)
			if got := time.Since(start); got != want {
				t.Errorf("slept %v, want %v", got, want)
			}
		}
	})
}
