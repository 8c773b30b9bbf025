// Package queue is a durable queue on Redis Streams: shards, leases, retries,
// conflict keys, unique ids, delays, groups that count, reports, dead letters.
//
// # A job is one text
//
// Whatever becomes of a job before its end is in the head of its own text
// (entry.go, lua/part_shard.lua): failures, lost leases, the last fence. A plain
// job, without key, guard or history, has a head of its id alone. Only a named job,
// whose id may be enqueued again, has a record beside it.
//
// A job is in exactly one place:
//
//   - a stream: main in the order of enqueueing; ready for what came back (due,
//     handed over, given back, unparked); alone for jobs whose lease ended twice,
//     which run without neighbours. Claims read main and ready in turns;
//   - outside of the streams: in later until it is due, or in the waiting line of
//     its conflict key;
//   - in a parked stream, which nobody reads until it is moved back.
//
// So a stream holds only what may run or runs, and blocked or delayed jobs hold
// up nobody. The first job of a conflict key is its head; the others wait. When
// the head ends, fails, defers or is parked, the same script makes
// the next one the head and puts it into ready.
//
// # The process holds the lease
//
// A life is one process' share of a shard (life.go): the consumer in whose pending
// lists its jobs are, so that the pending list is the claim, and one lease on all of
// them. Every call that records or claims renews it, else it is renewed at a quarter of its
// time; that is when a life with nothing in hand gets three leases. A life's epoch is above that of every
// earlier one, and the fence of a claim is the larger of the epoch and the job's
// last fence plus 1.
//
// A life ends in two steps (lua/shard_look.lua). First it is no owner any more: from
// then on none of its results counts. Then what it held goes back, in bounded steps,
// each job with one lease lost. Its name never returns; its process goes on under
// another. A result that comes after the lease's end and before that still counts.
//
// # How a process works
//
// Calls (lane.go): what is enqueued, and what became of jobs, is gathered by shard;
// what arrives while a call is under way leaves with the next. The same script then
// claims what is next: a job that a process enqueues it mostly claims itself, in the
// same round trip, with the payload still in memory. While a shard has nothing to
// claim, one blocking read waits there (attend.go), for all processes under one
// consumer that owns nothing: what it brings is claimed by the next call, and put
// back by anybody when that does not happen within half a second.
// A look at each shard, once a lease and when something is due, lets delayed jobs
// start, ends lives whose lease is over and names what is parked (maintain.go,
// ParkedNames). With 8 shards and a lease of 10 s an idle worker sends 0.9 commands a
// second, with 30 s 0.4.
// The places of a process (InFlight) belong to no shard: who found none is told in
// turns (gate.go). Results use the places that they free, unless others wait.
//
// # Running twice
//
// Calls are numbered, in a series of each lane. One with results whose answer was
// lost is sent again with its number, and Redis answers what it answered
// (lua/part_call.lua); a newer one leaves only then. One that only enqueues or claims
// is given up and its number is not used again: if it comes late it is refused, and
// what it may have claimed is found by comparing what is pending with what the process
// holds (lua/session_compare.lua) after the lane's next answer. A call says which number
// was answered last: when Redis does not know it any more, it lost writes, does
// nothing, and the process compares as well. What is refused, because
// Redis is full or away, was not done: enqueueings are refused to their callers,
// results leave again. Whatever frees memory begins with a command that no full
// Redis refuses.
//
// # Parts of a job
//
// A handler that does a job in parts marks those that have ended (marks.go). Marks
// leave with the results, before that of the job itself; who takes it over reads them.
//
// # What is promised, and what is not
//
// At least once. Two jobs of one conflict key never run at once as long as
// handlers heed Alive and their context. A handler that ignores both, or a
// process that is paused between Alive and its write, can overlap with its
// successor; compare fences where that matters. A fail-over of Redis that loses
// acknowledged writes loses or repeats the work of those writes. A worker whose
// blocking read died without a word, and who is alone, notices it at its next look.
//
// Keys, all with the prefix ff:{q:<queue>:<shard>.<number>}: and so in one slot, except
// the first; the number puts the shards of all queues at equal distances over the slots
// of a Cluster (Prefix). Every script names two of them, one of which never exists: so a slot
// that is moving refuses it before it runs.
//
//	ff:{q:<queue>}:meta  hash    shards: form of the keys and number  for ever
//	main, ready, alone   stream  runnable and running jobs      while they do
//	owners               zset    life by its lease's end in ms  while it lives
//	gone                 zset    life that ended: 1 lost, 0 left  until it is empty
//	epoch                string  epoch of the last life         for ever
//	memo:<series>        string  last call: number, claims, answer  10 min
//	jobs:<n>.<n>         hash    id of a named job: 1           while it lives
//	later                zset    list of jobs by its time in ms  while it has any
//	later:<ms>           list    jobs that are due then         until due
//	heads                hash    conflict key: its head's id    while it lives
//	wait:<key>           zset    jobs behind the head, in order while they wait
//	seq                  string  order of waiting               for ever
//	uniques              hash    unique id: job                 while it lives
//	marks:<id>           hash    part of a job that ended: how  until done, at most MaxAge
//	attach:<id>          list    a job's attachment             with job or dead letter
//	parked:<name>        stream  parked jobs                    until moved back
//	parkedn              hash    name: how many are parked      while there are
//	done:<bucket>        hash    named id: D done, X dead      Retention
//	report:<6 of the id> hash    rest of the id: report         ReportRetention, or MaxAge
//	group:<6 of the id>  hash    rest of the group: counts      GroupRetention
//	idem:<digest>        string  digest of the body, answer     Once.TTL (24 h)
//	guard:<name>         string  companion record               as SetGuard says
//	dead                 stream  dead letters                   7 days, 100,000
//	deadids              hash    job: its dead letter           with it
//	stats                hash    counters                       for ever
//	served               string  somebody works on this shard   3 leases
//
// Ids of a time share a hash, because small hashes are a fraction of the price of
// keys: reports and groups those of a 32nd of a second, in which events of one call
// mostly are, and tombstones those of half a minute. When about 128 tombstones are in
// one hash, 16 others take what follows, and so on.
package queue
