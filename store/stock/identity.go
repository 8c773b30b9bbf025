package stock

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"fanfare/api"
)

// Home is a user's partition: it has all reservations of the user, and counts the user's
// limit.
func Home(user string, partitions int) int {
	return int(xxhash.Sum64String(user) % uint64(max(partitions, 1)))
}

const (
	idPrefix = 2  // hex digits of the partition at an id's beginning
	idLength = 28 // with 128 bits in base32
)

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// idOf is the id of the reservation that a call makes in a partition; the id begins with the
// partition. Each repeat of the call has the same id, so the reservation itself, in Redis or as
// an order on record, shows that the call was made before.
func idOf(p *partition, call string) string {
	var b [17]byte
	b[0] = byte(p.index)
	sum := sha256.Sum256([]byte(p.sale + "\x00" + call))
	copy(b[1:], sum[:])
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

// partitionWith is the partition that has a reservation; false when the text cannot be an id. An
// order on record may name a partition that its sale does not have: two masters made the sale at
// the same time, and the one that SQL refused had more partitions. One of those there are has
// such a reservation.
func partitionWith(parts []*partition, id string) (*partition, bool) {
	n, ok := PartitionOf(id)
	return parts[n%len(parts)], ok
}
