package sessions

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/usertokens"
)

//go:embed lua
var scripts embed.FS

// Options tunes a Store; the zero value works.
type Options struct {
	// Idle is how long a session lasts without being used; default 1 h. Life is how long it lasts at
	// most; default 12 h.
	Idle, Life time.Duration
}

// Store knows the sessions. It is safe for concurrent use.
type Store struct {
	db        *redisdb.DB
	ids       *usertokens.Store
	o         Options
	open, use *redisdb.Script
}

// purpose tells the ids of sessions from other secrets of usertokens.
const purpose = "session"

// New makes a Store. It does not connect. The ids are secrets of usertokens, so that an id that a stranger
// made up costs Redis nothing.
func New(db *redisdb.DB, ids *usertokens.Store, o Options) *Store {
	o.Idle = cmp.Or(o.Idle, idle)
	o.Life = cmp.Or(o.Life, life)
	return &Store{db: db, ids: ids, o: o, open: redisdb.MustScript(scripts, "lua/session_open.lua"), use: redisdb.MustScript(scripts, "lua/session_use.lua")}
}

// Open begins a session of an API key and returns the session's id, which is shown to nobody but its
// owner.
func (s *Store) Open(ctx context.Context, apiKey string) (id string, err error) {
	if id, err = s.ids.NewSecret(purpose); err != nil {
		return "", fmt.Errorf("open session: %w", err)
	}
	if _, err := s.db.Eval(ctx, redisdb.Write, s.open, []string{keyOf(id)}, apiKey, s.o.Idle.Milliseconds(), s.o.Life.Milliseconds()); err != nil {
		return "", fmt.Errorf("open session: %w", err)
	}
	return id, nil
}

// Use returns the API key of a session. If extend is set, the session was used by a person and lasts
// another Options.Idle, but never beyond Options.Life. A session that has ended, or never was, is
// api.CodeUnauthorized.
func (s *Store) Use(ctx context.Context, id string, extend bool) (apiKey string, err error) {
	if !s.ids.MadeSecret(purpose, id) {
		return "", errEnded()
	}
	mode, lasts := redisdb.Read, int64(0)
	if extend {
		mode, lasts = redisdb.Write, s.o.Idle.Milliseconds()
	}
	v, err := s.db.Eval(ctx, mode, s.use, []string{keyOf(id)}, lasts)
	if err != nil {
		return "", fmt.Errorf("use session: %w", err)
	}
	if apiKey, _ = v.(string); apiKey == "" {
		return "", errEnded()
	}
	return apiKey, nil
}

func errEnded() error { return api.Errorf(api.CodeUnauthorized, "the session has ended") }

// Close ends a session. It does not matter whether there is one.
func (s *Store) Close(ctx context.Context, id string) error {
	if !s.ids.MadeSecret(purpose, id) {
		return nil
	}
	if err := s.db.Share(ctx, redisdb.Write, redis.NewIntCmd(ctx, "del", keyOf(id))); err != nil {
		return fmt.Errorf("close session: %w", err)
	}
	return nil
}
