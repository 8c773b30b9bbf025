package events

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
)

// channelKeeps is how long a channel keeps an update at most ("Sending channel management requests to APNs").
const channelKeeps = 8 * time.Hour

// Broadcast is the broadcast that an event goes to, as it was when the event was accepted.
type Broadcast struct {
	Object      string          `json:"object"`
	Topic       string          `json:"topic"` // of the app's Live Activities
	Environment api.Environment `json:"environment"`
	Channel     string          `json:"channel"`
	Latest      bool            `json:"latest,omitempty"` // the channel keeps the latest update
}

// BroadcastOf is what an event has of a broadcast with a channel.
func BroadcastOf(b *api.Broadcast) *Broadcast {
	return &Broadcast{Object: b.Object, Topic: b.Topic + api.PushLiveActivity.TopicSuffix(), Environment: b.Environment, Channel: b.Channel,
		Latest: b.Keep == api.KeepLatest}
}

// audience is the audience of an event in its queue entry, with the pages of a large one.
func (s *Store) audience(ctx context.Context, a *api.Audience) (Audience, []string, error) {
	if a.Broadcast == "" {
		stored, pages := storedAudience(a)
		return stored, pages, nil
	}
	b, err := s.o.Broadcast(ctx, a.Broadcast)
	if err != nil {
		return Audience{}, nil, err
	}
	return Audience{Broadcast: a.Broadcast, Channel: BroadcastOf(b)}, nil, nil
}

// PushForBroadcast is the push as the channel of a broadcast gets it. A channel that keeps nothing takes no other
// expiration than 0 ("Sending broadcast push notification requests to APNs").
func (j *Job) PushForBroadcast(b *Broadcast) *render.Push {
	push := j.Push
	most := time.UnixMilli(j.AcceptedAt).Add(channelKeeps).Unix()
	switch {
	case !b.Latest:
		push.Expiration = new(int64)
	case push.Expiration == nil || *push.Expiration > most:
		push.Expiration = &most
	}
	return &push
}
