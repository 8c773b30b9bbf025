package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

const (
	frameHeader     = 9
	maxWatchedFrame = 64 * 6 // bytes of a SETTINGS or GOAWAY frame that are looked at
)

// frameWatch reads along what the peer sends and picks out the two frames that
// the pool must know of, since http2.ClientConn keeps them to itself: SETTINGS
// with MAX_CONCURRENT_STREAMS, and GOAWAY with its last stream.
type frameWatch struct {
	header  [frameHeader]byte
	have    int    // bytes of header
	left    int    // bytes of payload to come
	payload []byte // of a watched frame
	// settings is called for each SETTINGS frame; streams is -1 when the frame
	// does not name MAX_CONCURRENT_STREAMS.
	settings func(streams int)
	goAway   func(last uint32)
}

// feed takes the next bytes from the peer.
func (w *frameWatch) feed(b []byte) {
	for len(b) > 0 {
		if w.have < frameHeader {
			n := copy(w.header[w.have:], b)
			w.have += n
			b = b[n:]
			if w.have < frameHeader {
				return
			}
			w.left = int(w.header[0])<<16 | int(w.header[1])<<8 | int(w.header[2])
			w.payload = w.payload[:0]
		}
		n := min(w.left, len(b))
		if w.watched() {
			w.payload = append(w.payload, b[:min(n, maxWatchedFrame-len(w.payload))]...)
		}
		w.left -= n
		b = b[n:]
		if w.left == 0 {
			w.have = 0
			w.end()
		}
	}
}

// kind is the type of the frame whose header was read.
func (w *frameWatch) kind() http2.FrameType { return http2.FrameType(w.header[3]) }

// watched says whether the payload of this frame is looked at.
func (w *frameWatch) watched() bool {
	return w.kind() == http2.FrameSettings || w.kind() == http2.FrameGoAway
}

// end looks at a complete frame.
func (w *frameWatch) end() {
	switch {
	case w.kind() == http2.FrameGoAway && len(w.payload) >= 4:
		w.goAway(binary.BigEndian.Uint32(w.payload) & (1<<31 - 1))
	case w.kind() == http2.FrameSettings && http2.Flags(w.header[4])&http2.FlagSettingsAck == 0:
		w.settings(maxStreams(w.payload))
	}
}

// maxStreams finds MAX_CONCURRENT_STREAMS in a SETTINGS payload, else -1.
func maxStreams(payload []byte) int {
	streams := -1
	for ; len(payload) >= 6; payload = payload[6:] {
		if http2.SettingID(binary.BigEndian.Uint16(payload)) == http2.SettingMaxConcurrentStreams {
			streams = int(min(binary.BigEndian.Uint32(payload[2:]), 1<<31-1))
		}
	}
	return streams
}
