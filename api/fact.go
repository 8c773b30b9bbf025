package api

import "encoding/json"

// The types of facts.
const (
	// FactEventDone: an event is over.
	FactEventDone = "event.done"
	// FactNotificationFailed: a notification ended as failed.
	FactNotificationFailed = "notification.failed"
	// FactNotificationOpened and FactNotificationDismissed: a user did that with a notification.
	FactNotificationOpened    = "notification.opened"
	FactNotificationDismissed = "notification.dismissed"
	// FactDeadLetterCreated: a job was given up.
	FactDeadLetterCreated = "dead_letter.created"
	// FactOrderCreated: a reservation was sold, and its order is on record.
	FactOrderCreated = "order.created"
	// FactHoldExpired: a reservation was not confirmed in time.
	FactHoldExpired = "hold.expired"
	// FactStockBelow: not more units of a sku are available than its low_at.
	FactStockBelow = "stock.below"
	// FactDeviceDropped: a user has lost a device, by no call of the user's own.
	FactDeviceDropped = "device.dropped"
	// FactAppPaused and FactAppResumed: a push service refused an app, and takes it again.
	FactAppPaused  = "app.paused"
	FactAppResumed = "app.resumed"
	// FactChatMessage: a message was sent to a chat.
	FactChatMessage = "chat.message"
)

// FactTypes are all types of facts.
var FactTypes = []string{FactEventDone, FactNotificationFailed, FactNotificationOpened, FactNotificationDismissed, FactDeadLetterCreated, FactOrderCreated,
	FactHoldExpired, FactStockBelow, FactDeviceDropped, FactAppPaused, FactAppResumed, FactChatMessage}

const (
	// DefaultFacts and MaxFacts are how many facts one answer has, by default and at most.
	DefaultFacts, MaxFacts = 100, 1000
	// FactsNow is the position of readers who want no fact of the past.
	FactsNow = "now"
)

// Fact is one thing that happened.
type Fact struct {
	// ID is the same whenever the fact is read. Ids of one lane rise.
	ID   string `json:"id"`
	Type string `json:"type"`
	// Key is what it happened to. Facts of one key come in the order in which they happened.
	Key string `json:"key"`
	// At is when it happened, by the clock of Redis; of a device, by that of the database.
	At   Time            `json:"at"`
	Data json.RawMessage `json:"data" swaggertype:"object"`
}

// FactList is a page of facts.
type FactList struct {
	Items []Fact `json:"items"`
	// Next is the position behind them.
	Next string `json:"next"`
	// Gap is how many facts, of all types, were gone before this reader came to them.
	Gap int64 `json:"gap"`
}

// FactTypesRequest says of which types facts are written.
type FactTypesRequest struct {
	Types []string `json:"types" validate:"required,max=32,unique"`
}

// FactTypesSet are the types of which facts are written.
type FactTypesSet struct {
	Types []string `json:"types"`
	// Since is from when on no fact of these types is missing; absent without types.
	Since *Time `json:"since,omitempty"`
}
