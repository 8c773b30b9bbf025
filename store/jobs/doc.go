// Package jobs has the queues of callers: jobs that programs in any language enqueue, claim and answer for by HTTP. What
// it promises is in docs/spec/jobs.md.
//
// It stands beside the package queue, which runs fanfare's own work, because the two differ in who holds a job. There a
// process of fanfare has one lease for everything that it works on, and the pending list of a stream is the claim. Here a
// worker is no process of fanfare, chooses the types of its jobs, and each job has a lease of its own. Dead letters have
// the same form in both, so that the same code lists, retries and deletes them.
//
// # A queue is in one slot
//
// The queues are spread over 64 groups by their names. A group is one slot of a Cluster: whatever happens to a job is one
// script (lua/jobs_run.lua), by Redis' clock. So a crash leaves a job queued or held, and a queue is as fast as one master.
// Small calls of one group that arrive while a script runs share the next one.
//
// # Where a job is
//
//   - in the sorted set of its type, by its number in the queue, while it may be claimed;
//   - in due, by its time, while it waits for that, or for its next attempt;
//   - in due, by the end of its lease, and in held, while a worker has it;
//   - in the sorted set of its conflict key, while another job of the key is before it.
//
// Claims look after jobs that are due, and so do cancels and jobs that are enqueued with a conflict key: they first let such jobs
// go on. Nobody else does. A worker that waits is
// woken by a message when a job may be claimed or is due sooner than all others, and by a timer of its process (wait.go).
//
// Names have no slash, so that no key of one queue is one of another. Keys, all in the slot of the group, with the prefix of the queue "work" (store/queue/shard):
//
//	queues                zset    queue: when it was used, in ms             until it is unused
//	w:<queue>/meta        hash    numbers of the queue (part_queue.lua)      as long as the queue
//	w:<queue>/jobs        hash    id: text of a job                          until the job ends
//	w:<queue>/minutes     zset    a minute, and the numbers before it (part_save.lua)  2 h; the last 61
//	w:<queue>/types       zset    type: number of its first job              while it has any
//	w:<queue>/r/<type>    zset    jobs that may be claimed, by number        while it has any
//	w:<queue>/due         zset    job: its time, or the end of its lease     while it waits or is held
//	w:<queue>/held        hash    job: its hold (part_hold.lua)              while it is held
//	w:<queue>/hist        hash    job: failures, ended leases, last error    until the job ends
//	w:<queue>/lost        hash    job: its hold whose lease is over          until it is claimed
//	w:<queue>/heads       hash    conflict key: the job that has it          while it has
//	w:<queue>/wait/<key>  zset    jobs behind the head, by number            while they wait
//	w:<queue>/unique      hash    unique name: job                           until the job ends
//	w:<queue>/e/<n>       hash    job that has ended: how, and the fence     1 h; the last 10,000
//	w:<queue>/wake        channel a job may be claimed, or is due sooner
//	deadof:<queue>        zset    dead letters of the queue, by time in ms   with them
//	dead, deadids                 dead letters, as in every shard            7 days, 10,000 of a queue
//	idem:<digest>         string  a retry of a letter with an Idempotency-Key 24 h
//	once:<digest>         string  a call with an Idempotency-Key             24 h; a claim: its lease
//	run:<series>          string  last run of a series and its answers       10 min; of a large call 10 s
package jobs
