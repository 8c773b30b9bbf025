package facts

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/record"
)

const (
	// pollEvery is how often a process looks which types are on, at the latest.
	pollEvery = time.Second
	// inDoubt is after how long a process that cannot read them writes facts of all types.
	inDoubt = 3 * time.Second
	// Known is after how long all processes write facts of a type that is turned on: they have read it by then, or are in
	// doubt. The rest is for the time that a step takes which has asked before.
	Known = inDoubt + 2*time.Second
)

// Switch says of which types facts are written. It may be used from any goroutine.
type Switch struct {
	record *record.DB
	log    *slog.Logger
	now    atomic.Pointer[switched]
}

// switched are the types that are on, as they were read.
type switched struct {
	types   []string
	version int64
	at      time.Time
}

// NewSwitch makes a switch. Until Load or Run has read which types are on, all are.
func NewSwitch(db *record.DB, log *slog.Logger) *Switch { return &Switch{record: db, log: log} }

// On reports whether facts of a type are to be written. It takes no trip, and in doubt it says yes.
func (w *Switch) On(typ string) bool {
	s := w.now.Load()
	return s == nil || slices.Contains(s.types, typ) || time.Since(s.at) >= inDoubt
}

// OfQueue says what the shards of a queue leave for the relay when jobs end (queue.Options.Tells).
func (w *Switch) OfQueue(name string) func() string {
	sends := name == "notifications"
	return func() (what string) {
		if w.On(api.FactDeadLetterCreated) || sends && w.On(api.FactNotificationFailed) {
			what = "l"
		}
		if (sends || name == "events") && w.On(api.FactEventDone) {
			what += "e"
		}
		return what
	}
}

// Run reads which types are on, again and again, until ctx ends.
func (w *Switch) Run(ctx context.Context) error {
	record.Follow(ctx, w.log, "types of facts", pollEvery, w.Load)
	return nil
}

// Load reads which types are on, if they have changed.
func (w *Switch) Load(ctx context.Context) error {
	at := time.Now()
	version, err := w.record.Version(ctx, record.VersionFacts)
	if err != nil {
		return err
	}
	next := switched{version: version, at: at}
	if old := w.now.Load(); old != nil && old.version == version {
		next.types = old.types
	} else if next.types, err = w.read(ctx); err != nil {
		return err
	}
	w.now.Store(&next)
	return nil
}

// read reads the types that somebody has turned on, and those of webhooks.
func (w *Switch) read(ctx context.Context) ([]string, error) {
	types, err := w.record.WebhookTypes(ctx)
	if err != nil {
		return nil, err
	}
	set, err := w.record.FactTypes(ctx)
	for _, t := range set {
		types = append(types, t.Type)
	}
	return types, err
}

// Put makes these types, and no others, those of which facts are written. The answer says from when on none is missing.
func (w *Switch) Put(ctx context.Context, types []string) (*api.FactTypesSet, error) {
	set, err := w.record.PutFactTypes(ctx, types, Known.Milliseconds())
	if err != nil {
		return nil, err
	}
	return toldSet(set), nil
}

// Get tells of which types facts are written.
func (w *Switch) Get(ctx context.Context) (*api.FactTypesSet, error) {
	set, err := w.record.FactTypes(ctx)
	if err != nil {
		return nil, err
	}
	return toldSet(set), nil
}

// toldSet is how the types are shown.
func toldSet(set []record.FactType) *api.FactTypesSet {
	out := &api.FactTypesSet{Types: []string{}}
	since := int64(0)
	for _, t := range set {
		out.Types, since = append(out.Types, t.Type), max(since, t.Since)
	}
	if since > 0 {
		out.Since = new(api.AtMillis(since))
	}
	return out
}
