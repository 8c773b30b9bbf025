package events

import (
	"time"

	"fanfare/api"
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

// ChannelExpiration is the expiration, in Unix seconds, that a channel takes now for a push with this one. latest says that the
// channel keeps the latest update. Another one takes none but 0 ("Sending broadcast push notification requests to APNs").
func ChannelExpiration(of *int64, latest bool, now time.Time) *int64 {
	most := now.Add(channelKeeps).Unix()
	switch {
	case !latest:
		return new(int64)
	case of == nil || *of > most:
		return &most
	}
	return of
}
