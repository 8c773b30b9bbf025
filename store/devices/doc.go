// Package devices keeps users' devices, opt-outs and mutes: on record in SQL,
// and in a versioned Redis cache for targeting, which reads a page of a
// thousand users in one pipeline.
//
//	key                        type    lifetime  holds
//	ff:{u:<user>}:settings     hash    10 min    v: version; d: devices; o:<type>: opted out; m:<object>: muted until (ms, 0: for good)
//	ff:{u:<user>}:version      string  1 min     the newest version a writer stored; no older fill is taken
//	ff:{u:<user>}:changing     zset    10 s      writers between mark and store, scored by the end of their mark
//	guard of a token           queue   25 h      who the device is now: see Guard (FANFARE_MAX_AGE and an hour)
//
// # How the cache stays right (P10)
//
// A writer removes the entry and marks the user `changing`, commits SQL, and
// stores the new version, which ends its own mark. While any mark lives no
// fill is taken, so readers go to SQL. A fill names the version that it read
// and when it began, by the clock of the user's own master: older than the
// stored version, or begun more than 5 s ago, and it is refused. A mark lives
// 10 s and a writer gives up its commit after 4.5 s, so a reader that began
// before the commit can never fill after the mark's end. Parts of a large audience
// (Query.NoFill) read the cache and do not fill it, and nobody does while a Redis uses
// more than 70 % of its maxmemory.
//
// The transaction also leaves outbox rows. The writer relays them itself; the
// sweeper of any process does it once more after 5 s and removes them: for a writer
// that died or had no Redis, and for a master that died before its replica had what
// it was told. So what a fail-over loses of the last second is right within 10 s after a
// master answers again.
//
// Without Redis, readers ask SQL and writers write, on a Cluster only for users
// of the masters that are away; without SQL, cached users are served and only
// the others fail.
package devices
