package api

import (
	"encoding/json"
	"fmt"
)

// The limits of values and counters.
const (
	// MaxValue is how many bytes of JSON a value may have, without blanks and needless escapes.
	MaxValue = 16 << 10
	// MaxNumber is the largest number of a counter, which every JSON library reads exactly.
	MaxNumber int64 = 1<<53 - 1
)

// ValueRequest is the body of PUT /v1/values/{value}.
type ValueRequest struct {
	// Value is any JSON but null, at most 16 KiB.
	Value json.RawMessage `json:"value" validate:"required" swaggertype:"object"`
	// TTLSeconds is after how many seconds the value is gone. Absent: it stays.
	TTLSeconds *int64 `json:"ttl_seconds,omitempty" validate:"omitnil,min=1,max=2592000" minimum:"1" maximum:"2592000" example:"86400"`
}

// ValueVersion is the answer of PUT /v1/values/{value}.
type ValueVersion struct {
	// Version is larger than that of every earlier value of this name.
	Version int64 `json:"version" example:"1767366245000000"`
}

// Value is a value and its version.
type Value struct {
	// Value is the JSON that was put.
	Value json.RawMessage `json:"value" swaggertype:"object"`
	// Version is larger than that of every earlier value of this name.
	Version int64 `json:"version" example:"1767366245000000"`
}

// LocalOff makes every refusal of a counter come from Redis.
const LocalOff = "off"

// CounterRequest is the body of PUT /v1/counters/{counter}.
type CounterRequest struct {
	// Value is the number that the counter begins with, from min to max.
	Value *int64 `json:"value" validate:"required,min=-9007199254740991,max=9007199254740991" minimum:"-9007199254740991" maximum:"9007199254740991" example:"0"`
	// Min is the least number that the counter may have. Absent: -9007199254740991.
	Min *int64 `json:"min,omitempty" validate:"omitnil,min=-9007199254740991,max=9007199254740991" minimum:"-9007199254740991" maximum:"9007199254740991" example:"0"`
	// Max is the largest number that the counter may have. Absent: 9007199254740991.
	Max *int64 `json:"max,omitempty" validate:"omitnil,min=-9007199254740991,max=9007199254740991" minimum:"-9007199254740991" maximum:"9007199254740991" example:"100"`
	// StartsAt is the time before which nothing is added. Absent: from now on.
	StartsAt *Time `json:"starts_at,omitempty" swaggertype:"string" format:"date-time"`
	// EndsAt is the time from which on nothing is added. Absent: no end.
	EndsAt *Time `json:"ends_at,omitempty" swaggertype:"string" format:"date-time"`
	// IdleMS is how long the counter lasts after it was made, or after the last add that changed it. Absent: it stays.
	IdleMS *int64 `json:"idle_ms,omitempty" validate:"omitnil,min=1,max=2592000000" minimum:"1" maximum:"2592000000" example:"86400000"`
	// Local is off, or absent: then a server that was refused an add for a bound may refuse such adds itself for
	// 100 ms.
	Local string `json:"local,omitempty" validate:"omitempty,oneof=off" enums:"off" example:"off"`
}

// Bounds are the least and the largest number that the counter may have.
func (r *CounterRequest) Bounds() (least, most int64) {
	least, most = -MaxNumber, MaxNumber
	if r.Min != nil {
		least = *r.Min
	}
	if r.Max != nil {
		most = *r.Max
	}
	return least, most
}

// Counter is a counter with its settings.
type Counter struct {
	// Value is the present number.
	Value int64 `json:"value" minimum:"-9007199254740991" maximum:"9007199254740991" example:"7"`
	// Min is the least number that the counter may have. Absent: -9007199254740991.
	Min *int64 `json:"min,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" example:"0"`
	// Max is the largest number that the counter may have. Absent: 9007199254740991.
	Max *int64 `json:"max,omitempty" minimum:"-9007199254740991" maximum:"9007199254740991" example:"100"`
	// StartsAt is the time before which nothing is added. Absent: from the beginning.
	StartsAt *Time `json:"starts_at,omitempty" swaggertype:"string" format:"date-time"`
	// EndsAt is the time from which on nothing is added. Absent: no end.
	EndsAt *Time `json:"ends_at,omitempty" swaggertype:"string" format:"date-time"`
	// IdleMS is how long the counter lasts after the last add that changed it. Absent: it stays.
	IdleMS *int64 `json:"idle_ms,omitempty" example:"86400000"`
	// Local is off if every refusal comes from Redis.
	Local string `json:"local,omitempty" enums:"off" example:"off"`
}

// CounterAdd is the body of POST /v1/counters/{counter}/add.
type CounterAdd struct {
	// Delta is the number to add; one below 0 is taken away.
	Delta *int64 `json:"delta" validate:"required,min=-9007199254740991,max=9007199254740991" minimum:"-9007199254740991" maximum:"9007199254740991" example:"1"`
	// Saturate lets the counter stop at a bound, instead of refusing the add.
	Saturate bool `json:"saturate,omitempty" example:"false"`
}

// CounterChange is the answer to an add.
type CounterChange struct {
	// Value is the number after the add.
	Value int64 `json:"value" minimum:"-9007199254740991" maximum:"9007199254740991" example:"8"`
	// Applied is the number that was added: with saturate it may be less than delta.
	Applied int64 `json:"applied" minimum:"-9007199254740991" maximum:"9007199254740991" example:"1"`
}

// valueRules refuses null, which is the same as leaving the value out, and bounds the size.
func valueRules(to reporter, r *ValueRequest) {
	if string(r.Value) == "null" {
		to.ReportError(r.Value, "value", "Value", "required", "")
	}
	if len(r.Value) <= MaxValue {
		return
	}
	if short, err := ShortestJSON(r.Value); err == nil && len(short) > MaxValue {
		to.ReportError(r.Value, "value", "Value", "max", fmt.Sprint(MaxValue))
	}
}

// counterRules are the rules between the fields of a counter.
func counterRules(to reporter, r *CounterRequest) {
	least, most := r.Bounds()
	switch {
	case least > most:
		to.ReportError(r.Max, "max", "Max", "min", fmt.Sprint(least))
	case r.Value == nil || max(*r.Value, -*r.Value) > MaxNumber: // that is reported already
	case *r.Value < least:
		to.ReportError(r.Value, "value", "Value", "min", fmt.Sprint(least))
	case *r.Value > most:
		to.ReportError(r.Value, "value", "Value", "max", fmt.Sprint(most))
	}
	if r.StartsAt != nil && r.EndsAt != nil && !r.EndsAt.After(r.StartsAt.Time) {
		to.ReportError(r.EndsAt, "ends_at", "EndsAt", "after", "starts_at")
	}
}
