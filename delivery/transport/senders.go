package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fanfare/api"
)

// Senders combines several senders, by platform. A notification goes to the sender of its platform. If
// there is none, the answer is NoApp.
type Senders map[api.Platform]Sender

var _ Sender = Senders(nil)

// Ender is a Sender that knows when credentials of its apps end, by app.
type Ender interface{ Ends() map[string]time.Time }

// Ends implements Ender: the ends of all.
func (s Senders) Ends() map[string]time.Time {
	all := map[string]time.Time{}
	for _, sender := range s {
		if e, ok := sender.(Ender); ok {
			maps.Copy(all, e.Ends())
		}
	}
	return all
}

// Start implements Sender.
func (s Senders) Start(ctx context.Context, n *Notification, done func(Answer)) {
	if sender, ok := s[n.Platform]; ok {
		sender.Start(ctx, n, done)
		return
	}
	done(Answer{Outcome: NoApp, Err: fmt.Errorf("no sender for the platform %q", n.Platform)})
}

// Takes implements Sender: it asks the sender of the device's platform.
func (s Senders) Takes(r *api.DeviceRequest) bool {
	sender, ok := s[api.Platform(r.Platform)]
	return ok && sender.Takes(r)
}

// Apps implements Sender: the apps of all.
func (s Senders) Apps() map[string]error {
	all := map[string]error{}
	for _, sender := range s {
		maps.Copy(all, sender.Apps())
	}
	return all
}

// Reasons implements Sender: the reasons of all, each once.
func (s Senders) Reasons() []string {
	var all []string
	for _, sender := range s {
		all = append(all, sender.Reasons()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Prepare implements Sender: each sender gets the apps of its platform. The senders take their new
// configurations over only if all are valid.
func (s Senders) Prepare(apps []AppEntry) (take func(), err error) {
	var errs []error
	of := map[api.Platform][]AppEntry{}
	for i := range apps {
		p := apps[i].Platform
		if of[p] = append(of[p], apps[i]); s[p] == nil {
			errs = append(errs, apps[i].Wrong(fmt.Errorf("platform: there is no sender for %q, only for %v", p, s.platforms())))
		}
	}
	var takes []func()
	for _, p := range s.platforms() {
		take, err := s[p].Prepare(of[p])
		takes, errs = append(takes, take), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func() {
		for _, take := range takes {
			take()
		}
	}, nil
}

// Close implements Sender.
func (s Senders) Close() error {
	var errs []error
	for _, p := range s.platforms() {
		if err := s[p].Close(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// platforms lists the senders' platforms, always in the same order.
func (s Senders) platforms() []api.Platform { return slices.Sorted(maps.Keys(s)) }
