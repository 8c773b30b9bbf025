package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// The states of a dependency in readyz.
const (
	stateOK       = "ok"
	stateDown     = "down"
	stateDegraded = "degraded"
)

// readyTimeout bounds each check of a dependency.
const readyTimeout = time.Second

// readyFresh is the greatest age of the states that /readyz reports. Within that time the
// dependencies are checked only once, however many probes there are.
const readyFresh = time.Second

// reading has the states of the dependencies, which all replies share.
type reading struct {
	dependencies []api.Dependency
	unserved     []string
}

// ready reports the state of this process. Without Redis, or while it starts or stops, it can
// accept nothing and is not ready. Without SQL it still accepts and sends from its caches.
// With a Redis that refuses changes it still answers reads. Without one master of a Cluster it works
// with the others, and a paused app or an unserved shard does not stop the rest. The reply names these, but the process stays ready, so that a
// load balancer does not cut off what still works.
func (a *app) ready(ctx context.Context) api.Readiness {
	now := a.readings.Get(ctx)
	r := api.Readiness{
		Ready:        now.dependencies[0].State != stateDown && a.starting.Load() == nil && !a.stopping.Load(),
		Dependencies: now.dependencies,
		Notes:        append(a.notes(false), now.unserved...),
	}
	if why := a.starting.Load(); why != nil {
		r.Notes = append(r.Notes, "this process is starting: "+*why)
	}
	if a.stopping.Load() {
		r.Notes = append(r.Notes, "this process is stopping")
	}
	return r
}

// ask asks every dependency at once; Redis comes first in the result.
func (a *app) ask(ctx context.Context) reading {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var redis, index, sql, workers api.Dependency
	var senders []api.Dependency
	var unserved []string
	var asked sync.WaitGroup
	asked.Go(func() { redis = ping(ctx, "redis", a.redis.Ping) })
	if a.contactsRedis != a.redis {
		asked.Go(func() { index = ping(ctx, "contacts_redis", a.contactsRedis.Ping) })
	}
	asked.Go(func() { sql = ping(ctx, "sql", a.record.Ping) })
	asked.Go(func() { senders = a.readySenders(ctx) })
	asked.Go(func() { workers, unserved = a.readyWorkers(ctx) })
	asked.Wait()
	if redis.State == stateOK {
		if err := a.redis.Overloaded(); err != nil {
			redis.State, redis.Detail = stateDegraded, "nearly full: nothing is accepted"
		}
	}
	dependencies := slices.Concat([]api.Dependency{redis, sql}, senders, []api.Dependency{workers})
	if index.Name != "" {
		dependencies = append(dependencies, index)
	}
	return reading{dependencies, unserved}
}

// ping checks that a store answers.
func ping(ctx context.Context, name string, ask func(context.Context) (time.Duration, error)) api.Dependency {
	took, err := ask(ctx)
	d := api.Dependency{Name: name, State: stateOK, LatencyMS: milliseconds(took)}
	if err != nil {
		d.State, d.Detail = stateDown, string(api.CodeOf(err))
	}
	for _, partly := range []error{redisdb.ErrPartlyAway, redisdb.ErrReadOnly, record.ErrReadOnly} {
		if errors.Is(err, partly) {
			d.State, d.Detail = stateDegraded, partly.Error()
		}
	}
	return d
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// readySenders names, for APNs and for each other platform with apps, the apps that are paused or can't be
// reached.
func (a *app) readySenders(ctx context.Context) []api.Dependency {
	began := time.Now()
	trouble := map[api.Platform]map[string]bool{api.PlatformAPNs: {}}
	note := func(app, text string) {
		p := transport.PlatformOfApp(app)
		if trouble[p] == nil {
			trouble[p] = map[string]bool{}
		}
		if text != "" {
			trouble[p][text] = true
		}
	}
	for app, failure := range a.sender.Apps() {
		text := ""
		if failure != nil {
			text = app + " can't be reached"
		}
		note(app, text)
	}
	paused, err := a.apps.Apps(ctx)
	if err == nil {
		for name, app := range paused {
			note(name, fmt.Sprintf("%s is %s: %s", name, app.State, app.Reason))
		}
	}
	var out []api.Dependency
	for _, p := range slices.Sorted(maps.Keys(trouble)) {
		d := api.Dependency{Name: string(p), State: stateOK, LatencyMS: milliseconds(time.Since(began))}
		if len(trouble[p]) > 0 {
			d.State, d.Detail = stateDegraded, strings.Join(slices.Sorted(maps.Keys(trouble[p])), "; ")
		}
		out = append(out, d)
	}
	return out
}

// readyWorkers names the shards that no process serves.
func (a *app) readyWorkers(ctx context.Context) (api.Dependency, []string) {
	began := time.Now()
	d := api.Dependency{Name: "workers", State: stateOK}
	var notes []string
	for _, q := range a.queues() {
		stats, err := q.Stats(ctx)
		if err != nil {
			d.State, d.Detail = stateDown, string(api.CodeOf(err))
			break
		}
		if len(stats.Unserved) > 0 {
			d.State, d.Detail = stateDegraded, "some shards are served by nobody"
			notes = append(notes, fmt.Sprintf("nobody serves these shards of %s: %v", stats.Name, stats.Unserved))
		}
	}
	d.LatencyMS = milliseconds(time.Since(began))
	return d, notes
}

// notes are remarks for operators that are not faults. Callers without a key do not learn where files are.
func (a *app) notes(toOperator bool) []string {
	var notes []string
	if a.config.embedded() {
		notes = append(notes, a.embeddedNote(toOperator))
	}
	if a.record.Embedded() && toOperator {
		notes = append(notes, "the database is a file: "+a.config.DatabaseURL)
	} else if a.record.Embedded() {
		notes = append(notes, "the database is a file")
	}
	if !a.config.sends() {
		notes = append(notes, "no APNs credentials: notifications are only logged (log sender)")
	}
	if a.trialApps != "" {
		notes = append(notes, "browsers can be tried out at /docs/webpush/: the topic "+trialTopic+" has a key of its own, and its notifications are sent")
	}
	if a.config.showsProfiles() {
		notes = append(notes, metricsVariable+" is not loopback: whoever reaches it may profile this process, without a key")
	}
	return notes
}
