package contacts

import "time"

// All keys of one user share the tag {c:<user>}, and so one slot. Users are
// identifiers: none can hold a brace.

func recentKey(user string) string { return "ff:{c:" + user + "}:recent" }

func stateKey(user string) string { return "ff:{c:" + user + "}:state" }

func buildKey(user string) string { return "ff:{c:" + user + "}:build" }

func indexKeys(user string) []string { return []string{recentKey(user), stateKey(user)} }

func buildKeys(user string) []string {
	return []string{recentKey(user), stateKey(user), buildKey(user)}
}

const (
	// indexLifetime ends an index so long after it was built, used or not: users who
	// never read cost no memory, and no fault of an index lasts longer.
	indexLifetime = 7 * 24 * time.Hour
	// recentMargin is how much longer the entries live than the state that says
	// they can be trusted: an index is never trusted without its entries.
	recentMargin = 24 * time.Hour
	// inlineLease and jobLease end the right to build of a process that died.
	inlineLease = 10 * time.Second
	jobLease    = 30 * time.Second
)
