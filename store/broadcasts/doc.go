// Package broadcasts keeps the broadcasts: objects whose updates go to all subscribers of a channel of APNs with one
// request (docs/spec/live.md).
//
// A broadcast is on record in SQL, in the table broadcasts. One process at a time makes or deletes the channel of an
// object: it holds a lock.
//
//  1. The record says that a channel is being made.
//  2. APNs makes it and answers with its name, which nobody can choose or ask for again.
//  3. The record gets the name.
//
// If the answer of the second step is lost, or the process dies before the third, there is a channel that nobody knows.
// The same call again makes another one. Compare counts such channels once a day; they may belong to somebody else, so
// nothing deletes them.
//
// Each process has all broadcasts in memory, so that events are accepted and sent without SQL. While SQL is away, the
// last known ones stay.
//
// Keys in Redis, beside those of the locks (store/lock, under the name broadcasts):
//
//	key                     type   lifetime
//	ff:{broadcasts}:sent    hash   30 days after its last change
//
// A field of the hash is an object, and its value is when APNs last took an update of it, in Unix milliseconds.
package broadcasts
