// Package shard is the engine of one shard of a queue: its keys and scripts, and what a
// process does with them. A Shard is there in every process; its Producer enqueues jobs. A
// process that runs jobs has a Worker for each shard that it serves, and a Process with what
// its workers share. Callers use the package queue.
//
// # A job is one text
//
// Everything that happens to a job before its end is in the head of its own text
// (entry.go, lua/part_text.lua): failures, lost leases, the last fence. A plain job,
// without key, guard or history, has a head of its id alone. Only a named job, whose id
// may be enqueued again, has a record beside it.
//
// A job is in exactly one place:
//
//   - a stream: main has new jobs in the order of enqueueing; ready has jobs that came
//     back (due, handed over, given back, unparked); few has jobs whose lease ended
//     twice, which run in groups without other neighbours; alone has those whose lease
//     ended a third time. Claims read main and ready in turns;
//   - outside of the streams: in later until it is due, or in the waiting line of
//     its conflict key;
//   - in a parked stream, which nobody reads until the job is moved back.
//
// So a stream holds only jobs that may run or are running, and blocked or delayed jobs
// hold up nobody. The first job of a conflict key is its head; the others wait. When the
// head ends, fails, defers or is parked, the same script makes the next job the head and
// puts it into ready.
//
// # The process holds the lease
//
// A session is one process' share of a shard (session.go). It is the consumer in whose
// pending lists the jobs of the process are, so that the pending list is the claim, and
// it has one lease for all of them. A call that records results or claims jobs renews the
// lease; otherwise a look does at a quarter of its time, and a session without jobs gets
// three leases. The epoch of a session is above that of every earlier one, and the fence
// of a claim is the larger of the epoch and the job's last fence plus 1.
//
// A session ends in two steps (lua/shard_look.lua). First it stops being an owner: from
// then on none of its results counts. Then its jobs go back, in bounded steps, each with
// one lease lost. The name of a session never returns; its process begins another one. A
// result that arrives after the end of the lease and before the first step still counts.
//
// # How a process works
//
// Each shard has two senders (sender.go): one for jobs that are enqueued (producer.go), one
// for results (finish.go). Work that arrives while a call is in flight leaves with the
// next. The same script then claims the next jobs of the shard: a process mostly claims
// the jobs that it enqueues itself, in the same round trip, with the payload still in
// memory. While a shard has nothing to claim, one blocking read waits there (reader.go).
// The blocking reads of all processes share one consumer, which is no session: the next
// call of the process claims an entry that its read was given. If that does not happen
// within half a second, any process puts the entry back.
//
// A look at each shard, once a lease and when something is due, lets delayed jobs start,
// ends sessions whose lease is over and names parked jobs (maintain.go, Names). With
// 8 shards and a lease of 10 s an idle worker sends 0.9 commands a second, with 30 s 0.4.
//
// # Running twice
//
// Calls are numbered, in a series of each sender. A call with results whose answer was
// lost is sent again under its number, and Redis answers what it answered first
// (lua/part_call.lua); a newer call leaves only after that. A call that only enqueues or
// claims is given up instead, and its number is not used again: Redis refuses it if it
// arrives late. Jobs that it may have claimed are found after the sender's next answer, by
// comparing the pending list with the jobs that the process knows
// (lua/session_compare.lua).
//
// A call also says which number was answered last. If Redis does not know that number any
// more, it lost writes: the script does nothing, and the process compares as well. A call
// that Redis refuses, because it is full or away, did nothing: jobs are refused to their
// callers, results leave again. A script that frees memory begins with a command that no
// full Redis refuses. If Redis refuses results again and again because a script fails, the
// process gives up its session.
//
// Keys, all with the prefix ff:{q:<queue>:<shard>.<number>}: and so in one slot, except
// the first; the number puts the shards of all queues at equal distances over the slots
// of a Cluster (Prefix). Every script names two of them, one of which never exists: so a slot
// that is moving refuses it before it runs.
//
//	ff:{q:<queue>}:meta  hash    shards: form of the keys and number  for ever
//	main, ready, few, alone  stream  runnable and running jobs  while they do
//	owners               zset    session by its lease's end in ms  while it lives
//	gone                 zset    session that ended: 1 lost, 0 left  until it is empty
//	epoch                string  epoch of the last session         for ever
//	memo:<series>        string  last call: number, claims, answer  10 min
//	jobs:<n>.<n>         hash    id of a named job: 1, or why and till when it waits, while it lives
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
//	done:<bucket>        hash    named id: D done, with a note, X dead  Retention
//	notes:<group or id>  string  notes of its done jobs without a name  Retention
//	failed:<group or id> list    which of its jobs failed: JSON, or L and a dead letter  GroupRetention
//	report:<6 of the id> hash    rest of the id: report         ReportRetention, or MaxAge
//	                             rest and !: 1 its cancel began, 2 it is cancelled
//	reported             zset    6 of an id by their number     the latest 10,000 with reports
//	group:<6 of the id>  hash    rest of the group: counts      GroupRetention
//	idem:<digest>        string  digest of the body, answer     Once.TTL (24 h)
//	guard:<name>         string  companion record               as SetGuards says
//	dead                 stream  dead letters                   7 days, 100,000
//	deadids              hash    job: its dead letter           with it
//	deadof:<queue>       zset    dead letters of a callers' queue  as store/jobs says
//	stats                hash    counters                       for ever
//	served               string  somebody works on this shard   3 leases
//
// Those of KeyBeside are in the slot as well; its callers describe them. So are the facts of store/facts.
//
// Ids of a time share a hash, because small hashes are a fraction of the price of
// keys: reports and groups those of a 32nd of a second, in which events of one call
// mostly are, and tombstones those of half a minute. When about 128 tombstones are in
// one hash, 16 others take what follows, and so on.
package shard
