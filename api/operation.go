package api

import "time"

const (
	// OperationsKept is how long an operation on record is kept after it is done.
	OperationsKept = 30 * 24 * time.Hour
	// DeadOperationsKept is the same for operations on dead letters.
	DeadOperationsKept = 24 * time.Hour
)

// Action says what an operation does.
type Action string

// The actions of operations.
const (
	// ActionErase erases a user.
	ActionErase Action = "users.erase"
	// ActionRebuild builds the index of a user's recent contacts again.
	ActionRebuild Action = "contacts.rebuild"
	// ActionRetryDead and ActionDeleteDead retry and delete dead letters.
	ActionRetryDead  Action = "dead_letters.retry"
	ActionDeleteDead Action = "dead_letters.delete"
)

// Scope is the scope with which an API key begins operations of this action, and reads them.
func (a Action) Scope() Scope {
	switch a {
	case ActionRebuild:
		return ScopeContacts
	case ActionRetryDead, ActionDeleteDead:
		return ScopeOps
	}
	return ScopeUsersErase
}

// OperationState is how far an operation has come.
type OperationState string

// The states of an operation.
const (
	OperationRunning OperationState = "running"
	OperationDone    OperationState = "done"
)

// Operation is work that goes on after its call was answered: the answer of GET
// /v1/operations/{id}. It names no user.
type Operation struct {
	ID     string         `json:"id"`
	Action Action         `json:"action" enums:"users.erase,contacts.rebuild,dead_letters.retry,dead_letters.delete"`
	State  OperationState `json:"state" enums:"running,done"`
	// BegunAt is when the operation began: by the database's clock, or to a 32nd of a second by that of the process that
	// began one on dead letters.
	BegunAt *Time `json:"begun_at,omitempty" swaggertype:"string" format:"date-time"`
	// Removed is what the operation has removed so far: numbers by kind. Operations on dead letters have
	// neither it nor Kept, but Matched and Left.
	Removed map[string]int64 `json:"removed,omitzero" binding:"optional"`
	// Kept is what the operation leaves: numbers by kind.
	Kept map[string]int64 `json:"kept,omitzero" binding:"optional"`
	// Matched is the number of dead letters that the operation was to retry or to delete.
	Matched *int64 `json:"matched,omitempty"`
	// Left is how many of them it has not reached yet, at most. When the operation is done, it is how many
	// could not be retried.
	Left *int64 `json:"left,omitempty"`
}

// OperationList is the answer of GET /v1/operations, those that began last first.
type OperationList struct {
	Items []Operation `json:"items"`
	Next  string      `json:"next,omitempty"`
}
