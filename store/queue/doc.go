// Package queue is a durable queue on Redis Streams: shards, leases, retries,
// conflict keys, unique ids, delays, groups that count, dead letters.
//
// One record per live job decides (failures, lost leases, fence, lease end,
// owner), and only scripts change it, on Redis' clock. Streams and their
// pending lists say what exists and where to look. The lock has the same
// record (store/lock).
//
// # Where a job is
//
// A live job is in exactly one place, which its record names:
//
//   - a stream: main in the order of enqueueing; ready for what came back
//     (due, handed over, recovered, unparked) and is read first; alone for jobs
//     whose lease ended twice, which run without neighbours;
//   - outside of the streams, with its body in a key of its own: in later until
//     it is due, or in the waiting line of its conflict key;
//   - in a parked stream, which nobody reads until it is moved back.
//
// So a stream holds only what may run or runs, and blocked or delayed jobs hold
// up nobody. The first job of a conflict key is its head; the others wait. When
// the head ends, fails, defers, parks or is cancelled, the same script makes
// the next one the head and puts it into ready.
//
// # How a process works
//
// Per shard one goroutine claims batches while there is work and then waits in
// a blocking read on a connection of its own; one maintains: it lets delayed
// jobs start at their time, and looks once per lease for leases that ended and
// for what is parked (ParkedNames).
// A worker is one Run: a process' share of one queue. With 8 shards and a lease
// of 10 s an idle one sends 0.9 commands a second, with 30 s 0.4. A blocking
// read whose connection died is found by a look 0.25 s after an enqueueing of
// this process, and a second one as long after that; only when no process that
// enqueues serves the shard, it lasts until the regular look.
// Leases are renewed at a quarter of their time, all shards in one pipeline.
// Results are gathered per shard: what arrives while a script is on its way
// leaves with the next one; they are written before more is claimed.
//
// # Running twice
//
// A client whose answer was lost may send a script again. Enqueueing names the
// job before the first try and its record carries the request's id; claims and
// results carry a call number, and Redis keeps the last answer of each owner;
// renewals, hand-backs and maintenance change nothing the second time. A claim
// whose answer was lost is asked for again and gives the same jobs.
//
// # What is promised, and what is not
//
// At least once. Two jobs of one conflict key never run at once as long as
// handlers heed Alive and their context. A handler that ignores both, or a
// process that is paused between Alive and its write, can overlap with its
// successor; compare fences where that matters. A fail-over of Redis that loses
// acknowledged writes loses or repeats the work of those writes.
//
// Keys, all with the prefix ff:{q:<queue>:<shard>}: and so in one slot, except
// the first:
//
//	ff:{q:<queue>}:meta  hash    shards: their number           for ever
//	jobs                 hash    id: record of a live job       while it lives
//	main, ready, alone   stream  runnable and running jobs      while they do
//	later                zset    id by due time in ms           until due
//	heads                hash    conflict key: its head's id    while it lives
//	wait:<key>           zset    ids behind the head, in order  while they wait
//	seq                  string  order of waiting               for ever
//	uniques              hash    unique id: job                 while it lives
//	body:<id>            hash    a job outside of the streams   while it is
//	attach:<id>          list    a job's attachment             with job or dead letter
//	parked:<name>        stream  parked jobs                    until moved back
//	parkedn              hash    name: how many are parked      while there are
//	paused, resuming     set     types of jobs                  until resumed
//	done:<bucket>        hash    id: D done, X dead, C cancelled  Retention
//	group:<bucket>       hash    group: counts and facts, JSON  GroupRetention
//	idem:<digest>        string  digest of the body, answer     Once.TTL (24 h)
//	guard:<name>         string  companion record               as SetGuard says
//	dead                 stream  dead letters                   7 days, 100,000
//	deadids              hash    job: its dead letter           with it
//	stats                hash    counters                       for ever
//	call:<owner>         string  last claim                     lease + 1 min
//	fin:<owner>          string  answer to the last results     2 min
//	served               string  somebody works on this shard   3 leases
//
// Ids of one minute share a hash, a bucket, because small hashes are a fraction
// of the price of keys. After about 128 ids it is full and 16 others take what
// follows, and so on: one-device events cost 340 to 360 bytes whether a shard
// has 25 or 13,000 in a minute.
package queue
