package queue

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
