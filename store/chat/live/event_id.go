package live

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// MaxEventID is the largest id of an event in bytes, which a client sends back as Last-Event-ID. A
// chat that does not fit begins again at its acknowledged position.
const MaxEventID = 2048

// idVersion is the first byte of every id.
const idVersion = 1

// fingerprint is a hash of a chat and its epoch, of the few bytes that an id has for them.
type fingerprint struct {
	chat  [8]byte
	epoch [4]byte
}

func fingerprintOf(chat, epoch string) (p fingerprint) {
	sum := sha256.Sum256([]byte(chat))
	copy(p.chat[:], sum[:])
	sum = sha256.Sum256([]byte(epoch))
	copy(p.epoch[:], sum[:])
	return p
}

// resumePoint is the position in a chat that a client sent back.
type resumePoint struct {
	epoch    [4]byte
	position int64
}

// readEventID reads the positions, by chat, from an id that a client sent back. The id is not
// trusted: malformed text is ignored, and positions are used only for the user's own chats, up to
// their last ids.
func readEventID(id string) map[[8]byte]resumePoint {
	if len(id) > MaxEventID {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(text) == 0 || text[0] != idVersion {
		return nil
	}
	found := map[[8]byte]resumePoint{}
	for text = text[1:]; len(text) > 12; {
		var p fingerprint
		copy(p.chat[:], text)
		copy(p.epoch[:], text[8:])
		position, n := binary.Uvarint(text[12:])
		if n <= 0 || position > 1<<53 {
			return found
		}
		found[p.chat] = resumePoint{p.epoch, int64(position)}
		text = text[12+n:]
	}
	return found
}

// eventID is an id with the positions of as many chats as fit. It begins with chats that have
// messages which were delivered and not acknowledged, because these would otherwise be delivered
// again. The others follow: another device of the user may acknowledge what this stream has not
// delivered.
func (st *Stream) eventID() string {
	text := []byte{idVersion}
	add := func(of fingerprint, position int64) {
		if base64.RawURLEncoding.EncodedLen(len(text)+entryMax) <= MaxEventID {
			text = appendPoint(text, of, position)
		}
	}
	for _, c := range st.cursors {
		if c.position > c.acked {
			add(c.fingerprint, c.position)
		}
	}
	for chat, p := range st.resume { // chats that could not be read yet
		add(fingerprint{chat, p.epoch}, p.position)
	}
	for _, c := range st.cursors {
		if c.position <= c.acked {
			add(c.fingerprint, c.position)
		}
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// entryMax is the most bytes that one chat takes in an id.
const entryMax = 8 + 4 + binary.MaxVarintLen64

func appendPoint(text []byte, of fingerprint, position int64) []byte {
	text = append(append(text, of.chat[:]...), of.epoch[:]...)
	return binary.AppendUvarint(text, uint64(position))
}
