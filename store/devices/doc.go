// Package devices has the devices, opt-outs and mutes of users. They are on record in SQL, and in a
// versioned cache in Redis for targeting, which reads a page of a thousand users in one pipeline.
//
//	key                        type    lifetime        holds
//	ff:{u:<user>}:settings     hash    10 min, 1 min   v: version; d: devices and activities; o:<type>: opted out; m:<object>: muted until (ms, 0: for good)
//	ff:{u:<user>}:changing     zset    10 s            writers between mark and store, scored by the end of their mark
//	guard of a token           queue   25 h            who the device is now: see Guard (FANFARE_MAX_AGE and an hour)
//
// The version of a user without a row begins with the clock of SQL, so that it goes on above all
// versions of an earlier row, which is removed when the user is erased.
//
// An entry without d is a miss. It has the newest version that a writer stored, for a minute, so
// that no older fill is accepted.
//
// # How the cache stays right (P10)
//
// A writer removes d and marks the user as `changing`, commits in SQL, writes the guards of the tokens,
// and stores the new version, which ends its own mark. While there is any mark, no fill is accepted, and
// readers read SQL. A fill has the version that it read, and the time at which it began, by the clock of
// the user's master. It is refused if it is older than the version in Redis or began more than 5 s ago. A
// mark lasts 10 s, and a writer gives up its commit after 4.5 s, so a reader that began before the
// commit can never fill after the end of the mark. For parts of a large audience, targeting reads
// the cache and does not fill it (Query.NoFill). No reader fills the cache of a Redis that uses
// more than 70 % of its maxmemory.
//
// # A Redis that takes no writes (P4)
//
// A master may answer reads and refuse writes, or one process alone may be cut off from it: others would go on
// using the cache. So a writer without its marks writes nothing to SQL (unavailable). With the marks it reads
// the guards, by a command that a Redis refuses if it would refuse their writing (queue.Queue.GuardCmd). What
// Redis refuses after the commit makes the call's outcome unknown. A repeat that finds nothing to change writes
// the guards that are still to be relayed (record.DB.OpenGuards), so it succeeds only when Redis knows. The registration of
// an activity also writes those of the activities that made room for earlier ones (record.Change.Gone).
//
// The scripts begin with a command that a full Redis does not refuse, which lets it accept the others.
//
// A guard is written only if it has not changed since it was read, and it was read before the record. So the
// last one written has the newest record, whatever the order in which Redis runs the commands of several
// writers, also of writers that have given up.
//
// The transaction also leaves outbox rows. The writer relays them itself. The sweeper of
// any process relays them once more after 5 s and removes them: the writer may have died
// or been refused, or a master may have died before its replica had the change. So
// changes that a fail-over loses are in the cache again within 10 s after a master answers again. Rows of
// a master that is away stay; they hold up no others.
//
// While Redis is away, readers read SQL; on a Cluster this concerns only users of the masters that are
// away. While SQL is away, cached users are served, and only the other users fail.
package devices
