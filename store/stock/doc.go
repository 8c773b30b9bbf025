// Package stock is the stock of sales that everybody hits at once: no unit is
// sold twice, none lost, none refused while it is there, within what Redis
// itself promises. It knows Redis alone. Package store/sales stands on it and
// puts SQL behind it.
//
// Live is all there is to call:
//
//	Put, Restock                        make and change a sale
//	Reserve, End                        make a reservation, confirm or release it
//	Sale, Reservation, Reservations     read
//	Settings, UnrecordedSettings, UnrecordedRestocks, WaitingOrders    what belongs on record
//	SettingsRecorded, OrdersRecorded    say that it is there
//	Load, RestoreOrders, RestoreRestocks, Open    bring a sale back from the record
//	Figures                             numbers for operators
//	Run                                 return due holds, finish what a crash left
//
// ErrAbsent, ErrLoading and ErrStaleRun say that a sale has to be brought back
// first. A change is published on ChangesChannel.
//
// Reservations of a partition that arrive while a script is under way share the next
// one, and so do confirmations and releases (a crowd). Each caller has his own answer,
// and a repeat after a lost answer finds what was done by the reservation's id.
//
// Keys, one set for each partition of a sale, each in one slot:
//
//	key                                 type     lifetime        what
//	ff:{sale:<sale>:<n>}:sale           hash     see below       settings and counters of the partition
//	ff:{sale:<sale>:<n>}:stock          hash     see below       sku -> "<available> <held> <sold> <oversold>"
//	ff:{sale:<sale>:<n>}:book           hash     see below       reservation -> record, u:<user> -> "<units> <last reservation>"
//	ff:{sale:<sale>:<n>}:due            zset     see below       held reservation -> end of its hold, ms; ended one -> when it is forgotten
//	ff:{sale:<sale>:<n>}:orders         zset     see below       sold reservation that is not on record yet -> when, ms
//	ff:{sale:<sale>:<n>}:out            hash     see below       transfer on its way -> "<since>|<to>|<lines>"
//	ff:{sale:<sale>:<n>}:seen           set      see below       transfers that have arrived
//	ff:{sale:<sale>:0}:totals           hash     see below       sku -> total
//	ff:{sale:<sale>:<n>}:once:<hash>    string   24 h or 1 min   idempotency record, or answer to one request
//	ff:{sale:<sale>:<n>}:wait           string   1 min           mark before WAIT
//	ff:{sale:<sale>:0}:restocks         hash     see below       call of a change of stock not on record -> "<end> <its idempotency record>"
//	ff:{sale:<sale>:0}:changes          channel                  each new version
//	ff:{sales}:live                     hash     none            sale -> "<partitions> <another text after each change>", for sweepers
//	ff:{l:sale:<sale>}                  string   1 min           the right to move units (store/lock)
//
// A sale's keys have no lifetime: a sweeper removes them 8 days after its end, and not
// within an hour of their being read back, when nothing of it is left to do.
//
// A reservation's record is "<state>|<user>|<created>|<expires>|<ended>|<the
// user's one before>|<sku>=<units>,...", and "|<the user's one after>" once there is one:
// h held, s sold, r released, e expired. One that was released or has expired is forgotten
// an hour later, so that the ledger is bounded by the stock and by an hour's reservations.
//
// A reservation's id is derived from its idempotency key, or from the call: whoever calls
// again finds it, also when it came back from an order on record. A change of stock goes on
// record with the name of its call, and comes back with it.
//
// The fields of sale: version; starts, ends, limit, hold, idle, partitions, skus
// and, of the first six, terms, which one read fetches; run_id and closed, see
// ErrStaleRun and ErrLoading; loading, by which it was made or last read from the record: units
// move between partitions of the same alone, and SQL takes changes from the last one alone;
// run_id is "?" when the record refused a change, see Disown; opened, when that reading
// ended; compared, when orders were last looked for again; used, when somebody reserved
// last; moves, which counts transfers that left or came, and returns, which counts what was put
// back on sale: both unchanged between two passes over all partitions prove a
// shortage; owes, when something was oversold. In the first partition
// only: recorded, the version that is on record; spread, the version that all
// partitions have; made, that they were all made; balances, which counts what
// Load corrected.
//
// What holds in each partition of each sku: available + held + sold - oversold
// changes by transfers and changes of the total alone; with what is on its way it
// adds up to the total. Oversold is what was sold beyond that by a Redis that
// lost writes in a fail-over; what comes back covers it first.
//
// The first partition decides on changes of the sale. It adds and takes units
// itself; others get theirs by transfers, so a change is one script. A user's
// reservations, limit and idempotency keys are in his home partition alone.
package stock
