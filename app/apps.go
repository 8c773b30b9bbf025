package app

import (
	"context"
	"maps"
	"slices"
	"strings"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
)

// listApps lists, by name, the apps that this process sends to, and those that are paused or have
// notifications waiting.
func (a *app) listApps(ctx context.Context) ([]api.App, error) {
	states, err := a.apps.Apps(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := a.notificationQueue.ParkedCounts(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(a.sender.Apps()))
	names = slices.AppendSeq(slices.AppendSeq(names, maps.Keys(states)), maps.Keys(waiting))
	slices.Sort(names)
	var list []api.App
	for _, name := range slices.Compact(names) {
		list = append(list, describeApp(name, states[name], waiting[name]))
	}
	return list, nil
}

// describeApp describes an app by its name, see transport.AppOf.
func describeApp(name string, is apps.App, waiting int64) api.App {
	topic, place, _ := strings.Cut(name, "/")
	out := api.App{App: name, Topic: topic, Platform: transport.PlatformOfApp(name), State: api.AppRunning, Waiting: waiting}
	if out.Platform == api.PlatformAPNs {
		out.Environment = api.Environment(place)
	}
	if is.State != apps.Running {
		out.State, out.Reason, out.Since = api.AppState(is.State), is.Reason, new(api.At(is.Since))
	}
	return out
}
