// Package redisdb opens Redis and makes every round trip to it. Redis may be embedded (miniredis,
// for trying things out in one process), a single node, Sentinel or Cluster; the calls are the
// same.
//
// It owns no keys. Its promises:
//
//   - Share gathers: commands that arrive while a round trip is in flight leave
//     together in the next one. There is one queue for each master, a round
//     trip carries at most 64 KiB and has a deadline of its own, and a caller that
//     gives up ends only its own wait.
//   - An error says what is known. "unavailable" means that nothing happened,
//     "unknown_outcome" that a write may have happened, "overloaded" that Redis
//     refused for want of memory.
//   - A command whose answer was lost is sent a second time if the deadline
//     leaves room. So a mutating script carries a request id or is naturally
//     idempotent; answers of the second run must equal those of the first.
//   - A script that a server does not know is loaded on all masters and run
//     again; nobody has to load scripts at start.
//   - A master of a Cluster that hangs costs one time-out. From then on its commands
//     are refused at once, until it answers a probe.
//   - Blocking reads and pub/sub have connections of their own and never empty
//     the pool of the requests.
package redisdb
