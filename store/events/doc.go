// Package events accepts events, reports on them and has the event types.
//
// Everything about an event is in the slots of the queues "events" and "notifications", and is
// written in the same step that changes the queue, apart from the streams of withdrawn and cancelled events:
//
//	what                     where                                        lifetime
//	the entry and its page   queue events, the job's body                 until targeting is over
//	a large users audience   queue events, the job's attachment           until targeting is over
//	idempotency record       queue events, beside the shard               24 h
//	the event's report       queue events, beside the shard               retention after its last change
//	what its parts counted   queue events, group <event id>               retention after their last change
//	a page that was split    queue events, idempotency record             the queue's MaxAge
//	the shards' counters     queue notifications, group <event id>        retention after their last change
//	which of them failed     both queues, group <event id>                as the counters
//	it is cancelled          beside the report                            as the report
//	who gets it and opens    beside the shard: opened:<event>, a hash     from the last note: twice MaxAge and
//	it, if its type counts   of the counts opened and dismissed and of    retention, or as the hash with the report
//	                         8 bytes of each recipient's digest: 0, and
//	                         1 for opened, 2 for dismissed added; those
//	                         after the first 400 are in hashes under
//	                         opened:<event>:<bucket>, first 0 to 15, and
//	                         when that is full 16 to 1039
//	withdrawn events         ff:{withdrawn}:events, a stream              3 times MaxAge and 14 days
//	cancelled events         beside each shard: cancelled, a stream       MaxAge and 14 days
//	live events of an object ff:{live:<object>}:order, a hash             MaxAge and 7 days; behind an end MaxAge
//
// The report says how far targeting has come, with its counts (progress.go). The process that works
// on the event always writes the whole report. A large audience becomes parts (part.go), which are
// jobs of the same queue. A shard of notifications has the counters created, delivered, failed,
// expired, cancelled, superseded and retrying.
//
// An event that the server itself made can be withdrawn (withdrawn.go): its notifications are then not
// written any more. A process that sends has the withdrawn events in memory, and reads the new ones
// while it has notifications that may be withdrawn.
//
// An event can be cancelled (cancel.go), which uses a set of ids of the same kind, with a stream in the slot of each
// shard of both queues. A process reads the new ones beside a shard while it has notifications of it, or events of it
// that are older than a second.
package events
