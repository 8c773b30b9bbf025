package queue

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"

	"fanfare/store/queue/shard"
)

var idText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

var idEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewID makes a job id: 32 characters with the part of time (a 32nd of a second), the shard and 122 random bits. The
// part, the first six characters, decides which reports share a hash, those of jobs that arrive together, and says when
// the id was made (MadeAt).
func NewID(shard int, now time.Time) string {
	part := uint64(max(0, partAt(now)))
	var b [20]byte
	rand.Read(b[4:]) // never fails
	putHead(b[:], part<<10|uint64(shard&0xff)<<2|uint64(b[4]&3))
	return idText.EncodeToString(b[:])
}

const (
	partTime = time.Second / 32 // that ids tell apart
	partJobs = 64               // jobs of a batch that share a part
)

// putHead writes the first 40 bits of an id: 30 of the time, 8 of the shard, 2 random ones.
func putHead(b []byte, head uint64) {
	b[0], b[1], b[2], b[3], b[4] = byte(head>>32), byte(head>>24), byte(head>>16), byte(head>>8), byte(head)
}

// ParseID reads the shard of an id made by NewID.
func ParseID(id string) (n int, ok bool) {
	if len(id) != shard.IDLength {
		return 0, false
	}
	b, err := idText.DecodeString(id)
	if err != nil || len(b) != 20 {
		return 0, false
	}
	return int(b[3]<<6 | b[4]>>2), true
}

// MadeBefore reports whether NewID made an id up to a time, to a 32nd of a second. An id has only a
// part of its time: it is taken to have been made within half a year before or after.
func MadeBefore(id string, at time.Time) bool {
	part, ok := partOf(id, at)
	return ok && part <= partAt(at)
}

// MadeAt is when NewID made an id, to a 32nd of a second, if that was less than half a year ago; false: it is no id.
func MadeAt(id string) (time.Time, bool) {
	part, ok := partOf(id, time.Now())
	return idEpoch.Add(time.Duration(part) * partTime), ok
}

// partAt is the number of a time's 32nd of a second, counted from the begin of 2026.
func partAt(at time.Time) int64 { return int64(at.Sub(idEpoch) / partTime) }

// partOf is the number of the 32nd of a second in an id that NewID made. The id has its last 30 bits;
// of the numbers that end in them it is the one nearest to a time.
func partOf(id string, near time.Time) (part int64, ok bool) {
	b, err := idText.DecodeString(id)
	if err != nil || len(b) != 20 {
		return 0, false
	}
	const turn = 1 << 30 // parts after which ids begin again, 388 days
	from := partAt(near) - turn/2
	return from + (int64(binary.BigEndian.Uint64(b)>>34)-from)&(turn-1), true
}

// DeriveID makes the id of a batch's n-th job: of the shard of the first and of its time,
// of which many jobs take the next parts; a digest of at least 16 bytes is the rest. The
// same gives the same.
func DeriveID(first string, digest []byte, n int) string {
	b, err := idText.DecodeString(first)
	if err != nil || len(b) != 20 {
		return first
	}
	head := binary.BigEndian.Uint64(b) >> 24 &^ 3 // without the two random bits
	putHead(b, head+uint64(n/partJobs)<<10)
	copy(b[5:], digest)
	return idText.EncodeToString(b)
}
