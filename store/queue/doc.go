// Package queue is a durable queue on Redis Streams: shards, leases, retries,
// conflict keys, unique ids, delays, groups that count, reports, dead letters.
//
// This package has what callers see: a Queue and its Options, enqueueing, the work of a
// process (Run), dead letters, parked jobs, groups, reports and figures. What happens in one
// shard is the package shard: its comment says how a job is stored, what a lease is, what a
// call sent twice does, and lists the Redis keys.
//
// # The life of a job
//
//	          Enqueue
//	             │
//	delay ┌──────┴──────┐ another job has its conflict key
//	      v             v
//	    later         waiting line ── its head ends, fails, defers or is parked ──┐
//	      │ due                                                                   │
//	      v                                                                       │
//	    ready to run <────────────────────────────────────────────────────────────┘
//	      │    ^ ^ ^
//	claim │    │ │ └── Continue, Release; the lease of its process ended (after many times: dead)
//	      v    │ └──── moved back <── parked <── Park
//	    running└────── later <── Retry (a failure; after the last one: dead), Defer
//	      │
//	      ├── Done ──> gone; its result is in report, group and tombstone
//	      └── Dead ──> dead letter ── retried by an operator ──> ready to run
//
// The places of a process (InFlight) belong to no shard: shards that found none are woken
// in turns (shard/limiter.go). Calls use the places that their results free, unless other
// shards wait for places.
//
// # Parts of a job
//
// A handler that does a job in parts marks the parts that have ended (Claimed.Mark). Marks
// leave with the results, before that of the job itself. A process that takes the job
// over reads them (Marks).
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
