package badges

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

//go:embed lua/*.lua
var scripts embed.FS

const (
	// lifetime is how long a badge is kept after its last change.
	lifetime = 365 * 24 * time.Hour
	// showGap is the least time between two pushes that show a user's badge without a text.
	showGap = time.Minute
	// spare is how much longer names are known than something with that name may come again.
	spare = time.Hour
	// unnamedPeriod is the period of requests without a name. It is far longer than a call and the commands that it repeats may
	// take, and so short that a caller who changes a badge as often as the rates allow does not fill Redis.
	unnamedPeriod = time.Minute
	// bodyBytes is how much of the digest of a request's body is kept.
	bodyBytes = 16
)

// Statuses of badge_change.lua.
const (
	statusReplayed  = 2
	statusKeyReused = 3
)

// Store is the badges of all users. It may be used from any goroutine.
type Store struct {
	db            *redisdb.DB
	change, erase *redisdb.Script
	period        time.Duration
}

// Options say how long names are known. The zero value works.
type Options struct {
	// MaxAge is how long an event may be tried; default 24 h. It should be the same as that of the queue of events.
	MaxAge time.Duration
}

// New makes a Store. It does not connect.
func New(db *redisdb.DB, o Options) *Store {
	return &Store{
		db: db, change: redisdb.MustScript(scripts, "lua/badge_change.lua"), erase: redisdb.MustScript(scripts, "lua/badge_erase.lua"),
		period: max(cmp.Or(o.MaxAge, 24*time.Hour), api.IdempotencyTTL) + spare,
	}
}

// change is one run of badge_change.lua.
type change struct {
	how    string // "set" or "add"
	number int64
	name   string
	body   string    // "" for an event
	came   time.Time // when the event came
	show   bool
	// unnamed says that the name is a random one, which comes again only if the client repeats the command.
	unnamed bool
}

func (s *Store) cmd(ctx context.Context, user string, c change) *redis.Cmd {
	came, gap := "", ""
	if !c.came.IsZero() {
		came = strconv.FormatInt(c.came.UnixMilli(), 10)
	}
	if c.show {
		gap = strconv.FormatInt(showGap.Milliseconds(), 10)
	}
	all, period := keysOf(user), s.period
	keys := all[:3]
	if c.unnamed {
		keys, period = []string{all[0], all[3], all[4]}, unnamedPeriod
	}
	return s.change.Cmd(ctx, keys, c.how, c.number, api.MaxBadge, lifetime.Milliseconds(), c.name, c.body, period.Milliseconds(), came, gap)
}

// Get reads a user's badge. One that was never set, or that Redis has lost, is 0 with version 0.
func (s *Store) Get(ctx context.Context, user string) (*api.Badge, error) {
	text, err := redisdb.Value(ctx, s.db, redisdb.Read, redis.NewStringCmd(ctx, "get", keysOf(user)[0]))
	if errors.Is(err, redis.Nil) {
		return &api.Badge{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the badge of %s: %w", user, err)
	}
	return badgeOf(strings.Fields(text))
}

// Set sets a user's badge. With show the number is to be shown, and at says when: zero for now, or when it may be shown again
// after the last time. Until then all calls give the same time. Errors are CodeOverloaded while Redis' memory is nearly full,
// and those of Redis.
func (s *Store) Set(ctx context.Context, user string, count int64, show bool) (badge *api.Badge, at time.Time, err error) {
	badge, at, _, err = s.request(ctx, user, change{how: "set", number: count, show: show}, api.Idempotency{})
	return badge, at, err
}

// Add adds to a user's badge, which stays between 0 and api.MaxBadge. again says that the answer is that of an earlier
// request with the same key. Errors are CodeIdempotencyReused and those of Set.
func (s *Store) Add(ctx context.Context, user string, delta int64, once api.Idempotency) (badge *api.Badge, again bool, err error) {
	badge, _, again, err = s.request(ctx, user, change{how: "add", number: delta}, once)
	return badge, again, err
}

// request makes a change that a caller asked for.
func (s *Store) request(ctx context.Context, user string, c change, once api.Idempotency) (badge *api.Badge, at time.Time, again bool, err error) {
	if err := s.db.Overloaded(); err != nil {
		return nil, at, false, err
	}
	if once.Key == "" {
		once, c.unnamed = api.Idempotency{Key: rand.Text()}, true
	}
	c.name, c.body = once.Name(user), hex.EncodeToString(once.Body[:bodyBytes])
	reply, err := s.db.List(ctx, redisdb.Write, s.cmd(ctx, user, c))
	if err != nil {
		return nil, at, false, fmt.Errorf("change the badge of %s: %w", user, err)
	}
	status := redisdb.Number(reply[0])
	if status == statusKeyReused {
		return nil, at, false, api.IdempotencyReused()
	}
	badge, err = badgeOf([]string{redisdb.TextAt(reply, 1), redisdb.TextAt(reply, 2), redisdb.TextAt(reply, 3)})
	if ms, _ := strconv.ParseInt(redisdb.TextAt(reply, 4), 10, 64); ms > 0 && c.show {
		at = time.UnixMilli(ms)
	}
	return badge, at, status == statusReplayed, err
}

// badgeOf reads count, version and since.
func badgeOf(list []string) (*api.Badge, error) {
	if len(list) < 3 {
		return nil, fmt.Errorf("read a badge: %q", list)
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(list[i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read a badge: %w", err)
		}
		numbers[i] = n
	}
	return &api.Badge{Count: numbers[0], Version: numbers[1], Since: new(api.AtMillis(numbers[2]))}, nil
}

// Ask asks for the number with which a user gets an event.
type Ask struct {
	User, Event string
	// Mode is BadgeCount, which leaves the badge as it is, or BadgeAdd, which first raises it by one. If the event has raised it
	// already, the number is that of the first time.
	Mode api.BadgeMode
	Came time.Time // when the event came
	// Age is for how long the event, or the part of it, has been in the queue.
	Age time.Duration
}

// Reached is the number with which a user gets an event.
type Reached struct {
	Count int64
	Err   error
}

// Reach gives the numbers with which users get events, one for each ask, in one round trip.
func (s *Store) Reach(ctx context.Context, asks []Ask) []Reached {
	cmds, out := make([]redis.Cmder, len(asks)), make([]Reached, len(asks))
	for i, a := range asks {
		if a.Mode == api.BadgeAdd {
			cmds[i] = s.cmd(ctx, a.User, change{how: "add", number: 1, name: a.Event, came: a.Came})
		} else {
			cmds[i] = redis.NewStringCmd(ctx, "get", keysOf(a.User)[0])
		}
	}
	_ = s.db.Pipeline(ctx, redisdb.Write, cmds...) // each command has its own outcome
	for i, cmd := range cmds {
		n, err := reached(cmd)
		out[i] = Reached{n, s.db.Err(err, redisdb.Write)}
	}
	return out
}

// reached reads the number that a command of Reach gave.
func reached(cmd redis.Cmder) (int64, error) {
	if shown, ok := cmd.(*redis.StringCmd); ok {
		text, err := shown.Result()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		count, _, _ := strings.Cut(text, " ")
		return strconv.ParseInt(count, 10, 64)
	}
	reply, err := redisdb.ListOf(cmd)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(redisdb.TextAt(reply, 1), 10, 64)
}

// Erase forgets a user's badge, unless a request or an event that came after a time has changed it.
func (s *Store) Erase(ctx context.Context, user string, since time.Time) error {
	if _, err := s.db.Eval(ctx, redisdb.Write, s.erase, keysOf(user), since.UnixMilli()); err != nil {
		return fmt.Errorf("erase a badge: %w", err)
	}
	return nil
}
