package events

import (
	"context"

	"fanfare/api"
	"fanfare/store/queue"
)

// Report says how far an event has come, with counts that are true after any
// redoing: the event's own record first, then the counters of all notification
// shards in one pipeline. Read in this order, an event whose targeting was over
// shows every notification that it made. Unknown or past its retention:
// not_found.
func (s *Store) Report(ctx context.Context, id string) (*api.EventReport, error) {
	shard, _, ok := queue.ParseID(id)
	if !ok || shard >= s.o.Queue.Shards() {
		return nil, notFound(id)
	}
	event, facts, err := s.o.Queue.Group(ctx, shard, id)
	if err != nil {
		return nil, err
	}
	if len(event) == 0 && len(facts) == 0 {
		return nil, notFound(id)
	}
	sent, err := s.o.Notifications.Groups(ctx, id)
	if err != nil {
		return nil, err
	}
	return report(id, facts[factType], event, sent), nil
}

func notFound(id string) error {
	return api.Errorf(api.CodeNotFound, "there is no event %q, or its report is no longer kept", id)
}

// report puts the two records together.
func report(id, typ string, event, sent map[string]int64) *api.EventReport {
	r := &api.EventReport{
		ID: id, Type: typ, Recipients: event[CountRecipients],
		Notifications: sent[CountCreated],
		Delivered:     sent[LabelDelivered], Failed: sent[LabelFailed], Expired: sent[LabelExpired],
		Suppressed: api.SuppressedCounts{
			IsActor: event[CountIsActor], OptedOut: event[CountOptedOut], Muted: event[CountMuted],
			NoDevice: event[CountNoDevice], Live: event[CountLive],
		},
	}
	ended := r.Delivered + r.Failed + r.Expired
	r.Retrying = max(0, min(sent[CountRetrying], r.Notifications-ended))
	r.State = stateOf(event, r.Notifications == ended)
	return r
}

func stateOf(event map[string]int64, allEnded bool) api.EventState {
	switch {
	case event[LabelExpired] > 0:
		return api.EventExpired
	case event[LabelTargeted] > 0 && allEnded:
		return api.EventDone
	case event[LabelTargeted] > 0:
		return api.EventSending
	case event[CountRecipients] > 0:
		return api.EventTargeting
	}
	return api.EventQueued
}
