package events

import "fanfare/store/queue"

// keyWithdrawn is the stream of the ids of withdrawn events.
const keyWithdrawn = "ff:{withdrawn}:events"

// cancelledName ends the names of the streams of cancelled events, one beside each shard.
const cancelledName = "cancelled"

// openedName begins the names of the keys that say who got an event and opened it, beside the event's shard.
const openedName = "opened:"

// openedKey names the hash of an event's counts and of its first recipients. Behind the name are a colon and a bucket in those of
// the other recipients.
func openedKey(q *queue.Queue, shard int, event string) string {
	return q.KeyBeside(shard, openedName+event)
}

// noteKeys are those of recipients_note.lua.
func noteKeys(q *queue.Queue, shard int, event string) []string {
	report, _ := q.ReportKey(shard, event)
	return []string{openedKey(q, shard, event), report, q.KeyBeside(shard, "never")}
}

// countKeys are those of opened_count.lua, and the event's field in the hash of the report.
func countKeys(q *queue.Queue, shard int, event string) (keys []string, field string) {
	report, field := q.ReportKey(shard, event)
	return []string{q.KeyBeside(shard, "jobs"), report, openedKey(q, shard, event), q.KeyBeside(shard, "never")}, field
}

// keyLive names what the live events of an object have come to.
func keyLive(object string) string { return "ff:{live:" + object + "}:order" }

// cancelledKeys names the streams of the cancelled events, by their places.
func cancelledKeys(queues ...*queue.Queue) (keys []string) {
	for _, q := range queues {
		for shard := range q.Shards() {
			keys = append(keys, q.KeyBeside(shard, cancelledName))
		}
	}
	return keys
}
