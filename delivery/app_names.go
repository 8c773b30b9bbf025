package delivery

import (
	"sync"

	"fanfare/delivery/transport"
)

const (
	// maxAppNames is how many apps have a name of their own in what a process keeps
	// for each: clients choose topics, and so the apps.
	maxAppNames = 1000
	// otherApps is the name that all others share.
	otherApps = "other"
)

// appNames names apps for what is kept of each. First come, first named.
type appNames struct {
	mu    sync.Mutex
	named map[string]struct{}
}

// newAppNames begins with the apps that are configured, whatever clients send.
func newAppNames(configured []transport.AppState) *appNames {
	n := &appNames{named: map[string]struct{}{}}
	for _, a := range configured {
		n.of(a.App)
	}
	return n
}

// of is the app's name, its own or the shared one.
func (n *appNames) of(app string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.named[app]; ok {
		return app
	}
	if len(n.named) >= maxAppNames {
		return otherApps
	}
	n.named[app] = struct{}{}
	return app
}
