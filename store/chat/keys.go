package chat

import (
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
)

// All keys of one chat have the tag of its bucket, and so they are in one slot. The chats of a
// bucket share a list of chats with pushes due, so that a sweeper finds all of these by reading 256
// keys. No identifier can contain a brace, a slash or a blank. The scripts make names from the
// first two keys by the same rules.

// buckets is the number of tags over which chats are spread. It cannot change while there are
// chats.
const buckets = 256

// Buckets is the number of outboxes with facts about chats.
const Buckets = buckets

// FactOutbox gives the name and the key of a bucket's outbox, which has the facts about its chats until the relay moves them
// (store/facts).
func FactOutbox(bucket int) (name, key string) {
	return "chat." + strconv.Itoa(bucket), bucketTag(bucket) + "facts:out"
}

func bucketOf(chat string) int { return int(crc32.ChecksumIEEE([]byte(chat)) % buckets) }

// bucketTag is the beginning of all keys of a bucket.
func bucketTag(bucket int) string {
	digits := strconv.Itoa(1000 + bucket)
	return "ff:{chat:" + digits[1:] + "}:"
}

func metaKey(chat string) string { return bucketTag(bucketOf(chat)) + "meta:" + chat }

// membersKey has the members of a chat, with what each has acknowledged.
func membersKey(chat string) string { return bucketTag(bucketOf(chat)) + "members:" + chat }

func dueKey(bucket int) string { return bucketTag(bucket) + "due" }

// LifeOf is an epoch without the run of Redis that ends it. It is the same from the making of a chat
// to its end; part_chat.lua has the same rule.
func LifeOf(epoch string) string {
	life, _, _ := strings.Cut(epoch, ".")
	return life
}

// recordKey is the record of a request, in the slot of its chat.
func recordKey(chat, name string) string { return bucketTag(bucketOf(chat)) + "once:" + name }

// chatKeys are the keys that every script of a chat takes.
func chatKeys(chat string) []string { return []string{metaKey(chat), dueKey(bucketOf(chat))} }

// indexKey is a user's list of chats.
func indexKey(user string) string { return "ff:{chats:" + user + "}:index" }

// claimKey reserves an Idempotency-Key of POST /v1/chats for one body.
func claimKey(name string) string { return "ff:{chatkey:" + name + "}:claim" }

// sweepKey is held by the process that sweeps pushes that others left behind.
const sweepKey = "ff:{chatsweep}:turn"

// MessageChannel is the channel of pub/sub on which the messages of a chat are
// published, as DecodePublished reads them.
func (s *Store) MessageChannel(chat string) string { return s.messageChannels(chat) + chat }

// messageChannels is the beginning of the channels of chats that a call may name together. On a
// Cluster they have the tag of the bucket, so that the script that stores a message may publish it:
// a script may publish only in its own slot.
func (s *Store) messageChannels(chat string) string {
	if s.clustered {
		return bucketTag(bucketOf(chat)) + "live:"
	}
	return "ff:live:chat:"
}

// MembershipChannel is the channel on which the chats are published that a user joins ("+<chat>")
// or leaves ("-<chat>").
func MembershipChannel(user string) string { return membershipChannels + user }

const membershipChannels = "ff:live:user:"

const (
	// keyTTL is how long an Idempotency-Key is remembered.
	keyTTL = api.IdempotencyTTL
	// requestTTL is how long a call of the script that sends is remembered: longer than the client
	// of Redis may take to send it a second time.
	requestTTL = 15 * time.Second
	// repairAge is the age from which an entry of an index, without a membership, counts as left by
	// a crash: a join writes the entry before the membership.
	repairAge = 60 * time.Second
)

// ChatsOf lists the chats whose keys are among these keys of Redis. Each chat has one of them.
func ChatsOf(keys []string) (chats []string) {
	for _, key := range keys {
		if _, chat, found := strings.Cut(key, "}:meta:"); found && strings.HasPrefix(key, "ff:{chat:") {
			chats = append(chats, chat)
		}
	}
	return chats
}
