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

// openedKeys are those of the scripts about recipients: one whose prefix names all others, and one that never exists.
func openedKeys(q *queue.Queue, shard int) []string {
	return []string{q.KeyBeside(shard, "jobs"), q.KeyBeside(shard, "never")}
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
