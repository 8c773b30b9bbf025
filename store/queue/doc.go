// Package queue is a durable queue on Redis Streams: shards, leases, retries,
// conflict keys, unique ids, delays, groups that count, reports, dead letters.
//
// This package has what callers see: a Queue with its Options, enqueueing (enqueue.go), the
// work of a process (run.go), dead letters (dead.go), parked jobs (control.go), groups,
// guards, reports and attachments (group.go) and figures (stats.go). The package shard does
// the work in one shard, and its comment describes the keys, how a job is stored and what
// happens to it.
//
// # Shards and processes
//
// A job belongs to one shard, which its conflict key, its unique id or its id chooses
// (Route). All that concerns several shards is done here, mostly in one round trip for all
// of them. Run has a worker for each shard that it serves and one look at all leases, ten
// times a lease.
//
// The places of a process (InFlight) belong to no shard: shards that found none are woken
// in turns (limiter.go). Calls use the places that their results free, unless other
// shards wait for places.
//
// # Parts of a job
//
// A handler that does a job in parts marks the parts that have ended (marks.go). Marks
// leave with the results, before that of the job itself. A process that takes the job
// over reads them.
//
// # What is promised, and what is not
//
// At least once. Two jobs of one conflict key never run at once as long as
// handlers heed Alive and their context. A handler that ignores both, or a
// process that is paused between Alive and its write, can overlap with its
// successor; compare fences where that matters. A fail-over of Redis that loses
// acknowledged writes loses or repeats the work of those writes. If the connection of a
// blocking read dies silently and no other process works on the shard, the worker notices
// it at its next look.
package queue
