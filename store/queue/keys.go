package queue

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// Lifetimes and bounds that are not configuration.
const (
	defaultShards         = 8
	defaultLease          = 30 * time.Second
	defaultRetention      = time.Hour
	defaultGroupRetention = 24 * time.Hour
	defaultMaxAge         = 24 * time.Hour
	defaultRetryBase      = 500 * time.Millisecond
	defaultRetryMax       = 5 * time.Minute
	defaultMaxAttempts    = 8
	defaultBatch          = 100
	defaultInFlight       = 1000
	defaultOnceTTL        = 24 * time.Hour

	maxLost       = 8                  // leases that may end before a job is dead
	deadRetention = 7 * 24 * time.Hour // of a dead letter
	maxDead       = 100_000            // dead letters of a shard
	claimBytes    = 1 << 20            // payloads of one claim
	enqueueJobs   = 100                // jobs of one enqueueing call, when they are of several requests
	enqueueBytes  = 1 << 20            // payloads of one enqueueing call, when there are several requests
	finishJobs    = 200                // results of one finishing call
	memoTTL       = 10 * time.Minute   // how long a call is remembered
	group         = "g"                // the consumer group of every stream
	readConsumer  = "reader"           // the consumer of all blocking reads
	form          = "7:"               // begins the number of shards in meta: the form of the keys
)

// metaKey names the hash that fixes a queue's number of shards.
func (q *Queue) metaKey() string { return "ff:{q:" + q.o.Name + "}:meta" }

// prefix begins every key of a shard.
func (q *Queue) prefix(shard int) string { return q.prefixes[shard] }

// keys of a shard's scripts: one whose prefix names all others, and one that never exists.
// While a slot of a Cluster moves, a script with two keys of which one is missing is
// refused before it runs, instead of stopping midway at a key that has moved already.
func (q *Queue) keys(shard int) []string {
	p := q.prefix(shard)
	return []string{p + "jobs", p + "never"}
}

func (q *Queue) stream(shard int, letter byte) string {
	switch letter {
	case 'm':
		return q.prefix(shard) + "main"
	case 'r':
		return q.prefix(shard) + "ready"
	}
	return q.prefix(shard) + "alone"
}

// groupKey names the hash with a group's record, and the record's field there;
// part_group.lua has the same rule.
func (q *Queue) groupKey(shard int, name string) (key, field string) {
	n := min(6, len(name))
	return q.prefix(shard) + "group:" + name[:n], name[n:]
}

func (q *Queue) guardKey(shard int, name string) string { return q.prefix(shard) + "guard:" + name }

func (q *Queue) marksKey(shard int, id string) string { return q.prefix(shard) + "marks:" + id }

func (q *Queue) attachKey(shard int, id string) string { return q.prefix(shard) + "attach:" + id }

// reportKey names the hash with the report of a job, and its field there;
// part_report.lua has the same rule.
func (q *Queue) reportKey(shard int, id string) (key, field string) {
	n := min(6, len(id))
	return q.prefix(shard) + "report:" + id[:n], id[n:]
}

func (q *Queue) deadKey(shard int) string { return q.prefix(shard) + "dead" }

// onceName is a short name for an idempotency key of any length.
func onceName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// turns are the queues of one fanfare, in the order in which their shards take turns over
// the slots. Another queue begins where the first does.
var turns = map[string]int{"events": 0, "notifications": 1, "jobs": 2}

// Prefix begins every key of a shard. Its braces put them into one slot, and a number in
// them says which: the shards of a queue lie at equal distances, and so do those of all
// three queues. Masters that share the slots equally have equal shares of both.
func Prefix(queue string, shard, shards int) string {
	target := (2*(3*shard+turns[queue]) + 1) * slots / (6 * shards)
	tag := []byte("q:" + queue + ":" + strconv.Itoa(shard) + ".")
	begun := crc16(0, tag)
	for n := int64(0); ; n++ { // some 16,384 tries
		var number [20]byte
		end := strconv.AppendInt(number[:0], n, 10)
		if int(crc16(begun, end)%slots) == target {
			return "ff:{" + string(append(tag, end...)) + "}:"
		}
	}
}
