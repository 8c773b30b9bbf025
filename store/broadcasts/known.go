package broadcasts

import (
	"context"

	"fanfare/api"
	"fanfare/store/record"
)

// Run keeps this process's view of the broadcasts fresh until ctx ends. While the record is away, the last known ones
// stay.
func (s *Store) Run(ctx context.Context) error {
	record.Follow(ctx, s.o.Logger, "broadcasts", s.o.Poll, s.load)
	return nil
}

// load reads the broadcasts if their version has changed. The version is read first, so that the next load finds a
// change made in between.
func (s *Store) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	version, err := s.o.Record.Version(ctx, record.VersionBroadcasts)
	if known := s.snap.Load(); err != nil || known != nil && known.version == version {
		return err
	}
	rows, err := s.o.Record.AllBroadcasts(ctx)
	if err != nil {
		return err
	}
	next := &snapshot{version: version, all: make(map[string]*api.Broadcast, len(rows))}
	for i := range rows {
		next.all[rows[i].Object] = rows[i].Show()
	}
	s.snap.Store(next)
	return nil
}

// refresh makes a change effective in this process at once; if that fails, the next load of Run does.
func (s *Store) refresh(ctx context.Context) {
	if err := s.load(context.WithoutCancel(ctx)); err != nil {
		s.o.Logger.DebugContext(ctx, "broadcasts are not fresh", "error", err)
	}
}

// Known is the broadcast of an object as this process knows it; nil: it knows of none.
func (s *Store) Known(object string) *api.Broadcast {
	known := s.snap.Load()
	if known == nil {
		return nil
	}
	return known.all[object]
}

// Open finds the broadcast of an object that has a channel. It asks the record only if this process knows of none. If
// there is none, the error is api.CodeValidation.
func (s *Store) Open(ctx context.Context, object string) (*api.Broadcast, error) {
	if b := s.Known(object); b != nil && b.State == api.BroadcastOpen {
		return b, nil
	}
	row, err := s.o.Record.Broadcast(ctx, object)
	if api.CodeOf(err) == api.CodeNotFound {
		return nil, api.Invalid("audience.broadcast", "exists", "is no broadcast: there is none of %s", object)
	}
	if err != nil {
		return nil, err
	}
	b := row.Show()
	if b.State != api.BroadcastOpen {
		return nil, api.Invalid("audience.broadcast", "open", "is a broadcast without a channel: its state is %s", b.State)
	}
	return b, nil
}

// States counts the broadcasts that this process knows, by state.
func (s *Store) States() map[api.BroadcastState]int {
	out := map[api.BroadcastState]int{api.BroadcastMaking: 0, api.BroadcastOpen: 0, api.BroadcastLost: 0, api.BroadcastClosing: 0}
	if known := s.snap.Load(); known != nil {
		for _, b := range known.all {
			out[b.State]++
		}
	}
	return out
}
