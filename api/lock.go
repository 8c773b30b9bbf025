package api

import "time"

// The limits of leases and retentions of locks over HTTP.
const (
	MaxLockLease     = 24 * time.Hour
	MaxLockRetention = 30 * 24 * time.Hour
)

// LockAcquire is the body of POST /v1/locks/{lock}/acquire. The defaults are a lease of 30 s, no wait, 8 attempts, and
// a retention of an hour.
type LockAcquire struct {
	// LeaseMS is how long the lock stays with a holder that does not renew it.
	LeaseMS *int64 `json:"lease_ms,omitempty" validate:"omitnil,min=1,max=86400000" minimum:"1" maximum:"86400000" default:"30000" example:"30000"`
	// WaitMS is how long the call may wait while another holds the lock.
	WaitMS int64 `json:"wait_ms,omitempty" validate:"min=0,max=30000" minimum:"0" maximum:"30000" example:"5000"`
	// MaxAttempts is after how many counted attempts nobody gets the lock any more. The first acquire decides it
	// for as long as the lock is remembered.
	MaxAttempts *int64 `json:"max_attempts,omitempty" validate:"omitnil,min=1,max=1000000" minimum:"1" maximum:"1000000" default:"8" example:"8"`
	// RetentionMS is how long the lock is remembered after its last change: that its work is done, that its attempts
	// are used up, or how many were counted. It should not be shorter than the time after which the same work may
	// come again.
	RetentionMS *int64 `json:"retention_ms,omitempty" validate:"omitnil,min=1000,max=2592000000" minimum:"1000" maximum:"2592000000" default:"3600000" example:"3600000"`
}

// LockHold is a lock that the caller holds.
type LockHold struct {
	// Token names the hold in the calls that renew or end it. It is no secret.
	Token string `json:"token" example:"1767366245000000.1.30000.3600000"`
	// Fence is larger than that of every earlier hold of this lock. The system that the holder writes to should keep the
	// highest fence that it has seen and refuse lower ones: a holder may be paused for longer than its lease.
	Fence int64 `json:"fence" example:"1767366245000000"`
	// Attempt is the number of this attempt, from 1.
	Attempt int `json:"attempt" example:"1"`
	// LeaseMS is how long the lease lasts, counted by the caller from before it sent the request. After a wait, renew
	// the lease before you begin.
	LeaseMS int64 `json:"lease_ms" example:"30000"`
}

// LockHolder is the body of the calls that renew or end a hold.
type LockHolder struct {
	// Token is the token of the hold.
	Token string `json:"token" validate:"required,maxbytes=128" maxLength:"128" example:"1767366245000000.1.30000.3600000"`
}

// LockState is the state of a lock.
type LockState string

// The states of a lock.
const (
	LockFree      LockState = "free"
	LockHeld      LockState = "held"
	LockDone      LockState = "done"
	LockExhausted LockState = "exhausted"
)

// Lock is a lock as anybody may see it. A lock that was never acquired, or that is no longer remembered, is free.
type Lock struct {
	State LockState `json:"state" enums:"free,held,done,exhausted" example:"held"`
	// Attempt is the number of the present attempt. If the lock is free, it is how many attempts have counted.
	Attempt int `json:"attempt,omitempty" example:"1"`
	// LeaseMS is how long the holder's lease lasts.
	LeaseMS int64 `json:"lease_ms,omitempty" example:"29500"`
	// Fence is the last one that was given out, as far as it is remembered.
	Fence int64 `json:"fence,omitempty" example:"1767366245000000"`
}
