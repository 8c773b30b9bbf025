package api

import "encoding/json"

// Readiness is the answer of GET /readyz.
type Readiness struct {
	Ready        bool         `json:"ready"`
	Dependencies []Dependency `json:"dependencies"`
	// Notes has what an operator should know although nothing failed, such as embedded parts or
	// shards that no process serves.
	Notes []string `json:"notes,omitempty"`
}

// Dependency is one line of readiness: redis, sql, apns or workers.
type Dependency struct {
	Name      string  `json:"name"`
	State     string  `json:"state" example:"ok"`
	LatencyMS float64 `json:"latency_ms"`
	Detail    string  `json:"detail,omitempty"`
}

// Stats is the answer of GET /v1/stats.
type Stats struct {
	Queues []QueueStats `json:"queues"`
	// DeliveredPerSecond is this process's mean over the last minute.
	DeliveredPerSecond float64 `json:"delivered_per_second"`
	// Contacts is how far the index of recent contacts lags behind SQL.
	Contacts *ContactsStats `json:"contacts,omitempty"`
	// Sales has the orders of sales that are still to be written to SQL.
	Sales *SalesStats `json:"sales,omitempty"`
}

// QueueStats describes one queue over all its shards.
type QueueStats struct {
	Name        string  `json:"name"`
	Depth       int64   `json:"depth"`
	Blocked     int64   `json:"blocked"`
	Scheduled   int64   `json:"scheduled"`
	InFlight    int64   `json:"in_flight"`
	Retries     int64   `json:"retries"`
	DeadLetters int64   `json:"dead_letters"`
	Parked      int64   `json:"parked"`
	OldestAgeMS int64   `json:"oldest_age_ms"`
	Unserved    []int   `json:"unserved_shards,omitempty"`
	Recovered   int64   `json:"leases_recovered"`
	WakeupMS    float64 `json:"wakeup_ms"`
	Dropped     int64   `json:"-"` // dead letters that were dropped for their age or number; only in the metrics
}

// The kinds of dead letters that are no events and no notifications.
const (
	// DeadTask is a background job of fanfare's own.
	DeadTask = "task"
	// DeadJob is a job of a callers' queue.
	DeadJob = "job"
)

// DeadLetter is a job that was given up.
type DeadLetter struct {
	ID        string          `json:"id"`
	Group     string          `json:"-"` // the job's group, or its id if it has none
	Kind      string          `json:"kind" enums:"event,notification,task,job"`
	Reason    string          `json:"reason"`
	Type      string          `json:"type,omitempty"`  // the type of its event or, of the kind job, of the job; absent if there is none or nobody knows
	App       string          `json:"app,omitempty"`   // the app of a notification, a topic and its place
	Queue     string          `json:"queue,omitempty"` // the queue of a letter of the kind job
	Attempts  int             `json:"attempts"`
	LastError string          `json:"last_error"`
	FailedAt  Time            `json:"failed_at"`
	Payload   json.RawMessage `json:"payload,omitempty" swaggertype:"object"` // the job, as it was enqueued; absent: it had no payload
}

// DeadLetterList is the answer of GET /v1/dead-letters, newest first.
type DeadLetterList struct {
	Items []DeadLetter `json:"items"`
	Next  string       `json:"next,omitempty"`
}

// DeadLetterGroup counts dead letters that are alike.
type DeadLetterGroup struct {
	Kind   string `json:"kind" enums:"event,notification,task,job"`
	Reason string `json:"reason"`
	Type   string `json:"type,omitempty"`  // the type of the event or, of the kind job, of the job; absent if there is none or nobody knows
	App    string `json:"app,omitempty"`   // the app of a notification; absent if there is none or nobody knows
	Queue  string `json:"queue,omitempty"` // the queue of the kind job
	Count  int64  `json:"count"`
}

// DeadLetterRest is the reason of the group that has the letters of a kind which are not told apart.
const DeadLetterRest = "other"

// DeadLetterGroups is the answer of GET /v1/dead-letters/groups, the largest groups first.
type DeadLetterGroups struct {
	Items []DeadLetterGroup `json:"items"`
}

// DeadLettersRequest is the body of POST /v1/dead-letters/retry and /v1/dead-letters/delete: which letters,
// and how many the caller has seen. Without a kind, reason, type, app and queue, All must be true.
type DeadLettersRequest struct {
	Kind   string `json:"kind,omitempty" validate:"omitempty,oneof=event notification task job" enums:"event,notification,task,job"`
	Reason string `json:"reason,omitempty" validate:"max=256" maxLength:"256" example:"BadPath"`
	// Type is the type of the event or, of the kind job, of the job.
	Type string `json:"type,omitempty" validate:"omitempty,identifier" example:"photo.shared"`
	// App is the whole name of an app or, without a slash, a topic.
	App string `json:"app,omitempty" validate:"max=512" maxLength:"512" example:"com.example.app"`
	// Queue is the queue of letters of the kind job. With another kind it is refused.
	Queue string `json:"queue,omitempty" validate:"omitempty,identifier" example:"emails"`
	All   bool   `json:"all,omitempty"`
	// Before is a time by Redis' clock, not in the future: letters that died then or later are left alone.
	Before *Time `json:"before" validate:"required" swaggertype:"string" format:"date-time"`
	// Expect is how many such letters there are at most.
	Expect *int64 `json:"expect" validate:"required,min=0,max=9007199254740991" minimum:"0" example:"12"`
}

// DeadLettersAccepted is the answer of POST /v1/dead-letters/retry and /v1/dead-letters/delete.
type DeadLettersAccepted struct {
	// Operation is the id of the operation.
	Operation string `json:"operation"`
	// Matched is how many letters there were.
	Matched int64 `json:"matched"`
}

// Health is the answer of GET /healthz.
type Health struct {
	Status string `json:"status" example:"ok"`
}

// DeadLetterRetried is the answer of POST /v1/dead-letters/{id}/retry.
type DeadLetterRetried struct {
	ID string `json:"id"`
}
