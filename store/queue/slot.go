package queue

import "strconv"

// slots is how many a Redis Cluster has.
const slots = 16384

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

// crc16 goes on with the checksum of which a Cluster makes slots: CRC-16/XMODEM.
func crc16(sum uint16, text []byte) uint16 {
	for _, b := range text {
		x := byte(sum>>8) ^ b
		x ^= x >> 4
		sum = sum<<8 ^ uint16(x)<<12 ^ uint16(x)<<5 ^ uint16(x)
	}
	return sum
}
