// Package stock has the stock of flash sales in Redis. As long as Redis keeps its writes, no unit
// is sold twice, lost, or refused while it is available. The package uses only Redis; package
// store/sales adds the record in SQL.
//
// All calls are methods of Live:
//
//	Put, Restock                        make and change a sale
//	Reserve, End, Extend                make a reservation, confirm or release it, extend its hold
//	Sale, Reservation, Reservations, EveryReservation, Now    read
//	BeginDelete, FinishDelete, CancelDelete, Forget    delete a sale
//	EraseUser                           take a user out, but for what was sold
//	Settings, UnrecordedSettings, UnrecordedRestocks, WaitingOrders    read what SQL should have
//	SettingsRecorded, OrdersRecorded    note that SQL has it
//	Load, RestoreOrders, RestoreRestocks, Open    bring a sale back from SQL
//	Figures                             numbers for operators
//	Run                                 return due holds, finish what crashes left undone
//
// "The record" is the data of a sale in SQL: its settings, its changes of stock and its orders.
// Data that SQL does not have yet is "owed" to the record, and Redis keeps it in outboxes until
// then. The ledger of a partition is its hash of reservations and users.
//
// ErrAbsent, ErrLoading and ErrStaleRun say that a sale has to be restored first. A change is
// published on ChangesChannel.
//
// Reservations of a partition that arrive while a script is under way share the next script, and so
// do confirmations and releases. Callers that share a script are a crowd, and each of them gets its
// own answer. A caller that repeats a call because the answer was lost gets the first answer, which
// is found by the reservation's id.
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
//	ff:{sale:<sale>:<n>}:facts:out      stream   see below       facts that were left and not moved yet (store/facts)
//	ff:{sale:<sale>:0}:totals           hash     see below       sku -> total
//	ff:{sale:<sale>:<n>}:once:<hash>    string   24 h or 1 min   idempotency record, or answer to one request
//	ff:{sale:<sale>:<n>}:wait           string   1 min           mark before WAIT
//	ff:{sale:<sale>:0}:restocks         hash     see below       call of a change of stock not on record -> "<end> <its idempotency record>"
//	ff:{sale:<sale>:0}:changes          channel                  each new version, or "deleted"
//	ff:{sales}:live                     hash     none            sale -> "<partitions> <another text after each change>", for sweepers
//	ff:{l:sale:<sale>}                  string   1 min           the right to move units (store/lock)
//
// The keys of a sale do not expire by themselves. A sweeper removes them 8 days after ends_at of
// the sale, but not within an hour after they were restored, and only if nothing is left to do.
//
// A reservation's record is "<state>|<user>|<created>|<expires>|<ended>|<the user's
// reservation before>|<sku>=<units>,...", with "|<the user's reservation after>" once there is
// one. The states are h held, s sold, r released and e expired. A reservation that was released
// or has expired is forgotten an hour later, so that the stock and one hour's reservations
// bound the ledger.
//
// A reservation's id is derived from its idempotency key or, without one, from the name of the
// call. So a repeated call finds the reservation, also when it came back from an order on
// record. A change of stock goes on record with the name of its call, and comes back with it.
//
// The fields of the hash sale:
//
//	version     rises with each change of the settings or totals
//	starts, ends, limit, hold, idle, partitions, max_hold, lows, skus    the settings; lows is "<sku>=<low_at>,...", or 0
//	terms       the first six of them in one text, for a quick read
//	run_id      the run of the server that the partition belongs to, see ErrStaleRun; "?" after
//	            the record refused a change, see Disown
//	closed      the sale is being loaded from the record, see ErrLoading, or deleted: then it
//	            names the deletion
//	loading     names the load that the partition comes from, or the call that made the sale;
//	            units move only between partitions of one loading, and SQL takes changes only
//	            from the latest one
//	opened      when a load ended before which Redis may have lost something
//	compared    when orders on record were last read again after it
//	used        when somebody reserved last
//	erased      set when the first user is taken out of the ledger, because that user is erased
//	moves       counts transfers that left or arrived
//	returns     counts the times at which units were put back on sale
//	owes        set while a sku may be oversold
//
// and in the first partition only:
//
//	recorded    the version that is on record
//	spread      the version that all partitions have
//	made        set once all partitions were made
//	balances    counts the corrections by Load
//	low         of a sale with several partitions: "<number of the change> <sku>,...", the skus of which it was told last
//	            that they are low (low.go)
//
// Facts (store/facts) are left in the outbox of the partition by the step that makes them true: hold.expired by the script that
// finds that a hold is over, order.created by the one that takes an order off the list of those that are not on record, or that
// brings back an order which Redis lost, and stock.below by the one that takes units. low.go tells what is different with several
// partitions. A script that may leave some names a key of the partition, never, that does not exist (partition.telling). A partition is not removed while there are facts in its outbox. With no type turned on, no script of a reservation has
// more to do.
//
// If neither moves nor returns of any partition changed between two reads of all of them, and
// nothing was on its way, the numbers read are proof of a shortage.
//
// For each sku of each partition, available + held + sold - oversold changes only by transfers
// and by changes of the total. Over all partitions, with the units on their way, it adds up to
// the total. Oversold units are those sold beyond the total because Redis lost writes in a
// fail-over; units that come back cover them before they are sold again.
//
// The first partition decides on changes of the sale. It adds and takes units itself, and transfers
// bring units to the other partitions, so that a change is one script. A user's reservations, limit
// and idempotency keys are only in the user's home partition.
package stock
