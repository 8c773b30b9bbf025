package apps

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

//go:embed lua
var scripts embed.FS

// State is the state of an app that is paused or resuming.
type State string

// The states. A running app has no record.
const (
	Running  State = ""
	Paused   State = "paused"
	Resuming State = "resuming"
)

// App is an app that is paused or resuming.
type App struct {
	State  State
	Since  time.Time
	Reason string
}

// Options tune a Store; the zero value works.
type Options struct {
	// Tells reports whether facts of a type are told (facts.Switch.On); default: none are. Left is called when one was left in
	// FactsKey; it takes no time. Default: the relay finds it.
	Tells func(typ string) bool
	Left  func()
}

// Store knows the paused apps. It is safe for concurrent use.
type Store struct {
	db          *redisdb.DB
	o           Options
	change, ask *redisdb.Script
}

// New makes a Store. It does not connect.
func New(db *redisdb.DB, o Options) *Store {
	if o.Tells == nil {
		o.Tells = func(string) bool { return false }
	}
	if o.Left == nil {
		o.Left = func() {}
	}
	return &Store{db: db, o: o, change: redisdb.MustScript(scripts, "lua/app_change.lua"), ask: redisdb.MustScript(scripts, "lua/probe_ask.lua")}
}

// PauseApp pauses an app. first reports whether the app was not paused before.
func (s *Store) PauseApp(ctx context.Context, app, reason string) (first bool, err error) {
	return s.changeApp(ctx, change{app: app, from: "*", to: Paused, reason: reason, told: api.FactAppPaused})
}

// ResumeApp lets a paused app run again. Its parked messages still have to be moved back. Exactly
// one of several callers gets true.
func (s *Store) ResumeApp(ctx context.Context, app string) (was bool, err error) {
	return s.changeApp(ctx, change{app: app, from: string(Paused), to: Resuming, told: api.FactAppResumed})
}

// ForgetApp ends the resuming of an app whose messages are all back.
func (s *Store) ForgetApp(ctx context.Context, app string) error {
	_, err := s.changeApp(ctx, change{app: app, from: string(Resuming), to: Running})
	return err
}

// change is a change of an app's state, and the type of the fact that tells of it.
type change struct {
	app, from string
	to        State
	reason    string
	told      string
}

// fact is what is told of a change.
type fact struct {
	App    string `json:"app"`
	Reason string `json:"reason,omitempty"`
}

// changeApp is idempotent: a second run finds the app changed already.
func (s *Store) changeApp(ctx context.Context, c change) (bool, error) {
	data := []byte(nil)
	if c.told == "" || !s.o.Tells(c.told) {
		c.told = ""
	} else {
		data, _ = json.Marshal(fact{c.app, c.reason}) // texts always marshal
	}
	v, err := s.db.Eval(ctx, redisdb.Write, s.change, []string{keyPaused}, c.app, c.from, string(c.to),
		strings.ReplaceAll(c.reason, "\n", " "), strconv.Itoa(int(keepPaused.Seconds())), c.told, data)
	if err != nil {
		return false, fmt.Errorf("change app %s: %w", c.app, err)
	}
	n, _ := v.(int64)
	if n == 1 && c.told != "" {
		s.o.Left()
	}
	return n == 1, nil
}

// Apps reads every app that is paused or resuming.
func (s *Store) Apps(ctx context.Context) (map[string]App, error) {
	values, err := s.readHash(ctx, keyPaused)
	if err != nil {
		return nil, fmt.Errorf("read paused apps: %w", err)
	}
	all := make(map[string]App, len(values))
	for app, value := range values {
		all[app] = parseApp(value)
	}
	return all, nil
}

func (s *Store) readHash(ctx context.Context, key string) (map[string]string, error) {
	return redisdb.Value(ctx, s.db, redisdb.Read, redis.NewMapStringStringCmd(ctx, "hgetall", key))
}

func parseApp(value string) App {
	state, rest, _ := strings.Cut(value, " ")
	since, reason, _ := strings.Cut(rest, " ")
	ms, _ := strconv.ParseInt(since, 10, 64)
	return App{State: State(state), Since: time.UnixMilli(ms), Reason: reason}
}

// TakeProbe returns true to one caller in the cluster per interval, which may then probe the app.
// If the answer is lost, one probe is left out; there are never two.
func (s *Store) TakeProbe(ctx context.Context, app string, interval time.Duration) (bool, error) {
	cmd := redis.NewStatusCmd(ctx, "set", keyProbe(app), "1", "px", max(1, interval.Milliseconds()), "nx")
	err := s.db.Do(ctx, redisdb.Write, cmd)
	if err != nil && err != redis.Nil {
		return false, fmt.Errorf("take probe of %s: %w", app, err)
	}
	return err == nil, nil
}

// FreeProbe lets the next TakeProbe of these apps succeed at once.
func (s *Store) FreeProbe(ctx context.Context, apps ...string) error {
	cmds := make([]redis.Cmder, len(apps))
	for i, app := range apps {
		cmds[i] = redis.NewIntCmd(ctx, "del", keyProbe(app))
	}
	if err := s.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return fmt.Errorf("free probes: %w", err)
	}
	return nil
}

// Statuses of probe_ask.lua.
const (
	askReused   = 0
	askReplayed = 2
)

// AskProbe asks every process to try one notification of each of these apps at once, see Asked.
// replayed tells that an earlier call with the Idempotency-Key did that already, so that this one did
// nothing. Such a key that came with another body before is api.CodeIdempotencyReused.
func (s *Store) AskProbe(ctx context.Context, once api.Idempotency, apps ...string) (replayed bool, err error) {
	keys, digest := []string{keyAsked, keyOnce(once.Name())}, ""
	if once.Key != "" {
		digest = string(once.Body[:])
	}
	args := []any{rand.Text(), keepAsked.Milliseconds(), digest, api.IdempotencyTTL.Milliseconds()}
	for _, app := range apps {
		keys, args = append(keys, keyProbe(app)), append(args, app)
	}
	v, err := s.db.Eval(ctx, redisdb.Write, s.ask, keys, args...)
	if err != nil {
		return false, fmt.Errorf("ask for probes: %w", err)
	}
	switch redisdb.Number(v) {
	case askReused:
		return false, api.IdempotencyReused()
	case askReplayed:
		return true, nil
	}
	return false, nil
}

// Asked reads the probes that were asked for in the last minute: for each app the newest request, an
// opaque text.
func (s *Store) Asked(ctx context.Context) (map[string]string, error) {
	values, err := s.readHash(ctx, keyAsked)
	if err != nil {
		return nil, fmt.Errorf("read probes: %w", err)
	}
	return values, nil
}
