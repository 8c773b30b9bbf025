package contacts

import "time"

// All keys of one user have the tag {c:<user>}, and so they are in one slot. Users are identifiers,
// which cannot contain a brace.

func recentKey(user string) string { return "ff:{c:" + user + "}:recent" }

func stateKey(user string) string { return "ff:{c:" + user + "}:state" }

func buildKey(user string) string { return "ff:{c:" + user + "}:build" }

func indexKeys(user string) []string { return []string{recentKey(user), stateKey(user)} }

func buildKeys(user string) []string {
	return []string{recentKey(user), stateKey(user), buildKey(user)}
}

const (
	// indexLifetime is how long after it was built an index expires, whether it is used or not. So
	// users who never read take no memory, and no error in an index lasts longer.
	indexLifetime = 7 * 24 * time.Hour
	// recentMargin is how much longer the entries exist than the state, so that an index with a
	// state always has its entries.
	recentMargin = 24 * time.Hour
	// inlineLease and jobLease are how long a process that died keeps the right to build.
	inlineLease = 10 * time.Second
	jobLease    = 30 * time.Second
)
