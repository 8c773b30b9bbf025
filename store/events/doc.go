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
//	the event's record       queue events, group <event id>               retention after its last change
//	the shards' counters     queue notifications, group <event id>        retention after their last change
//
// Counters of the event's record: recipients, is_actor, opted_out, muted,
// no_device and the label targeted or expired; fact: type. Counters of a
// notification shard: created, delivered, failed, expired, retrying.
package events
