// Package sales is sales as clients know them: the live stock of store/stock,
// and behind it the record in SQL. What Redis decides is what counts; what it
// decides reaches SQL.
//
//   - Settings are on record before a change is answered. Where a process dies in
//     between, a sweep completes it.
//   - Orders are written by jobs of the queue "jobs" (JobOrder). A reservation that
//     was sold waits in Redis until its order is on record; a sweep enqueues what a
//     dead process did not.
//   - A sale that Redis lost, or may have lost writes of in a fail-over, is brought
//     back from the record on first use, by one process at a time.
//   - Crowds are answered from this process's memory for at most 100 ms: that a sale
//     is sold out, and how it stands. Streams read it from there too.
//   - A user may try a few times a second, and a process takes so many reservations
//     at once.
//
// The package has one key of its own; those of the stock are in package stock:
//
//	key                          type     lifetime   what
//	ff:{l:sale-restore:<sale>}   string   1 min      the right to bring a sale back (store/lock)
package sales
