// Package devices keeps users' devices, opt-outs and mutes: on record in SQL,
// and in a versioned Redis cache for targeting, which reads a page of a
// thousand users in one pipeline.
//
//	key                        type    lifetime        holds
//	ff:{u:<user>}:settings     hash    10 min, 1 min   v: version; d: devices; o:<type>: opted out; m:<object>: muted until (ms, 0: for good)
//	ff:{u:<user>}:changing     zset    10 s            writers between mark and store, scored by the end of their mark
//	guard of a token           queue   25 h            who the device is now: see Guard (FANFARE_MAX_AGE and an hour)
//
// An entry without d is a miss: it holds the newest version that a writer stored, for a
// minute, so that no older fill is taken.
//
// # How the cache stays right (P10)
//
// A writer removes d and marks the user `changing`, commits SQL, and stores the new
// version, which ends its own mark. While any mark lives no fill is taken, so readers go
// to SQL. A fill names the version that it read and when it began, by the clock of the
// user's own master. It is refused when it is older than the version in Redis, or began
// more than 5 s ago. A mark lives 10 s and a writer gives up its commit after 4.5 s, so a
// reader that began before the commit can never fill after the mark's end. Targeting
// reads the cache for parts of a large audience and does not fill it (Query.NoFill);
// no reader fills it while a Redis uses more than 70 % of its maxmemory.
//
// An earlier form kept the version in a key of its own, ff:{u:<user>}:version. Processes
// of that form read these entries correctly: without d they find none. But a writer of that form
// stores no v, and removes an existing one. So while processes of both forms run, a slow reader
// may fill the cache with settings that such a writer has just replaced. They stay until the next
// write or for 10 min.
//
// The transaction also leaves outbox rows. The writer relays them itself. The sweeper of
// any process relays them once more after 5 s and removes them: the writer may have died
// or had no Redis, or a master may have died before its replica had the change. So
// changes that a fail-over loses are in the cache again within 10 s after a master answers again.
//
// Without Redis, readers ask SQL and writers write, on a Cluster only for users
// of the masters that are away; without SQL, cached users are served and only
// the others fail.
package devices
