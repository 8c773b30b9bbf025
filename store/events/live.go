package events

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
)

// The live events of an object are in one order, their places. live_begin.lua says how they begin, and which of them never do.

// livePatience is how long an event waits for the event that began before it.
const livePatience = 30 * time.Second

// Statuses of live_begin.lua.
const (
	liveBegun      = 1
	liveSuperseded = 2
	liveWaits      = 3
)

// Live is what a job says of a live event.
type Live struct {
	Action api.LiveAction `json:"action"`
	// AttributesType is that of the start tokens to which a start goes.
	AttributesType string `json:"attributes_type,omitempty"`
	// Lane names the updates and ends of the object that reach the same phones; "": a start.
	Lane string `json:"lane,omitempty"`
	// Place orders the live events of an object: the time in us at which they were accepted or are due, a little later if
	// two would have the same.
	Place int64 `json:"place"`
	// Stamp is the timestamp in Unix seconds; 0: the event has not begun.
	Stamp int64 `json:"stamp,omitempty"`
}

// Superseding names the place of a live event among those of its object. A newer update or end of its lane ends an update,
// and a newer end ends a start, which has no lane.
type Superseding struct {
	Object, Lane string
	Place        int64
}

// Supersedable is the place of an event that newer ones of its object end; the zero value if none does.
func (j *Job) Supersedable() (s Superseding) {
	if j.Live != nil && j.Live.Action != api.LiveEnd {
		s = Superseding{Object: j.Object, Lane: j.Live.Lane, Place: j.Live.Place}
	}
	return s
}

// stamp gives the event its timestamp.
func (j *Job) stamp(second int64) {
	j.Live.Stamp = second
	j.Push.Stamp(second)
}

// liveOf is what a job says of a live event; nil for any other. Its place comes later.
func liveOf(e *api.EventRequest, to *Audience, topics []string) *Live {
	if e.Live == nil {
		return nil
	}
	l := &Live{Action: e.Live.Action, AttributesType: e.Live.AttributesType}
	if l.Action != api.LiveStart {
		l.Lane = laneOf(to.Kind(), topics)
	}
	return l
}

// laneOf names the phones that an event of an object reaches: those that show it through a channel, or the activities of
// apps with these topics, however they are written: in any order, more than once, with or without the end that APNs asks for (P3).
func laneOf(kind string, topics []string) string {
	if kind == KindBroadcast || len(topics) == 0 {
		return kind
	}
	apps := make([]string, len(topics))
	for i, t := range topics {
		apps[i] = api.LiveBundle(t)
	}
	slices.Sort(apps)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(apps), " ")))
	return kind + " " + base64.RawURLEncoding.EncodeToString(sum[:9])
}

// liveTTL is how long it is kept what the events of an object have come to: as long as one of them may wait.
func (s *Store) liveTTL() time.Duration { return s.o.MaxAge + deadLetters }

// isLive reports whether one of the jobs is a live event.
func isLive(jobs []queue.Job) bool {
	return slices.ContainsFunc(jobs, func(j queue.Job) bool { return j.Value.(*Job).Live != nil })
}

// order gives those of the jobs that are live events their places, in one pipeline.
func (s *Store) order(ctx context.Context, jobs []queue.Job) error {
	var cmds []redis.Cmder
	var of []int
	for i := range jobs {
		if j := jobs[i].Value.(*Job); j.Live != nil {
			cmds = append(cmds, s.liveOrder.Cmd(ctx, []string{keyLive(j.Object)}, s.liveTTL().Milliseconds(), j.SendAt))
			of = append(of, i)
		}
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Read, cmds...); err != nil { // an unused place does no harm
		return fmt.Errorf("order live events: %w", err)
	}
	for n, i := range of {
		reply, err := redisdb.ListOf(cmds[n])
		if err != nil {
			return err
		}
		j := jobs[i].Value.(*Job)
		if j.Live.Place, err = strconv.ParseInt(redisdb.TextAt(reply, 1), 10, 64); err != nil {
			return fmt.Errorf("order live events: %w", err)
		}
		jobs[i].Payload = j.Encode()
	}
	return nil
}

// Begun says whether a live event has begun.
type Begun struct {
	// Superseded says that it never will, because a newer event of its object goes before it.
	Superseded bool
	// Wait is how long to wait before the next try; 0: it has begun, or is superseded.
	Wait time.Duration
}

// BeginLive begins a live event and sets its timestamp, in one round trip, or three if an event of the object has begun
// lately. The caller must put the job on record before it sends anything: an event that begins again may get another
// timestamp. It does nothing for an event that has one.
func (s *Store) BeginLive(ctx context.Context, id string, j *Job) (Begun, error) {
	if j.Live.Stamp > 0 {
		return Begun{}, nil
	}
	b, before, err := s.beginLive(ctx, id, j, "")
	if err != nil || before == "" {
		return b, err
	}
	// If the earlier event cannot be read, because its master is away, this event waits as if it were not over.
	if over, err := s.over(ctx, before); err != nil || !over {
		return b, nil
	}
	b, _, err = s.beginLive(ctx, id, j, before)
	return b, err
}

// beginLive makes one try. over is an event of the object that is known to be over, and before one that the event waits for.
func (s *Store) beginLive(ctx context.Context, id string, j *Job, over string) (b Begun, before string, err error) {
	l := j.Live
	cmd := s.liveBegin.Cmd(ctx, []string{keyLive(j.Object)}, id, l.Place, string(l.Action), l.Lane, s.liveTTL().Milliseconds(), s.o.MaxAge.Milliseconds(),
		livePatience.Milliseconds(), over)
	reply, err := s.o.DB.List(ctx, redisdb.Write, cmd)
	if err != nil {
		return b, "", fmt.Errorf("begin a live event: %w", err)
	}
	switch redisdb.NumberAt(reply, 0) {
	case liveBegun:
		j.stamp(redisdb.NumberAt(reply, 1))
	case liveSuperseded:
		b.Superseded = true
	case liveWaits:
		b.Wait = time.Duration(redisdb.NumberAt(reply, 1)) * time.Millisecond
		before = redisdb.TextAt(reply, 2)
	default:
		err = fmt.Errorf("begin a live event: answered %v", reply)
	}
	return b, before, err
}

// over reports whether nothing of an event, or of its parts, is being targeted or sent for the first time any more, nor waits
// for that. Notifications that wait for a further try may be left.
func (s *Store) over(ctx context.Context, id string) (bool, error) {
	w, err := s.whole(ctx, id)
	if api.CodeOf(err) == api.CodeNotFound {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	e := &w.event
	if e.cancelled != queue.NotCancelled || e.state == stateDone || e.state == stateExpired || e.state == stateSuperseded {
		return true, nil
	}
	return e.state == stateTargeted && w.triedAll(), nil
}

// triedAll reports whether each notification that was made has ended or waits for a further try.
func (w *whole) triedAll() bool {
	r := w.report()
	return notEnded(&r.PlatformCounts) == r.Retrying
}

// Superseded reports whether a newer event of the object has begun that ends this one.
func (s *Store) Superseded(ctx context.Context, of Superseding) (bool, error) {
	field := "begun " + of.Lane
	if of.Lane == "" {
		field = "ended"
	}
	begun, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, redis.NewStringCmd(ctx, "hget", keyLive(of.Object), field))
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the live events of an object: %w", err)
	}
	place, err := strconv.ParseInt(begun, 10, 64)
	return of.Place < place, err
}
