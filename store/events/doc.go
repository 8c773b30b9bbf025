// Package events accepts events, reports on them and knows the event types.
//
// It owns no keys of its own: everything about an event lives in the slot of
// its shard in the queues "events" and "notifications", written by the same
// step that changes the queue:
//
//	what                     where                                        lifetime
//	the entry and its page   queue events, the job's body                 until targeting is over
//	a large users audience   queue events, the job's attachment           until targeting is over
//	idempotency record       queue events, beside the shard               24 h
//	the event's report       queue events, beside the shard               retention after its last change
//	what its parts counted   queue events, group <event id>               retention after their last change
//	a page that was split    queue events, idempotency record             MaxAge
//	the shards' counters     queue notifications, group <event id>        retention after their last change
//
// The report is how far targeting has come, with its counts (progress.go). The process that
// works on the event writes it whole. A large audience becomes parts (part.go), jobs of
// the same queue. Counters of a notification shard: created,
// delivered, failed, expired, retrying.
package events
