package events

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
)

// An event is cancelled in three steps. A mark beside its report, in the event's shard, says that it is being
// cancelled; a script sets it only while the event is not over. Then the event's id goes into a set that has a
// stream beside each shard of both queues: whoever works on an event or on a notification knows the stream
// beside its shard, as it was at most a second ago. At last the mark says that the event is in all streams. If a
// step fails, the caller gets an error, and another call takes this step and those behind it.

const (
	// maxCancelled is how many events may be cancelled within the time that they are kept in the set, and
	// maxCancelEntries how many entries they may have in all streams, of some 50 bytes.
	maxCancelled, maxCancelEntries = 100_000, 1_600_000
	// cancelAgain is how old an entry is that a repeated call writes again: a master that failed over may have lost
	// it with its last second.
	cancelAgain = 10 * time.Second
)

// overLetters are the states of events that are over by their own report.
var overLetters = string([]byte{stateDone, stateExpired, stateSuperseded})

// Place is a shard of one of the two queues, beside which there is a stream of the cancelled events.
type Place int

// PlaceOfEvents is the place of a shard of the queue of events.
func (s *Store) PlaceOfEvents(shard int) Place { return Place(shard) }

// PlaceOfNotifications is the place of a shard of the queue of notifications.
func (s *Store) PlaceOfNotifications(shard int) Place { return Place(s.o.Queue.Shards() + shard) }

// Cancel cancels an event: once it has returned, and a second has passed, nothing of the event is targeted
// or sent any more. It returns the report so far. Notifications that were made and not sent count as
// cancelled, each when its turn to be sent has come. made says that this call took the last step of the cancel, also beside the
// error of reading the report afterwards.
//
// While a master is away the call fails, and the cancel holds only for the shards of some other masters. A second
// call completes it, and writes again what a master may have lost. The error is too_late if the event is over, and
// not_found if it is unknown or its report is no longer kept.
func (s *Store) Cancel(ctx context.Context, id string) (r *api.EventReport, made bool, err error) {
	w, err := s.whole(ctx, id)
	if err != nil {
		return nil, false, err
	}
	if w.event.cancelled == queue.CancelledEverywhere && s.cancelled.addedSince(id, s.o.Now().Add(-cancelAgain)) {
		r, err = s.reportOf(ctx, w)
		return r, false, err
	}
	if made, err = s.cancel(ctx, w); err != nil {
		return nil, false, err
	}
	r, err = s.Report(ctx, id)
	return r, made, api.AfterAChange(err)
}

// cancel takes the steps of a cancel that were not taken before. If the event's last notification is ending at this
// moment, it may be cancelled although none is left.
func (s *Store) cancel(ctx context.Context, w *whole) (made bool, err error) {
	shard, _ := queue.ParseID(w.id)
	oldest := s.o.Now().Add(-s.cancelled.keep)
	if w.event.cancelled == queue.NotCancelled {
		if state := w.report().State; state == api.EventDone || state == api.EventExpired || state == api.EventSuperseded {
			return false, tooLate(w.id)
		}
		if err := s.cancelled.reload(ctx, int(s.PlaceOfEvents(shard))); err != nil {
			return false, err
		}
		if s.cancelled.size(oldest) >= min(maxCancelled, maxCancelEntries/len(s.cancelled.streams)) {
			return false, api.Errorf(api.CodeOverloaded, "too many events were cancelled")
		}
		if _, err := s.mark(ctx, shard, w.id, queue.CancelBegun); err != nil {
			return false, err
		}
	}
	if err := s.cancelled.add(ctx, oldest, w.id); err != nil {
		return false, api.AfterAChange(err)
	}
	made, err = s.mark(ctx, shard, w.id, queue.CancelledEverywhere)
	return made, api.AfterAChange(err)
}

// mark sets the mark of an event, unless the event is over and has none. made reports whether it was not set before.
func (s *Store) mark(ctx context.Context, shard int, id string, m queue.CancelMark) (made bool, err error) {
	switch is, err := s.o.Queue.MarkCancelled(ctx, shard, id, overLetters, m); {
	case err != nil:
		return false, err
	case is == queue.CancelUnknown:
		return false, notFound(id)
	case is == queue.CancelTooLate:
		return false, tooLate(id)
	default:
		return is == queue.CancelMarked, nil
	}
}

func tooLate(id string) error { return api.Errorf(api.CodeTooLate, "event %s is over", id) }

// Cancelled reports whether an event was cancelled. at is the place that the work on it came from. fresh says that this
// is known: this process read the stream beside the place at most a second ago.
func (s *Store) Cancelled(at Place, event string) (is, fresh bool) {
	return s.cancelled.has(int(at), event)
}

// RefreshCancelled reads which events were cancelled since the last reading of the stream beside a place. It does
// nothing if that was less than half a second ago or has just failed.
func (s *Store) RefreshCancelled(ctx context.Context, at Place) { s.cancelled.refresh(ctx, int(at)) }

// Young reports whether this process accepted the event less than a second ago, by its own clock, so that no cancel
// of it can be that old. Nobody needs to know then whether it is cancelled. The id of its entry does not tell its
// age: after a fail-over to a master whose clock is behind, ids are ahead of the time.
func (j *Job) Young() bool { return time.Since(j.here) < setFresh }
