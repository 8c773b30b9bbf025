package api

import "strings"

// MaxChannel is the longest name of a channel that is kept, in bytes. Apple does not say how long names are; today's
// have some 24.
const MaxChannel = 512

// BroadcastKeep says what APNs stores for phones that are offline.
type BroadcastKeep string

// What a channel keeps. Without keeping, APNs takes more updates.
const (
	KeepNone   BroadcastKeep = "none"
	KeepLatest BroadcastKeep = "latest" // the latest update, for 8 h at most
)

// BroadcastState says whether an object has a channel.
type BroadcastState string

// The states of a broadcast.
const (
	// BroadcastMaking: a channel is being made, or the answer of the call that made it was lost. The same PUT again
	// makes one.
	BroadcastMaking BroadcastState = "making"
	// BroadcastOpen: there is a channel.
	BroadcastOpen BroadcastState = "open"
	// BroadcastLost: APNs no longer knows the channel. The same PUT again makes another one.
	BroadcastLost BroadcastState = "lost"
	// BroadcastClosing: the channel is being deleted, and the broadcast with it.
	BroadcastClosing BroadcastState = "closing"
)

// BroadcastRequest is the body of PUT /v1/broadcasts/{object}.
type BroadcastRequest struct {
	// Topic is the bundle id of the app, with or without .push-type.liveactivity at its end.
	Topic       string      `json:"topic" validate:"required,identifier" example:"com.example.app"`
	Environment Environment `json:"environment" validate:"required,oneof=production sandbox" example:"production"`
	// Keep is what APNs stores for phones that are offline: nothing, or the latest update for 8 h at most. It cannot
	// be changed.
	Keep BroadcastKeep `json:"keep" validate:"required,oneof=none latest" example:"none"`
	// EndsAt is when the broadcast is over. Its channel is deleted an hour later.
	EndsAt *Time `json:"ends_at" validate:"required" swaggertype:"string" format:"date-time"`
}

// Normal is the request with the bundle id alone as its topic.
func (r BroadcastRequest) Normal() *BroadcastRequest {
	r.Topic = LiveBundle(r.Topic)
	return &r
}

// broadcastRules asks for a bundle id.
func broadcastRules(to reporter, r *BroadcastRequest) {
	if topic := r.Normal().Topic; ValidIdentifier(r.Topic) && (!ValidIdentifier(topic) || !PushAlert.Takes(topic)) {
		to.ReportError(r.Topic, "topic", "Topic", "bundle_id", "")
	}
}

// broadcastToken begins the token that stands for a broadcast in the place of a device's. No token has a slash.
const broadcastToken = "broadcast/"

// BroadcastToken stands for the broadcast of an object where a notification has the token of a device.
func BroadcastToken(object string) string { return broadcastToken + object }

// ObjectOfBroadcast is the object of a BroadcastToken; "" for the token of a device.
func ObjectOfBroadcast(token string) string {
	object, is := strings.CutPrefix(token, broadcastToken)
	if !is {
		return ""
	}
	return object
}

// Broadcast is an object whose updates go to the subscribers of a channel of APNs.
type Broadcast struct {
	Object      string      `json:"object" example:"match:42"`
	Topic       string      `json:"topic" example:"com.example.app"`
	Environment Environment `json:"environment" example:"production"`
	// Keep is what APNs stores for phones that are offline.
	Keep BroadcastKeep `json:"keep" example:"none"`
	// EndsAt is when the broadcast is over. Its channel is deleted an hour later.
	EndsAt Time `json:"ends_at" swaggertype:"string" format:"date-time"`
	// Channel is what apps subscribe to; absent while there is none.
	Channel string         `json:"channel,omitempty" example:"dHN0LXNyY2gtY2hubA=="`
	State   BroadcastState `json:"state" example:"open"`
	// SentAt is when APNs took the last update, if that is known.
	SentAt    *Time `json:"sent_at,omitempty" swaggertype:"string" format:"date-time"`
	CreatedAt Time  `json:"created_at" swaggertype:"string" format:"date-time"`
	UpdatedAt Time  `json:"updated_at" swaggertype:"string" format:"date-time"`
}

// BroadcastList is the answer of GET /v1/broadcasts.
type BroadcastList struct {
	// Items are broadcasts by object.
	Items []Broadcast `json:"items"`
	// Next is the cursor of the next page. Absent: this page is the last.
	Next string `json:"next,omitempty"`
}

// BroadcastCounts is what a report has of an event to a broadcast.
type BroadcastCounts struct {
	// Sent is 1 when APNs has taken the event, for all subscribers of the channel, and 0 before.
	Sent int64 `json:"sent" example:"1"`
}
