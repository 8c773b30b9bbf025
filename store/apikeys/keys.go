package apikeys

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"fanfare/api"
	"fanfare/store/record"
)

// Options tunes a Store; the zero value works.
type Options struct {
	// Logger receives a line when SQL stops or resumes answering; nil: nothing is logged.
	Logger *slog.Logger
	// PollEvery is how often Run reads changes; default 1 s, at most 5 s.
	PollEvery time.Duration
	// NoteEvery is how often Run writes when keys were last used; default 30 s.
	NoteEvery time.Duration
}

const (
	defaultPoll = time.Second
	maxPoll     = 5 * time.Second
	defaultNote = 30 * time.Second
	// staleAfter is how old the last successful reading may be before an unknown
	// key is answered with "unavailable" instead of "unauthorized".
	staleAfter = 10 * time.Second
	maxID      = 32
	minRandom  = 32 // 128 bits, if they are random hex
)

// Store checks and manages API keys. It is safe for concurrent use.
type Store struct {
	rec  *record.DB
	o    Options
	snap atomic.Pointer[snapshot]
	// any stays true once a key was seen, even if the record has none later.
	any atomic.Bool
	// load lets one reader of SQL at a time replace the snapshot.
	load sync.Mutex

	notes sync.Mutex
	used  map[string]time.Time // id -> last use not yet on record
}

// snapshot is all keys at one moment. It is never changed once published.
type snapshot struct {
	version int64
	byID    map[string]*entry
	checked atomic.Pointer[time.Time] // when it was last known to be current
}

type entry struct {
	key  api.Key
	hash []byte
	// last is the second of the newest noted use. At most one use per second is noted.
	last atomic.Int64
}

// New makes a store that knows no keys yet: Load or Run reads them.
func New(rec *record.DB, o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.PollEvery = cmp.Or(o.PollEvery, defaultPoll)
	o.PollEvery = min(o.PollEvery, maxPoll)
	o.NoteEvery = cmp.Or(o.NoteEvery, defaultNote)
	return &Store{rec: rec, o: o, used: map[string]time.Time{}}
}

// Create makes a key and returns its secret, which is never shown again. Blanks around the name are
// removed. The key works in this process at once, and until expires, which must be in the future by
// this server's clock; nil: for good.
func (s *Store) Create(ctx context.Context, name string, scopes []api.Scope, expires *api.Time) (string, *api.Key, error) {
	name = strings.TrimSpace(name)
	if err := checkKey(name, scopes, expires); err != nil {
		return "", nil, err
	}
	id, random := newSecret()
	k := record.StoredKey{Key: api.Key{ID: id, Name: name, Scopes: slices.Clone(scopes), ExpiresAt: expires}, SecretHash: hash(random)}
	created, err := s.rec.CreateKey(ctx, k)
	if err != nil {
		return "", nil, fmt.Errorf("create key: %w", err)
	}
	k.CreatedAt = created
	s.any.Store(true)
	s.reload(ctx)
	return prefix + id + "_" + random, &k.Key, nil
}

// CreateFirst makes an admin key from a secret that the caller chose, in the form of fanfare's
// own secrets, unless there ever was a key; created reports whether it did.
func (s *Store) CreateFirst(ctx context.Context, secret string) (created bool, err error) {
	if err := CheckSecret(secret); err != nil {
		return false, err
	}
	id, random, _ := split(secret)
	k := record.StoredKey{Key: api.Key{ID: id, Name: "first", Scopes: []api.Scope{api.ScopeAdmin}}, SecretHash: hash(random)}
	if created, err = s.rec.CreateFirstKey(ctx, k); err != nil {
		return false, fmt.Errorf("create the first key: %w", err)
	}
	return created, s.Load(ctx)
}

// CheckSecret tells what is wrong with a secret that was chosen for CreateFirst.
func CheckSecret(secret string) error {
	id, random, ok := split(secret)
	if !ok || len(id) > maxID || !plain(id) || len(random) < minRandom || !plain(random) {
		return fmt.Errorf("is not ff_<id>_<secret>: an id of at most %d and a secret of at least %d of a-z 0-9", maxID, minRandom)
	}
	return nil
}

func checkKey(name string, scopes []api.Scope, expires *api.Time) error {
	if name == "" || len(name) > api.MaxKeyName || !utf8.ValidString(name) {
		return api.Invalid("name", "required", "must be 1 to %d bytes", api.MaxKeyName)
	}
	if expires != nil && !time.Now().Before(expires.Time) {
		return api.Invalid("expires_at", "future", "must be in the future")
	}
	if len(scopes) == 0 {
		return api.Invalid("scopes", "required", "must name at least one scope")
	}
	for i, sc := range scopes {
		if !slices.Contains(api.Scopes, sc) {
			return api.Invalid(fmt.Sprintf("scopes[%d]", i), "oneof", "%q is not a scope; there are %v", sc, api.Scopes)
		}
	}
	return nil
}

// List reads every key from the record, oldest first, revoked ones too.
func (s *Store) List(ctx context.Context) ([]api.Key, error) {
	stored, err := s.rec.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	list := make([]api.Key, len(stored))
	for i, k := range stored {
		list[i] = k.Key
	}
	return list, nil
}

// Revoke ends a key for good. The error is api.CodeNotFound if there is no such key. In this
// process the key stops working at once.
func (s *Store) Revoke(ctx context.Context, id string) error {
	if err := s.rec.RevokeKey(ctx, id); err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	s.reload(ctx)
	return nil
}

// Any reports whether a key was ever created. It stays true even if every key is revoked: a server
// that had a key never answers calls without a key again.
func (s *Store) Any() bool { return s.any.Load() }

// Authenticate finds the key of a secret, in memory and in constant time. A
// wrong or revoked secret is api.CodeUnauthorized. As long as the keys could
// not be read at all, or for an unknown key while they could not be checked
// for 10 s, it is api.CodeUnavailable. The key must not be changed.
func (s *Store) Authenticate(secret string) (*api.Key, error) {
	id, random, ok := split(secret)
	if !ok {
		id = ""
	}
	sum := sha256.Sum256([]byte(random))
	return s.use(id, ok, func(hash []byte) bool { return subtle.ConstantTimeCompare(hash, sum[:]) == 1 })
}

// Find finds a key by its id, for a caller who proved before that it has the key, such as a session of
// the console. Its errors are those of Authenticate. The key must not be changed.
func (s *Store) Find(id string) (*api.Key, error) {
	return s.use(id, true, func([]byte) bool { return true })
}

// use finds a key, and notes that it is used if the caller proves to have it. An unknown key takes as long.
func (s *Store) use(id string, maybeNew bool, proves func(hash []byte) bool) (*api.Key, error) {
	snap := s.snap.Load()
	if snap == nil {
		return nil, api.Errorf(api.CodeUnavailable, "the API keys cannot be read just now")
	}
	e := snap.byID[id]
	known := e != nil
	if !known {
		e = &entry{hash: make([]byte, sha256.Size)}
	}
	proven := proves(e.hash)
	switch {
	case !known && maybeNew && snap.stale():
		return nil, api.Errorf(api.CodeUnavailable, "new API keys cannot be read just now")
	case !known || !proven:
		return nil, api.Errorf(api.CodeUnauthorized, "the API key is unknown or revoked")
	}
	if err := e.ended(); err != nil {
		return nil, err
	}
	s.note(e)
	return &e.key, nil
}

// Ended reports whether a key that was valid some time ago was revoked, has expired or is gone from the
// record. A key that is so young that it may not have been read yet has not ended. The question is not a
// use of the key.
func (s *Store) Ended(id string, ago time.Duration) bool {
	snap := s.snap.Load()
	if snap == nil {
		return false
	}
	if e := snap.byID[id]; e != nil {
		return e.ended() != nil
	}
	return ago > 2*staleAfter && !snap.stale()
}

// ended tells why a key is not valid any more.
func (e *entry) ended() error {
	switch {
	case e.key.RevokedAt != nil:
		return api.Errorf(api.CodeUnauthorized, "the API key is unknown or revoked")
	case e.key.ExpiresAt != nil && !time.Now().Before(e.key.ExpiresAt.Time):
		return api.Errorf(api.CodeUnauthorized, "the API key has expired")
	}
	return nil
}

func (snap *snapshot) stale() bool {
	return time.Since(*snap.checked.Load()) > staleAfter
}

// note remembers that the key was used, at most once a second.
func (s *Store) note(e *entry) {
	now := time.Now()
	if last := e.last.Load(); last == now.Unix() || !e.last.CompareAndSwap(last, now.Unix()) {
		return
	}
	s.notes.Lock()
	s.used[e.key.ID] = now
	s.notes.Unlock()
}

// reload makes a change by this process effective; if it fails, Run does.
func (s *Store) reload(ctx context.Context) {
	if err := s.Load(ctx); err != nil {
		s.o.Logger.Warn("keys were changed but not read again yet", "error", err)
	}
}
