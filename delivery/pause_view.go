package delivery

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"fanfare/store/apps"
)

const (
	// pausesFresh is how old this process's view of the paused apps may be when
	// a notification asks for it.
	pausesFresh = time.Second
	// pausesRetry is how soon after a failed reading the next is tried.
	pausesRetry = 200 * time.Millisecond
)

// pauses is this process's view of the paused apps. It reads Redis at most once a second, and only
// while there is something to send.
type pauses struct {
	store *apps.Store
	log   *slog.Logger
	// onChange receives the changes in their order; it must not call the view.
	onChange func(app string, was, is apps.State)

	reading sync.Mutex // one reading at a time
	mu      sync.RWMutex
	apps    map[string]apps.App
	until   time.Time // no reading is needed before then
	readAt  time.Time // when the view was read last; zero: never
	begun   uint64    // number of readings begun
	own     map[string]*ownChange
}

// ownChange is a change of an app by this process. A reading that began before the change was written
// may not show it.
type ownChange struct {
	writing int    // writes of changes that have not ended
	begun   uint64 // readings that had begun when the last write ended
}

func newPauses(s *apps.Store, log *slog.Logger, onChange func(app string, was, is apps.State)) *pauses {
	return &pauses{store: s, log: log, onChange: onChange, apps: map[string]apps.App{}, own: map[string]*ownChange{}}
}

// app returns the state of an app, at most a second old while Redis answers.
func (p *pauses) app(ctx context.Context, name string) apps.App {
	p.mu.RLock()
	a, fresh, known := p.apps[name], time.Now().Before(p.until), !p.readAt.IsZero()
	p.mu.RUnlock()
	if fresh {
		return a
	}
	if !known {
		p.reading.Lock()
	} else if !p.reading.TryLock() {
		return a // another goroutine is reading; the last view will do
	}
	p.read(ctx)
	p.reading.Unlock()
	return p.last(name)
}

// last is the last known state.
func (p *pauses) last(name string) apps.App {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.apps[name]
}

// somePaused reports whether an app is paused, as far as this process knows.
func (p *pauses) somePaused() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, a := range p.apps {
		if a.State == apps.Paused {
			return true
		}
	}
	return false
}

// runs reports whether an app is known not to be paused. It is false while Redis
// can't be asked.
func (p *pauses) runs(ctx context.Context, name string) bool {
	if running, fresh := p.running(name); fresh {
		return running
	}
	p.refresh(ctx)
	running, fresh := p.running(name)
	return running && fresh
}

// running reports whether the view has the app running, and whether the view was read recently.
func (p *pauses) running(name string) (running, fresh bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.apps[name].State != apps.Paused, time.Since(p.readAt) < pausesFresh
}

// refresh reads now and returns every app that is paused or resuming.
func (p *pauses) refresh(ctx context.Context) map[string]apps.App {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.read(ctx)
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.apps
}

// read replaces the view; a failure keeps the old one for a moment. The caller
// holds reading.
func (p *pauses) read(ctx context.Context) {
	p.mu.Lock()
	p.begun++
	p.mu.Unlock()
	all, err := p.store.Apps(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.until = time.Now().Add(pausesRetry)
		p.log.Debug("paused apps could not be read", "error", err)
		return
	}
	p.keepOwn(all)
	old := p.apps
	p.apps, p.readAt, p.until = all, time.Now(), time.Now().Add(pausesFresh)
	p.notify(old, all)
}

// keepOwn copies from the present view what this process changed while the newest reading was
// under way. The caller holds mu.
func (p *pauses) keepOwn(all map[string]apps.App) {
	for name, own := range p.own {
		if own.writing == 0 && own.begun < p.begun {
			delete(p.own, name)
			continue
		}
		all[name] = p.apps[name]
	}
}

// notify reports what changed between two views. The caller holds mu.
func (p *pauses) notify(old, all map[string]apps.App) {
	for name, a := range all {
		if old[name].State != a.State {
			p.onChange(name, old[name].State, a.State)
		}
	}
	for name, a := range old {
		if _, still := all[name]; !still {
			p.onChange(name, a.State, apps.Running)
		}
	}
}

// change changes one app in this process's view at once, and then calls write to tell the other
// processes. It returns what write returns.
func (p *pauses) change(name string, a apps.App, write func() (bool, error)) (bool, error) {
	p.mu.Lock()
	own := p.own[name]
	if own == nil {
		own = &ownChange{}
		p.own[name] = own
	}
	own.writing++
	next := maps.Clone(p.apps)
	next[name] = a
	p.notify(p.apps, next)
	p.apps = next
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		own.writing--
		own.begun = p.begun
	}()
	return write()
}
