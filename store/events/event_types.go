package events

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
	"fanfare/store/record"
)

// types is this process's snapshot of the event types. Accepting reads it
// without a lock and without SQL.
type types struct {
	rec  *record.DB
	log  *slog.Logger
	mu   sync.Mutex // one load at a time
	snap atomic.Pointer[snapshot]
}

type snapshot struct {
	version   int64
	templates map[string]*render.TemplateSet
}

// load reads the types if their version has changed. The version is read first, so that the next
// load finds a change made in between.
func (t *types) load(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, err := t.rec.Version(ctx, record.VersionEventTypes)
	if s := t.snap.Load(); err != nil || s != nil && s.version == version {
		return err
	}
	all, err := t.rec.EventTypes(ctx)
	if err != nil {
		return err
	}
	s := &snapshot{version: version, templates: make(map[string]*render.TemplateSet, len(all))}
	for i := range all {
		set, err := render.NewTemplateSet(&all[i].EventTypeRequest)
		if err != nil {
			t.log.Error("event type on record can't be used", "type", all[i].Type, "error", err)
			continue
		}
		s.templates[all[i].Type] = set
	}
	t.snap.Store(s)
	return nil
}

// templates finds the templates of an event's type. A type that the snapshot does not have is read
// from the record before it is refused as unknown, unless the event has its own alert and needs no
// type. A live event needs none either; it is read for it all the same, because a type that was made a moment
// ago says how urgent the event is, and what a start shows.
func (t *types) templates(ctx context.Context, e *api.EventRequest) (*render.TemplateSet, error) {
	if t.snap.Load() == nil {
		if err := t.load(ctx); err != nil {
			return nil, err
		}
	}
	if set := t.snap.Load().templates[e.Type]; set != nil {
		return set, nil
	}
	if e.Live != nil {
		return t.ofLive(ctx, e.Type)
	}
	if e.Alert != nil {
		return render.DefaultTemplateSet(), nil
	}
	return t.fromRecord(ctx, e.Type)
}

// liveTypeWithin is how long a live event waits for the record to tell its type.
const liveTypeWithin = 500 * time.Millisecond

// ofLive reads the type of a live event, which may not exist. While the record is away it is taken for one that does
// not, so that live events are accepted without SQL.
func (t *types) ofLive(ctx context.Context, name string) (*render.TemplateSet, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTypeWithin)
	defer cancel()
	set, err := t.fromRecord(ctx, name)
	if code := api.CodeOf(err); code == api.CodeUnknownEventType || api.Passing(err) {
		return render.LiveTemplateSet(), nil
	}
	return set, err
}

// fromRecord reads one type, which another process may have made a moment ago.
func (t *types) fromRecord(ctx context.Context, name string) (*render.TemplateSet, error) {
	found, err := t.rec.EventType(ctx, name)
	if api.CodeOf(err) == api.CodeNotFound {
		refused := api.Errorf(api.CodeUnknownEventType, "there is no event type %q, and the event brings no alert of its own", name)
		refused.Fields = []api.FieldError{{Field: "type", Rule: "exists", Message: "is no event type"}}
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	return render.NewTemplateSet(&found.EventTypeRequest)
}

// PutEventType checks and stores an event type, if the condition holds; created reports whether it is
// new. Other processes know it within a second.
func (s *Store) PutEventType(ctx context.Context, name string, r *api.EventTypeRequest, m api.Match) (t *api.EventType, created bool, err error) {
	if _, err := render.NewTemplateSet(r); err != nil {
		return nil, false, err
	}
	t, created, err = s.o.Record.PutEventType(ctx, name, r, m)
	if err != nil {
		return nil, false, err
	}
	s.loadTypes(ctx)
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

// DeleteEventType deletes an event type, if the condition holds. Events that were accepted before are not changed.
func (s *Store) DeleteEventType(ctx context.Context, name string, m api.Match) error {
	if err := s.o.Record.DeleteEventType(ctx, name, m); err != nil {
		return err
	}
	s.loadTypes(ctx)
	return nil
}

// loadTypes makes a change effective in this process at once; if that fails, the next load
// of Run does.
func (s *Store) loadTypes(ctx context.Context) {
	if err := s.types.load(ctx); err != nil {
		s.o.Logger.Debug("event types are not fresh", "error", err)
	}
}

// Knows reports whether an event type is registered. The view of this process is at most Options.Poll
// old. Before the types could be read for the first time, it returns true.
func (s *Store) Knows(ctx context.Context, name string) bool {
	if s.types.snap.Load() == nil {
		if err := s.types.load(ctx); err != nil {
			return true
		}
	}
	return s.types.snap.Load().templates[name] != nil
}
