package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fanfare/api"
)

// Senders combines several senders, by platform. A notification goes to the sender of its platform. If
// there is none, the answer is NoApp.
type Senders map[api.Platform]Sender

var (
	_ Sender  = Senders(nil)
	_ Starter = Senders(nil)
)

// Send implements Sender.
func (s Senders) Send(ctx context.Context, n *Notification) Answer {
	sender, ok := s[n.Platform]
	if !ok {
		return Answer{Outcome: NoApp, Err: fmt.Errorf("no sender for the platform %q", n.Platform)}
	}
	return sender.Send(ctx, n)
}

// Start implements Starter.
func (s Senders) Start(ctx context.Context, n *Notification, done func(Answer)) {
	if sender, ok := s[n.Platform]; ok {
		Start(ctx, sender, n, done)
		return
	}
	done(s.Send(ctx, n))
}

// Takes implements Sender: it asks the sender of the device's platform.
func (s Senders) Takes(r *api.DeviceRequest) bool {
	sender, ok := s[api.Platform(r.Platform)]
	return ok && sender.Takes(r)
}

// Apps implements Sender: the apps of all.
func (s Senders) Apps() []AppState {
	var all []AppState
	for _, sender := range s.inOrder() {
		all = append(all, sender.Apps()...)
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

// Reload implements Sender: each sender with a valid configuration takes it over, even if another
// sender fails.
func (s Senders) Reload() error { return s.each(Sender.Reload) }

// Close implements Sender.
func (s Senders) Close() error { return s.each(Sender.Close) }

// each calls do on every sender and joins the errors, each with its platform before it.
func (s Senders) each(do func(Sender) error) error {
	var errs []error
	for platform, sender := range s {
		if err := do(sender); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", platform, err))
		}
	}
	return errors.Join(errs...)
}

// inOrder lists the senders, always in the same order.
func (s Senders) inOrder() []Sender {
	platforms := make([]api.Platform, 0, len(s))
	for p := range s {
		platforms = append(platforms, p)
	}
	slices.Sort(platforms)
	senders := make([]Sender, len(platforms))
	for i, p := range platforms {
		senders[i] = s[p]
	}
	return senders
}
