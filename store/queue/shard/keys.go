package shard

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// Lifetimes and bounds that are not configuration.
const (
	maxLost      = 8                // leases that may end before a job is dead
	claimBytes   = 1 << 20          // payloads of one claim
	enqueueJobs  = 100              // jobs of one enqueueing call, when they are of several requests
	enqueueBytes = 1 << 20          // payloads of one enqueueing call, when there are several requests
	finishJobs   = 200              // results of one finishing call
	memoTTL      = 10 * time.Minute // how long a call is remembered
	nameLength   = 10               // of the random names of sessions and series, 5 bits each
	group        = "g"              // the consumer group of every stream
	readConsumer = "reader"         // the consumer of all blocking reads
	form         = "8:"             // begins the number of shards in meta: the form of the keys
)

// metaKey names the hash that fixes a queue's number of shards.
func (c *Common) metaKey() string { return "ff:{q:" + c.Name + "}:meta" }

// Keys are those of the shard's scripts: one whose prefix names all others, and one that never exists.
// While a slot of a Cluster moves, a script with two keys of which one is missing is
// refused before it runs, instead of stopping midway at a key that has moved already.
func (s *Shard) Keys() []string { return []string{s.prefix + "jobs", s.prefix + "never"} }

// streams are those whose entries a blocking read waits for.
func (s *Shard) streams() (ready, main string) { return s.prefix + "ready", s.prefix + "main" }

// GroupKey names the hash with a group's record, and the record's field there;
// part_group.lua has the same rule.
func (s *Shard) GroupKey(name string) (key, field string) {
	n := min(6, len(name))
	return s.prefix + "group:" + name[:n], name[n:]
}

// GuardKey names the companion record that SetGuards stores.
func (s *Shard) GuardKey(name string) string { return s.prefix + "guard:" + name }

// MarksKey names the hash with the marks of a job.
func (s *Shard) MarksKey(id string) string { return s.prefix + "marks:" + id }

// AttachKey names the list with the attachment of a job.
func (s *Shard) AttachKey(id string) string { return s.prefix + "attach:" + id }

// ReportKey names the hash with the report of a job, and its field there;
// part_report.lua has the same rule.
func (s *Shard) ReportKey(id string) (key, field string) {
	n := min(6, len(id))
	return s.prefix + "report:" + id[:n], id[n:]
}

// DeadKey names the stream of dead letters.
func (s *Shard) DeadKey() string { return s.prefix + "dead" }

// ParkedCountsKey names the hash of how many jobs are parked under each name.
func (s *Shard) ParkedCountsKey() string { return s.prefix + "parkedn" }

// KeyBeside names a key that is in the shard's slot and not the queue's.
func (s *Shard) KeyBeside(name string) string { return s.prefix + name }

// NotesKey names the notes of a group's jobs, or of a job without a group.
func (s *Shard) NotesKey(name string) string { return s.prefix + "notes:" + name }

// FailedKey names the failures of a group, or of a job without a group.
func (s *Shard) FailedKey(name string) string { return s.prefix + "failed:" + name }

// OnceKey names the record of an idempotency key.
func (s *Shard) OnceKey(key string) string { return s.prefix + "idem:" + onceName(key) }

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
	for tens := int64(0); ; tens++ { // some 1,600 tries, of ten numbers each that differ in their last digit
		head := tag
		if tens > 0 {
			head = strconv.AppendInt(tag, tens, 10)
		}
		sum := crc16(begun, head[len(tag):])
		for digit := byte('0'); digit <= '9'; digit++ {
			if int(crc16(sum, []byte{digit})%slots) == target {
				return "ff:{" + string(append(head, digit)) + "}:"
			}
		}
	}
}

// slots is how many a Redis Cluster has.
const slots = 16384

// crc16 goes on with the checksum of which a Cluster makes slots: CRC-16/XMODEM.
func crc16(sum uint16, text []byte) uint16 {
	for _, b := range text {
		x := byte(sum>>8) ^ b
		x ^= x >> 4
		sum = sum<<8 ^ uint16(x)<<12 ^ uint16(x)<<5 ^ uint16(x)
	}
	return sum
}
