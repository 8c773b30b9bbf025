package devices

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/record"
)

// Scripts are the package's Lua files.
func Scripts() fs.FS { return scripts }

// Keys of a user, for tests that read Redis.
func Keys(user string) (settings, changing string) {
	return settingsKey(user), changingKey(user)
}

// Lifetimes that the tests check against P10.
const (
	EntryTTL     = entryTTL
	MarkTTL      = markTTL
	MaxRead      = maxRead
	CommitWithin = commitWithin
)

// DropRelay makes every write die between its commit and its relay.
func (s *Store) DropRelay() { s.relay = func(context.Context, settingsChange) error { return nil } }

// BeforeRelay runs f after each commit, before it is relayed to Redis.
func (s *Store) BeforeRelay(f func()) {
	s.relay = func(ctx context.Context, c settingsChange) error {
		if c.versions[0].Version > 0 { // or nothing was committed
			f()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // f may have taken long
		defer cancel()
		return s.relayChange(ctx, c)
	}
}

// BeforeGuard runs f between the reading of the record and the first guard write.
func (s *Store) BeforeGuard(f func()) {
	set, once := s.setGuards, sync.Once{}
	s.setGuards = func(ctx context.Context, guards []queue.Guard) error {
		once.Do(f)
		return set(ctx, guards)
	}
}

// Mark sets a writer's mark with a lifetime of the test's choice.
func (s *Store) Mark(ctx context.Context, writer, user string, lifetime time.Duration) error {
	return s.send(ctx, []redis.Cmder{s.mark.Cmd(ctx, []string{settingsKey(user), changingKey(user)}, writer, lifetime.Milliseconds())})
}

// StoreVersion ends a writer's mark with the version that it committed.
func (s *Store) StoreVersion(ctx context.Context, writer, user string, version int64) error {
	_, err := s.storeVersions(ctx, writer, []record.UserVersion{{User: user, Version: version}})
	return err
}

// Reader is a reader stopped between its query and its fill.
type Reader struct {
	s     *Store
	read  *cacheRead
	found map[string]*record.Snapshot
}

// BeginRead does what Targets does up to the fill.
func (s *Store) BeginRead(ctx context.Context, user string) (*Reader, error) {
	r := &Reader{s: s, read: s.readCache(ctx, []Query{{User: user}})}
	found, err := s.rec.Snapshots(ctx, []string{user})
	r.found = found
	return r, err
}

// Age moves the beginning of the read back, by Redis' clock: the script must
// refuse it on its own.
func (r *Reader) Age(by time.Duration) {
	for user := range r.read.missed {
		r.read.missed[user] -= by.Milliseconds()
	}
}

// Fill ends the read.
func (r *Reader) Fill(ctx context.Context) { r.s.fillUsers(ctx, r.read, r.found) }

// Cached tells what an entry holds of one type, and whether there is an entry.
func (s *Store) Cached(ctx context.Context, user, typ string) (t Target, hit bool) {
	l := s.readCache(ctx, []Query{{User: user, Type: typ}})
	return l.targets[0], l.found[0].hit
}

// RefuseGuard keeps the store from writing the guard of a token, as if its master were away.
func (s *Store) RefuseGuard(token string) {
	set := s.setGuards
	s.setGuards = func(ctx context.Context, guards []queue.Guard) (err error) {
		for i := range guards {
			if guards[i].Name == GuardName(token) {
				guards[i].Err = context.DeadlineExceeded
			} else {
				err = cmp.Or(err, set(ctx, guards[i:i+1]))
			}
			err = cmp.Or(err, guards[i].Err)
		}
		return err
	}
}

// LateGuard lets Redis run each guard write of the store only when run is called, after the writer has given
// up.
func (s *Store) LateGuard() (run func(context.Context) error) {
	set, late := s.setGuards, []queue.Guard(nil)
	s.setGuards = func(_ context.Context, guards []queue.Guard) error {
		late = slices.Clone(guards)
		for i := range guards {
			guards[i].Err = context.DeadlineExceeded
		}
		return context.DeadlineExceeded
	}
	return func(ctx context.Context) error { return set(ctx, late) }
}
