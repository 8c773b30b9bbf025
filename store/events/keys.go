package events

import "fanfare/store/queue"

// keyWithdrawn is the stream of the ids of withdrawn events.
const keyWithdrawn = "ff:{withdrawn}:events"

// cancelledName ends the names of the streams of cancelled events, one beside each shard.
const cancelledName = "cancelled"

// cancelledKeys names the streams of the cancelled events, by their places.
func cancelledKeys(queues ...*queue.Queue) (keys []string) {
	for _, q := range queues {
		for shard := range q.Shards() {
			keys = append(keys, q.KeyBeside(shard, cancelledName))
		}
	}
	return keys
}
