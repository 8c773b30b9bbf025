package apikeys

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"time"

	"fanfare/store/record"
)

// noteTimeout bounds the last write of key uses when the process stops.
const noteTimeout = 2 * time.Second

// Load reads the keys if they changed since the last time. Call it before serving, so that Any
// is known. Run does the same afterwards.
func (s *Store) Load(ctx context.Context) error {
	s.load.Lock()
	defer s.load.Unlock()
	// The version is read first: keys that are read after it are never older.
	began := time.Now()
	version, err := s.rec.Version(ctx, record.VersionKeys)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	if old := s.snap.Load(); old != nil && old.version == version {
		old.checked.Store(&began)
		return nil
	}
	stored, err := s.rec.Keys(ctx)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	s.publish(version, stored, began)
	return nil
}

func (s *Store) publish(version int64, stored []record.StoredKey, began time.Time) {
	snap := &snapshot{version: version, byID: make(map[string]*entry, len(stored))}
	snap.checked.Store(&began)
	for _, k := range stored {
		sum, err := hex.DecodeString(k.SecretHash)
		if err != nil {
			continue // a text that is not a hash cannot match a secret
		}
		snap.byID[k.ID] = &entry{key: k.Key, hash: sum}
	}
	if len(stored) > 0 {
		s.any.Store(true)
	}
	s.snap.Store(snap)
}

// Run reads changes of the keys and writes when they were last used, until ctx ends. While SQL
// is away the last known keys stay.
func (s *Store) Run(ctx context.Context) error {
	noted := time.Now()
	record.Follow(ctx, s.o.Logger, "API keys", s.o.PollEvery, func(ctx context.Context) error {
		if time.Since(noted) >= s.o.NoteEvery {
			noted = time.Now()
			s.writeNotes(ctx)
		}
		return s.Load(ctx)
	})
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	s.writeNotes(end)
	return nil
}

// writeNotes writes the noted uses to the record. Uses that could not be written are kept for
// the next time, unless a later use was noted meanwhile.
func (s *Store) writeNotes(ctx context.Context) {
	s.notes.Lock()
	used := s.used
	s.used = make(map[string]time.Time, len(used))
	s.notes.Unlock()
	if len(used) == 0 {
		return
	}
	if err := s.rec.TouchKeys(ctx, used); err != nil {
		s.o.Logger.Debug("the last uses of keys were not written; the next round writes them", "error", err)
		s.notes.Lock()
		maps.Copy(used, s.used)
		s.used = used
		s.notes.Unlock()
	}
}
