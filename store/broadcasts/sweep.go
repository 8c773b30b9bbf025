package broadcasts

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"fanfare/api"
)

const (
	// atOnce is how many broadcasts are read at once.
	atOnce = 100
	// compareEvery is how often a process compares, and compareAgain when it does after it could not.
	compareEvery = 24 * time.Hour
	compareAgain = 5 * time.Minute
	// underWay is how long a channel that was asked for may still come.
	underWay = 2 * time.Minute
)

// Sweep deletes the channels of broadcasts that were deleted or have ended, until ctx ends. Any number of processes may
// do so at once.
func (s *Store) Sweep(ctx context.Context) error {
	failing := false
	for {
		if !pause(ctx, s.o.SweepEvery/2+rand.N(s.o.SweepEvery/2)) {
			return nil
		}
		err := s.sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			s.o.Logger.WarnContext(ctx, "the channel of a broadcast is not deleted yet; it is tried again", "error", err)
		case err == nil && failing:
			s.o.Logger.InfoContext(ctx, "channels of broadcasts are deleted again")
		}
		failing = err != nil
	}
}

// pause waits, and returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sweep ends what is due, and returns the first error. A broadcast that cannot be ended does not hold up others. One whose
// host is away holds up those of its app, until the next sweep.
func (s *Store) sweep(ctx context.Context) (first error) {
	away := map[appOf]bool{}
	for after := ""; ; {
		due, err := s.o.Record.BroadcastsToClose(ctx, s.o.Grace, after, atOnce)
		if err != nil || len(due) == 0 {
			return cmp.Or(first, err)
		}
		after = due[len(due)-1].Object
		rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
		for i := range due {
			app := appOf{due[i].Topic, api.Environment(due[i].Environment)}
			if away[app] {
				continue
			}
			err := s.end(ctx, due[i].Object)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			first, away[app] = cmp.Or(first, err), api.Passing(err)
		}
	}
}

// Compare counts, until ctx ends, the channels of each app that are not on record: soon after the process learns of the
// app's first broadcast, and then once a day.
func (s *Store) Compare(ctx context.Context) error {
	due := map[appOf]time.Time{}
	for wait := rand.N(s.o.CompareSoon); pause(ctx, wait); wait = s.o.CompareSoon/2 + rand.N(s.o.CompareSoon/2) {
		for _, app := range s.apps() {
			if _, known := due[app]; !known {
				due[app] = time.Now()
			}
		}
		for app, at := range due {
			if time.Now().Before(at) || ctx.Err() != nil {
				continue
			}
			switch whole, err := s.compare(ctx, app); {
			case ctx.Err() != nil:
			case err != nil:
				s.o.Logger.WarnContext(ctx, "channels were not compared with the record; it is tried again", "app", app.name(), "error", err)
				due[app] = time.Now().Add(compareAgain)
			case whole:
				due[app] = time.Now().Add(compareEvery - rand.N(time.Hour))
			}
		}
	}
	return nil
}

// appOf is an app whose channels are compared.
type appOf struct {
	topic       string
	environment api.Environment
}

func (a appOf) name() string { return a.topic + "/" + string(a.environment) }

// apps lists the apps of the broadcasts that this process knows.
func (s *Store) apps() (all []appOf) {
	if known := s.snap.Load(); known != nil {
		seen := map[appOf]bool{}
		for _, b := range known.all {
			app := appOf{b.Topic, b.Environment}
			if !seen[app] {
				seen[app] = true
				all = append(all, app)
			}
		}
	}
	return all
}

// compare counts an app's channels that are not on record. A channel counts if it was there before the record was read
// and after it: then it is not one that is being made or deleted. whole is false, and nothing is counted, while a channel
// may be under way.
func (s *Store) compare(ctx context.Context, app appOf) (whole bool, err error) {
	before, err := s.list(ctx, app)
	if err != nil {
		return false, err
	}
	rows, now, err := s.o.Record.BroadcastsOf(ctx, app.topic, app.environment)
	if err != nil {
		return false, err
	}
	for i := range rows {
		b := &rows[i]
		if b.State == string(api.BroadcastMaking) && now.Sub(time.UnixMilli(b.AskedAt)) < underWay {
			return false, nil
		}
		delete(before, b.Channel)
	}
	if len(before) > 0 {
		after, err := s.list(ctx, app)
		if err != nil {
			return false, err
		}
		for channel := range before {
			if !after[channel] {
				delete(before, channel)
			}
		}
	}
	s.told(ctx, app, before)
	return true, nil
}

// list reads the channels of an app.
func (s *Store) list(ctx context.Context, app appOf) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, manageWithin)
	defer cancel()
	names, err := s.o.Channels.ListChannels(ctx, app.topic, app.environment)
	s.managed("list", err)
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out, err
}

// told tells of the channels that nobody knows, a few of them by name.
func (s *Store) told(ctx context.Context, app appOf, unknown map[string]bool) {
	s.o.OnCompared(app.name(), len(unknown))
	if len(unknown) == 0 {
		return
	}
	var some []string
	for channel := range unknown {
		if some = append(some, channel); len(some) == 10 {
			break
		}
	}
	s.o.Logger.WarnContext(ctx, "APNs has channels that nobody knows", "app", app.name(), "count", len(unknown), "channels", some)
}
