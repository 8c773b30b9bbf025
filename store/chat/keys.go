package chat

import (
	"hash/crc32"
	"strconv"
)

// buckets is the number of hash tags that chats are spread over.
const buckets = 256

func bucketOf(chat string) int { return int(crc32.ChecksumIEEE([]byte(chat)) % buckets) }

func bucketTag(bucket int) string { return "ff:{chat:" + strconv.Itoa(bucket) + "}:" }

func metaKey(chat string) string { return bucketTag(bucketOf(chat)) + "meta:" + chat }

// Fields of a chat's meta.
const (
	fieldEpoch = "e"
	fieldLast  = "l"
)

// Channels, which are no keys: what is published there is a hint.
func liveChannel(chat string) string { return "ff:live:chat:" + chat }

func userChannel(user string) string { return "ff:live:user:" + user }
