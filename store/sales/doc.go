// Package sales has the sales of the API: the live stock of store/stock in Redis, and the record in
// SQL. Redis decides, and its decisions are written to SQL.
//
//   - Settings are on record before a change is answered. If a process dies in between, a
//     sweep completes the change.
//   - Jobs of the queue "jobs" (JobOrder) write orders. A sold reservation waits in Redis
//     until its order is on record; if a process dies before it enqueued the job, a sweep
//     does so.
//   - A sale that Redis lost, or that may lack writes after a fail-over, is brought back from
//     the record on first use, by one process at a time.
//   - A process answers from its memory, at most 100 ms old, that a sale is sold out and what
//     is available. Streams read from there too.
//   - Tries of one user per second, and reservations under way in one process, are bounded.
//
// The package has one key. The keys of the stock are in package stock:
//
//	key                          type     lifetime   what
//	ff:{l:sale-restore:<sale>}   string   1 min      the right to bring a sale back (store/lock)
package sales
