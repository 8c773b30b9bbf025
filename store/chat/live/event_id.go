package live

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// The limits of an event's id, which a client sends back as Last-Event-ID.
const (
	// MaxEventID is how many bytes it may take. Chats that do not fit begin again
	// at their acknowledged position.
	MaxEventID = 2048
	// smallEventID is how long it may become with chats of which nothing would
	// be delivered twice without it.
	smallEventID = 256
)

// idVersion begins every id.
const idVersion = 1

// fingerprint is a chat and its epoch, hashed to the few bytes that an id has
// for them.
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

// resumePoint is where a client left off in a chat, as it says.
type resumePoint struct {
	epoch    [4]byte
	position int64
}

// readEventID reads what a client sent back, by chat. It is untrusted: any other
// text is ignored, and positions count only for the user's own chats, up to
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

// eventID has the position of each chat: first those with messages that were
// delivered and not acknowledged, which would otherwise be delivered again; then,
// in a short id, those delivered last.
func (st *Stream) eventID() string {
	text := []byte{idVersion}
	for _, c := range st.cursors {
		if c.position > c.acked && base64.RawURLEncoding.EncodedLen(len(text)+entryMax) <= MaxEventID {
			text = c.appendTo(text)
		}
	}
	for chat, p := range st.resume { // of chats that could not be read yet
		if base64.RawURLEncoding.EncodedLen(len(text)+entryMax) <= MaxEventID {
			text = appendPoint(text, fingerprint{chat, p.epoch}, p.position)
		}
	}
	for _, c := range st.cursors {
		if base64.RawURLEncoding.EncodedLen(len(text)+entryMax) > smallEventID {
			break
		}
		if c.position <= c.acked {
			text = c.appendTo(text)
		}
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// entryMax is the most bytes that one chat takes in an id.
const entryMax = 8 + 4 + binary.MaxVarintLen64

func (c *cursor) appendTo(text []byte) []byte {
	return appendPoint(text, c.fingerprint, c.position)
}

func appendPoint(text []byte, of fingerprint, position int64) []byte {
	text = append(append(text, of.chat[:]...), of.epoch[:]...)
	return binary.AppendUvarint(text, uint64(position))
}
