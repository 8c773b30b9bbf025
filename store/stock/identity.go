package stock

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"fanfare/api"
)

// Home is the partition of a user: there are his reservations and his limit.
func Home(user string, partitions int) int {
	return int(xxhash.Sum64String(user) % uint64(max(partitions, 1)))
}

const (
	idPrefix = 2  // hex digits of the partition at an id's beginning
	idLength = 28 // with 128 random bits in base32
)

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// newID makes a reservation's id, which tells its partition.
func newID(partition int) string {
	var b [17]byte
	b[0] = byte(partition)
	rand.Read(b[1:]) // never fails
	var id [idLength]byte
	hex.Encode(id[:idPrefix], b[:1])
	idText.Encode(id[idPrefix:], b[1:])
	return string(id[:])
}

// PartitionOf reads the partition out of a reservation's id; false when the
// text cannot be one.
func PartitionOf(id string) (int, bool) {
	if len(id) != idLength {
		return 0, false
	}
	n, err := strconv.ParseUint(id[:idPrefix], 16, 8)
	if err != nil || n >= api.MaxPartitions {
		return 0, false
	}
	_, err = idText.DecodeString(id[idPrefix:])
	return int(n), err == nil
}
