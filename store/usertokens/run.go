package usertokens

import (
	"context"
	"fmt"
	"time"

	"fanfare/store/record"
)

// revocationPage is how many revocations are read at once.
const revocationPage = 10_000

// forgetEvery is how often Run forgets revocations that no longer matter, because their tokens
// have expired.
const forgetEvery = time.Hour

// Load reads the new revocations, and the first time also fanfare's own keys: if there is none
// on record it makes one.
func (s *Store) Load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The version is read first: data that is read after it is never older.
	version, err := s.rec.Version(ctx, record.VersionUserTokens)
	if err != nil {
		return fmt.Errorf("read user tokens: %w", err)
	}
	if s.loaded && version == s.version {
		return nil
	}
	if err := s.loadKeys(ctx); err != nil {
		return err
	}
	after := s.version
	if version < after {
		after = 0 // the record was restored from a backup
	}
	for more := true; more; {
		list, err := s.rec.Revocations(ctx, after, s.page)
		if err != nil {
			return fmt.Errorf("read revocations: %w", err)
		}
		for _, r := range list { // apply these revocations now, even if a later page fails
			if record.IsErasedName(r.User) {
				s.erased.Store(true)
			}
			if upTo, is := s.revoked.Load(r.User); !is || upTo.(int64) < r.UpTo {
				s.revoked.Store(r.User, r.UpTo)
			}
			after, s.version = r.Version, r.Version
		}
		more = len(list) >= s.page
	}
	s.version, s.loaded = version, true
	return nil
}

// loadKeys reads fanfare's own keys; s.mu is held.
func (s *Store) loadKeys(ctx context.Context) error {
	keys, err := s.rec.TokenKeys(ctx)
	if err == nil && len(keys) == 0 {
		keys, err = s.addFirstKey(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the keys of user tokens: %w", err)
	}
	own := make([]ownKey, len(keys))
	for i, k := range keys {
		if own[i], err = parseOwnKey(k); err != nil {
			return err
		}
		own[i].from = time.Now().Add(s.o.Rest - time.Duration(k.AgeMS)*time.Millisecond)
	}
	s.ownKeys = own
	s.own.Store(&own)
	s.publish()
	return nil
}

// addFirstKey makes the first key. If several servers try, one of them succeeds.
func (s *Store) addFirstKey(ctx context.Context) ([]record.TokenKey, error) {
	first, err := newOwnKey()
	if err != nil {
		return nil, err
	}
	if err := s.rec.AddFirstTokenKey(ctx, first); err != nil {
		return nil, err
	}
	return s.rec.TokenKeys(ctx)
}

// Run reads changes until ctx ends. While SQL is away, the known keys and revocations stay.
func (s *Store) Run(ctx context.Context) error {
	forgot := time.Now()
	record.Follow(ctx, s.o.Logger, "user tokens", s.o.PollEvery, func(ctx context.Context) error {
		if time.Since(forgot) >= forgetEvery {
			forgot = time.Now()
			s.forget(forgot.Add(-record.RevocationTTL))
		}
		return s.Load(ctx)
	})
	return nil
}

// forget drops revocations that concern only tokens issued before a time.
func (s *Store) forget(before time.Time) {
	s.revoked.Range(func(user, upTo any) bool {
		if upTo.(int64) < before.Unix() {
			s.revoked.CompareAndDelete(user, upTo)
		}
		return true
	})
}
