package api

import "encoding/json"

// MaxSchedules is how many schedules there may be.
const MaxSchedules = 1000

// ScheduleRequest is the body of PUT /v1/schedules/{id}.
type ScheduleRequest struct {
	// Queue is the queue that gets the jobs.
	Queue string `json:"queue" validate:"required,identifier" example:"reports"`
	// Type says what is to be done, as of any job.
	Type string `json:"type" validate:"required,identifier" example:"daily_report"`
	// Payload is any JSON, at most 60 KiB without blanks and needless escapes. `null` is the same as none.
	Payload json.RawMessage `json:"payload,omitempty" swaggertype:"object"`
	// Key is the conflict key of the jobs: with one, the next job waits until the one before it has ended.
	Key string `json:"key,omitempty" validate:"omitempty,identifier" example:"daily_report"`
	// MaxAttempts is the number of failures after which a job becomes a dead letter.
	MaxAttempts *int64 `json:"max_attempts,omitempty" validate:"omitnil,min=1,max=1000" minimum:"1" maximum:"1000" default:"8" example:"8"`
	// Cron says when: minute, hour, day of the month, month and weekday (0 and 7 are Sunday), each `*`, a value, a range or a
	// list, perhaps with a step. Months and weekdays may be named. If both the day and the weekday are given, one of them
	// is enough.
	Cron string `json:"cron" validate:"required,maxbytes=256,cron" maxLength:"256" example:"30 6 * * mon-fri"`
	// TimeZone is the time zone of the cron, by its name in the IANA database.
	TimeZone string `json:"time_zone,omitempty" validate:"omitempty,time_zone" default:"UTC" example:"Europe/Berlin"`
}

// Schedule is a schedule on record.
type Schedule struct {
	ID string `json:"id" example:"daily-report"`
	ScheduleRequest
	// NextAt is the next due time. If it is past, its job is being enqueued, or could not be enqueued yet.
	NextAt Time `json:"next_at" swaggertype:"string" format:"date-time"`
	// LastAt is the last due time whose job was enqueued. Absent: there was none.
	LastAt *Time `json:"last_at,omitempty" swaggertype:"string" format:"date-time"`
	// CreatedAt is when the schedule was made.
	CreatedAt Time `json:"created_at" swaggertype:"string" format:"date-time"`
	// UpdatedAt is when somebody changed the schedule last.
	UpdatedAt Time `json:"updated_at" swaggertype:"string" format:"date-time"`
}

// ScheduleList is the answer of GET /v1/schedules.
type ScheduleList struct {
	// Items are schedules by id, without their payloads.
	Items []Schedule `json:"items"`
	// Next is the cursor of the next page. Absent: this page is the last.
	Next string `json:"next,omitempty"`
}

// scheduleRules bounds the size of a payload.
func scheduleRules(to reporter, r *ScheduleRequest) { payloadRules(to, r.Payload) }
