// Package facts keeps what happened, for whoever wants to read it: one fact for each thing, in the order in which it happened
// to its key. docs/spec/facts.md says what is promised.
//
// # Lanes
//
// There are as many lanes as the queue of events has shards, and lane n is in the slot of shard n. A fact is in the lane of
// its key: the shard of the event if the key is an event's id, otherwise the shard to which the queue routes the key. Facts of a
// partition of a sale are all in the lane to which the queue routes the partition (OutboxOfSlot). A fact's
// id is "<lane>-<ms>-<number>". The time never falls, even if a clock is set back, and the number rises by one with each
// fact of the lane, so that a reader can tell how many it has missed.
//
// # Where facts come from
//
// The script that makes a fact true appends it to the lane, if the lane is in the slot of the script. The script of another
// slot leaves it in the outbox of that slot, and a relay moves it (relay.go). A process looks at once at the outboxes in which
// it has left something, and the processes take turns at looking at all of them, each second (sweep.go). A lane remembers the last
// id that it got from each outbox: so two relays at the same time, or a crash between the two slots, change nothing. Ids in an
// outbox begin with Redis' time: if a replica that lost writes takes over with a clock that is behind by more than its absence,
// what it leaves until it has caught up is not moved.
//
// Most outboxes are a fixed list: those of the shards of queues, one of all apps, and one of each of the buckets into which chats are
// divided. So what a lane remembers does not grow with the chats, and the facts of a chat that is gone are still moved. Only outboxes
// of sales come and go: a lane forgets one after 30 days, and takes no fact that is older from an outbox that it does not know.
//
// A step in SQL leaves its fact in the outbox of SQL, in its transaction (recorded.go).
//
// A large event, or one with notifications that had to wait, is over when the last of them has ended, in any shard. The script
// that ends one which may be the last leaves a note about the event, and so does the end of the event itself. The relay then
// reads the event's report. If it is over, the relay first moves all that was left before, and then tells that it is over.
//
// # Which facts there are
//
// Only facts of the types that somebody asked for are written (Switch). SQL knows them, and each process reads them every
// second. A process that could not read them for three seconds writes facts of all types, also if none was on when it read them last:
// another process that has SQL may have turned one on since, and has promised that none is missing after five seconds.
//
// Keys, all beside those of the shards of the queues (store/queue/shard), and so with their prefixes:
//
//	facts               stream   the lane: t type, k key, a when in ms or '', d data   7 days, 1,000,000, 5 % of maxmemory in all lanes
//	facts:last          string   id of the lane's last fact                             for ever
//	facts:from          hash     outbox: the last id that was moved from it             31 days after the last
//	facts:done:<begin>  hash     rest of an event's id: it was told that it is over     Options.KeepDone after one was told
//	                             rest of the id of a row in SQL: it was told            8 days after one was told
//	facts:out           stream   the outbox, entries as in a lane                       until they are moved
//	facts:turn:<sweep>  string   a request of the process that sweeps, beside shard 0   0.7 s, or 30 s
//	ff:facts            channel  there is something new in a lane
//
// lua/fact_append.lua and lua/fact_leave.lua of the package redisdb, which scripts of several packages include, have the same names.
package facts
