package usertokens

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// Options tunes a Store; the zero value works.
type Options struct {
	// KeysFile is a JWKS whose keys sign user tokens beside fanfare's own; "": none.
	KeysFile string
	// KeyEnded reports whether the API key that asked for a token has ended. age is that of the token.
	// nil: tokens do not end with API keys.
	KeyEnded func(id string, age time.Duration) bool
	// Logger receives a line when SQL stops or resumes answering, and for keys of the file that are skipped;
	// nil: nothing is logged.
	Logger *slog.Logger
	// PollEvery is how often Run reads changes; default 1 s, at most 4 s. A stream checks its token
	// every 5 s, so that a revocation counts everywhere within 10 s.
	PollEvery time.Duration
	// Rest is how long a new key of fanfare's own is on record before it signs; default
	// record.TokenKeyRest.
	Rest time.Duration
}

const (
	defaultPoll = time.Second
	maxPoll     = 4 * time.Second
)

// Store checks and makes user tokens and tickets, by Redis' time. It is safe for concurrent use.
type Store struct {
	rec *record.DB
	db  *redisdb.DB
	now func() time.Time // by Redis' clock
	o   Options

	keys       atomic.Pointer[keySet]   // fanfare's own keys and those of the file
	own        atomic.Pointer[[]ownKey] // oldest first; nil before the first Load
	remembered remembered
	// revoked has, by user, the second up to which tokens are ended (int64). Users who were erased
	// are in it under record.ErasedName; erased tells that there are any.
	revoked sync.Map
	erased  atomic.Bool

	mu       sync.Mutex // guards the fields below
	fileKeys keySet
	ownKeys  []ownKey
	version  int64 // of the known revocations
	page     int   // revocations read at once
	loaded   bool
}

// New makes a store with the keys of its file; the error says what is wrong with the file. Load
// or Run reads what is on record.
func New(rec *record.DB, db *redisdb.DB, o Options) (*Store, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.PollEvery = cmp.Or(o.PollEvery, defaultPoll)
	o.PollEvery = min(o.PollEvery, maxPoll)
	o.Rest = cmp.Or(o.Rest, record.TokenKeyRest)
	s := &Store{rec: rec, db: db, now: db.Clock, o: o, page: revocationPage, remembered: remembered{most: generation}}
	return s, s.Reload()
}

// Reload reads the keys file again. A broken one changes nothing. Tokens of keys that
// are gone end within 10 s, open streams included.
func (s *Store) Reload() error {
	keys, err := readKeys(s.o.KeysFile, func(kid, why string) {
		s.o.Logger.Warn("a key of the keys file is skipped, because it is not for signatures", "kid", kid, "reason", why)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fileKeys = keys
	s.publish()
	return nil
}

// publish makes one set of all keys; s.mu is held.
func (s *Store) publish() {
	all := maps.Clone(s.fileKeys)
	for _, own := range s.ownKeys {
		all[own.kid] = own.check
	}
	s.keys.Store(&all)
}

// signer is fanfare's newest own key that has been on record long enough, or else the oldest key;
// nil before the first Load.
func (s *Store) signer() *ownKey {
	keys := s.own.Load()
	if keys == nil {
		return nil
	}
	for i := len(*keys) - 1; i > 0; i-- {
		if own := &(*keys)[i]; !time.Now().Before(own.from) {
			return own
		}
	}
	return &(*keys)[0]
}

// errNotValid does not tell a caller what is wrong with the token.
func errNotValid() error {
	return api.Errorf(api.CodeUnauthorized, "the user token is not valid")
}

// Recall returns the user of a token that was verified before, nil for any other token. A token
// that has ended meanwhile is api.CodeUnauthorized.
func (s *Store) Recall(token string) (*api.User, error) {
	if len(token) > api.MaxToken {
		return nil, nil
	}
	u := s.remembered.get(sha256.Sum256([]byte(token)))
	if u == nil || !s.hasKey(u) {
		return nil, nil
	}
	if s.Ended(u) != "" {
		return nil, errNotValid()
	}
	return u, nil
}

// Verify checks a token and remembers it. A bad token is always the same api.CodeUnauthorized,
// whatever is wrong with it. Verify calls admit before it computes a signature, and returns
// admit's error; forged tells that the signature is not the key's.
func (s *Store) Verify(token string, admit func() error) (u *api.User, forged bool, err error) {
	keys := *s.keys.Load()
	kid, payload, forged, err := openToken(token, keys, admit)
	if err != nil {
		return nil, forged, err
	}
	u, err = readClaims(kid, payload, s.now())
	if err != nil {
		return nil, false, errNotValid()
	}
	u.KeyPrint = keys[kid].keyPrint
	if s.Ended(u) != "" {
		return nil, false, errNotValid()
	}
	s.remembered.put(sha256.Sum256([]byte(token)), u)
	return u, false, nil
}

// Ended says why a user's token or ticket is no longer valid; "" while it is.
func (s *Store) Ended(u *api.User) api.ByeReason {
	now := s.now()
	if !now.Before(u.ExpiresAt) {
		return api.ByeExpired
	}
	if !s.hasKey(u) || u.MadeBy != "" && s.o.KeyEnded != nil && s.o.KeyEnded(u.MadeBy, now.Sub(u.IssuedAt)) {
		return api.ByeRevoked
	}
	if upTo, is := s.endedUpTo(u.ID); is && u.IssuedAt.Unix() <= upTo {
		return api.ByeRevoked
	}
	return ""
}

// hasKey reports whether the key that signed a user's token is still there.
func (s *Store) hasKey(u *api.User) bool {
	k := (*s.keys.Load())[u.KeyID]
	return k != nil && k.keyPrint == u.KeyPrint
}

// endedUpTo is the second up to which a user's tokens are ended, if any are.
func (s *Store) endedUpTo(user string) (second int64, is bool) {
	if upTo, known := s.revoked.Load(user); known {
		second, is = upTo.(int64), true
	}
	if upTo, known := s.erasedUpTo(user); known {
		second, is = max(second, upTo), true
	}
	return second, is
}

// erasedUpTo is the second in which a user was erased last, if that is less than a day ago.
func (s *Store) erasedUpTo(user string) (second int64, is bool) {
	if !s.erased.Load() {
		return 0, false
	}
	upTo, is := s.revoked.Load(record.ErasedName(user))
	if is {
		second = upTo.(int64)
	}
	return second, is
}

// Erased reports whether a user was erased since a time of this process: what the user had open then has ended.
func (s *Store) Erased(user string, since time.Time) bool {
	upTo, is := s.erasedUpTo(user)
	return is && s.now().Add(-time.Since(since)).Unix() <= upTo // by Redis' clock, as upTo is
}

// Issue makes a token for a user. A token that is made in the second of a revocation counts as
// made in the next second, so that the revocation does not end it. The token ends with the API key that
// asks for it; nil: with none.
func (s *Store) Issue(user string, r *api.TokenRequest, by *api.Key) (*api.Token, error) {
	own := s.signer()
	if own == nil {
		return nil, errNoSigner()
	}
	issued := s.now().Unix()
	if upTo, is := s.endedUpTo(user); is {
		issued = max(issued, upTo+1)
	}
	expires := time.Unix(issued, 0).Add(r.TTL())
	scopes := make([]string, len(r.Scopes))
	for i, scope := range r.Scopes {
		scopes[i] = string(scope)
	}
	claims := map[string]any{"sub": user, "aud": api.TokenAudience, "iat": issued, "scope": strings.Join(scopes, " ")}
	if by != nil {
		claims["azp"] = by.ID
		if end := by.ExpiresAt; end != nil && end.Before(expires) {
			expires = end.Truncate(time.Second)
		}
	}
	if expires.Unix() <= issued {
		return nil, api.Errorf(api.CodeUnauthorized, "the API key ends within this second")
	}
	claims["exp"] = expires.Unix()
	payload, err := json.Marshal(claims, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write claims: %w", err)
	}
	token, err := sign(own, payload)
	if err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	return &api.Token{Token: token, ExpiresAt: api.At(expires)}, nil
}

func errNoSigner() error {
	return api.Errorf(api.CodeUnavailable, "the key that signs tokens cannot be read just now")
}

func sign(own *ownKey, payload []byte) (string, error) {
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: own.private, KeyID: own.kid}},
		(&jose.SignerOptions{}).WithType("JWT"),
	)
	if err != nil {
		return "", err
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return jws.CompactSerialize()
}

// clocksApart is the largest difference between the estimates of Redis' clock of two servers.
const clocksApart = 100 * time.Millisecond

// revokeWait is how long at most a revocation waits for the end of its second.
const revokeWait = 2 * time.Second

// Revoke ends all tokens of a user that were issued up to this second: here at once, on other
// servers within 10 s. It returns when that second is over, so that a token made after the call
// is not revoked, whichever server makes it.
func (s *Store) Revoke(ctx context.Context, user string, once api.Idempotency) (replayed bool, err error) {
	second := s.now().Add(clocksApart).Unix()
	if replayed, err = s.rec.RevokeTokens(ctx, user, second, once); err != nil {
		return false, fmt.Errorf("revoke tokens: %w", err)
	}
	s.applyRevocation(ctx, user, !replayed)
	return replayed, nil
}

// Erase begins the operation that erases a user, and returns its id. It ends the user's tokens as
// Revoke does, in the same transaction. While such an operation runs its id is returned, and nothing
// else happens. It ends after the second of its begin is over by both clocks, so that what is new then is later
// than what the operation removes.
func (s *Store) Erase(ctx context.Context, user string) (operation string, err error) {
	now, err := s.db.Now(ctx, ticketKey(user))
	if err != nil {
		return "", fmt.Errorf("erase a user: %w", err)
	}
	if operation, err = s.rec.StartErasure(ctx, user, max(now.UnixMilli(), s.now().UnixMilli())); err != nil {
		return "", fmt.Errorf("erase a user: %w", err)
	}
	over := time.Now().Add(time.Second) // by the database's clock, whose time is not known here
	s.applyRevocation(ctx, user, true)
	redisdb.Sleep(ctx, time.Until(over))
	return operation, nil
}

// applyRevocation reads a new revocation of a user's tokens, and waits until its second is over.
func (s *Store) applyRevocation(ctx context.Context, user string, wait bool) {
	if err := s.Load(ctx); err != nil {
		s.o.Logger.WarnContext(ctx, "tokens were revoked but the record was not read again yet", "error", err)
	}
	if upTo, is := s.endedUpTo(user); is && wait {
		s.awaitSecondAfter(ctx, upTo)
	}
}

// awaitSecondAfter waits until a second is over by the clock that tokens are checked with. If that
// clock was set back since an earlier revocation, it does not wait for as long as that.
func (s *Store) awaitSecondAfter(ctx context.Context, second int64) {
	patience := revokeWait
	if ends, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(ends)/2) // the tokens are revoked: leave time for the answer
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil && s.now().Unix() <= second {
		redisdb.Sleep(ctx, 50*time.Millisecond)
	}
}
