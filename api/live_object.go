package api

// MaxLiveCount is the most activities of an object that are counted.
const MaxLiveCount = 100_000

// LiveObject is what shows an object, and what came last.
type LiveObject struct {
	Object string `json:"object" example:"match:7"`
	// Activities counts the activities that show the object and have not ended, by platform.
	Activities map[string]int64 `json:"activities"`
	// More says that there may be more activities: 100,000 are counted at most.
	More bool `json:"more,omitempty"`
	// Last is the update or end that began last; absent: none did, or that is no longer known.
	Last *LiveLast `json:"last,omitempty"`
	// Broadcast is the channel of the object, if it has one.
	Broadcast *Broadcast `json:"broadcast,omitempty"`
}

// LiveLast is an update or an end that has begun.
type LiveLast struct {
	// Event is its id.
	Event  string     `json:"event"`
	Action LiveAction `json:"action" enums:"update,end" example:"update"`
	// At is when a process began with it, by Redis' clock.
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	// Timestamp is that of its payload, in Unix seconds.
	Timestamp int64 `json:"timestamp" example:"1893456000"`
}
