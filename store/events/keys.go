package events

import "fanfare/store/queue"

// keyWithdrawn is the stream of the ids of withdrawn events.
const keyWithdrawn = "ff:{withdrawn}:events"

// cancelledName ends the names of the streams of cancelled events, one beside each shard.
const cancelledName = "cancelled"

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
