package api

// Scope is a right that an API key gives.
type Scope string

// The scopes of API keys. ScopeAdmin covers all scopes, ScopeSales covers ScopeSalesBuy, and ScopeOps
// covers ScopeOpsRead. A key with ScopePush also needs ScopePushAll to post events to all users.
const (
	ScopePush     Scope = "push"
	ScopePushAll  Scope = "push:all"
	ScopeContacts Scope = "contacts"
	ScopeChat     Scope = "chat"
	ScopeSales    Scope = "sales"
	ScopeSalesBuy Scope = "sales:buy"
	ScopeLocks    Scope = "locks"
	// ScopeJobs enqueues, reads and cancels jobs and handles queues, ScopeJobsWork claims jobs and answers for them. Neither
	// covers the other.
	ScopeJobs     Scope = "jobs"
	ScopeJobsWork Scope = "jobs:work"
	ScopeValues   Scope = "values"
	// ScopeValuesRead reads values and counters. ScopeValues covers it.
	ScopeValuesRead Scope = "values:read"
	ScopeTokens     Scope = "tokens"
	// ScopeUsersErase erases users. Of the other scopes only ScopeAdmin covers it.
	ScopeUsersErase Scope = "users:erase"
	// ScopeOpsRead reads what operators look at, and changes nothing.
	ScopeOpsRead Scope = "ops:read"
	ScopeOps     Scope = "ops"
	ScopeAdmin   Scope = "admin"
)

// Scopes lists every scope in the order in which documents show them.
var Scopes = []Scope{ScopePush, ScopePushAll, ScopeContacts, ScopeChat, ScopeSales, ScopeSalesBuy, ScopeJobs, ScopeJobsWork, ScopeLocks, ScopeValues, ScopeValuesRead, ScopeTokens, ScopeUsersErase, ScopeOpsRead, ScopeOps, ScopeAdmin}

// Covers reports whether a key with scope s may make calls that need other.
func (s Scope) Covers(other Scope) bool {
	return s == ScopeAdmin || s == other || (s == ScopeSales && other == ScopeSalesBuy) || (s == ScopeOps && other == ScopeOpsRead) ||
		(s == ScopeValues && other == ScopeValuesRead)
}
