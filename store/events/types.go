package events

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"fanfare/api"
	"fanfare/store/record"
)

// types is this process's snapshot of the event types. Accepting reads it
// without a lock and without SQL.
type types struct {
	rec  *record.DB
	log  *slog.Logger
	mu   sync.Mutex // one refresh at a time
	snap atomic.Pointer[snapshot]
}

type snapshot struct {
	version int64
	looks   map[string]*api.Look
}

// refresh reads the types again when their version has changed.
func (t *types) refresh(ctx context.Context) error {
	version, err := t.rec.Version(ctx, record.VersionEventTypes)
	if err != nil {
		return err
	}
	if s := t.snap.Load(); s != nil && s.version == version {
		return nil
	}
	return t.reload(ctx)
}

// reload reads version and types. The version is read first: a change in
// between shows at the next look.
func (t *types) reload(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, err := t.rec.Version(ctx, record.VersionEventTypes)
	if err != nil {
		return err
	}
	all, err := t.rec.EventTypes(ctx)
	if err != nil {
		return err
	}
	s := &snapshot{version: version, looks: make(map[string]*api.Look, len(all))}
	for i := range all {
		look, err := api.NewLook(&all[i].EventTypeRequest)
		if err != nil {
			t.log.Error("event type on record can't be used", "type", all[i].Type, "error", err)
			continue
		}
		s.looks[all[i].Type] = look
	}
	t.snap.Store(s)
	return nil
}

// look finds how an event of a type looks. A type that the snapshot does not
// know is looked up once before it is called unknown, unless the event brings
// its own alert and so needs none.
func (t *types) look(ctx context.Context, e *api.EventRequest) (*api.Look, error) {
	if t.snap.Load() == nil {
		if err := t.reload(ctx); err != nil {
			return nil, err
		}
	}
	if look := t.snap.Load().looks[e.Type]; look != nil {
		return look, nil
	}
	if e.Alert != nil {
		return api.PlainLook(), nil
	}
	return t.lookUp(ctx, e.Type)
}

// lookUp asks the record for one type that another process may have made a
// moment ago.
func (t *types) lookUp(ctx context.Context, name string) (*api.Look, error) {
	found, err := t.rec.EventType(ctx, name)
	if api.CodeOf(err) == api.CodeNotFound {
		return nil, api.Errorf(api.CodeUnknownEventType, "there is no event type %q, and the event brings no alert of its own", name)
	}
	if err != nil {
		return nil, err
	}
	return api.NewLook(&found.EventTypeRequest)
}

// PutEventType checks and stores an event type; created tells whether it is
// new. Other processes follow within a second.
func (s *Store) PutEventType(ctx context.Context, name string, r *api.EventTypeRequest) (t *api.EventType, created bool, err error) {
	if _, err := api.NewLook(r); err != nil {
		return nil, false, err
	}
	t, created, err = s.o.Record.PutEventType(ctx, name, r)
	if err != nil {
		return nil, false, err
	}
	s.follow(ctx)
	return t, created, nil
}

// EventType reads one event type from the record; unknown: not_found.
func (s *Store) EventType(ctx context.Context, name string) (*api.EventType, error) {
	return s.o.Record.EventType(ctx, name)
}

// EventTypes reads all event types from the record, by name.
func (s *Store) EventTypes(ctx context.Context) ([]api.EventType, error) {
	return s.o.Record.EventTypes(ctx)
}

// DeleteEventType forgets an event type. Events already accepted keep their
// look.
func (s *Store) DeleteEventType(ctx context.Context, name string) error {
	if err := s.o.Record.DeleteEventType(ctx, name); err != nil {
		return err
	}
	s.follow(ctx)
	return nil
}

// follow shows a change in this process at once; if that fails, Run's next
// look does.
func (s *Store) follow(ctx context.Context) {
	if err := s.types.reload(ctx); err != nil {
		s.o.Logger.Debug("event types are not fresh", "error", err)
	}
}
