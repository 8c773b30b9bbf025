package api

import "time"

// OperationsKept is how long an operation is kept after it is done.
const OperationsKept = 30 * 24 * time.Hour

// Action says what an operation does.
type Action string

// The actions of operations.
const (
	// ActionErase erases a user.
	ActionErase Action = "users.erase"
	// ActionRebuild builds the index of a user's recent contacts again.
	ActionRebuild Action = "contacts.rebuild"
)

// Scope is the scope with which an API key begins operations of this action, and reads them.
func (a Action) Scope() Scope {
	if a == ActionRebuild {
		return ScopeContacts
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
	Action Action         `json:"action" enums:"users.erase,contacts.rebuild"`
	State  OperationState `json:"state" enums:"running,done"`
	// Removed is what the operation has removed so far: numbers by kind.
	Removed map[string]int64 `json:"removed"`
	// Kept is what the operation leaves: numbers by kind.
	Kept map[string]int64 `json:"kept"`
}
