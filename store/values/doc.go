// Package values keeps bounded, versioned values and counters under names that callers choose. Every change is one
// atomic step by Redis' clock (lua/values_run.lua). Changes of one group of names that arrive while a script runs
// share the next one.
//
// Keys, for n from 0 to 63, by a hash of the name:
//
//	ff:{values.<n>}:v:<name>            string   "<version>:<JSON>"; for the lifetime that its caller set
//	ff:{values.<n>}:v:<name>:changed    channel  the version of each change, 0 for a deletion
//	ff:{counters.<n>}:v:<name>          string   the number, its bounds, its window and its idle time
//	ff:{counters.<n>}:once:<digest>     string   an add with an Idempotency-Key; 24 h
//	ff:{...}:names                      zset     the names of the group, by when they may be gone, in ms
//	ff:{...}:run:<process>              string   the last run of a process and what it had done; 10 min
package values
