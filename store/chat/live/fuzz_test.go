package live

import (
	"encoding/base64"
	"strings"
	"testing"
)

// FuzzEventID reads what clients send back as Last-Event-ID. Positions are numbers
// that a chat can have, and there are no more than the text has room for.
func FuzzEventID(f *testing.F) {
	seal := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	c := cursor{fingerprint: fingerprintOf("team", "e"), position: 1 << 40}
	for _, seed := range []string{"", "AQ", seal("\x01" + string(appendPoint(nil, c.fingerprint, c.position))), seal("\x01" + strings.Repeat("x", 12) + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		seal("\x02" + strings.Repeat("x", 13)), seal("\x01" + strings.Repeat("\x00", 1500)), strings.Repeat("A", 3000), "a b", "\xff", "MQ=="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		found := readEventID(id)
		if len(found) > MaxEventID/13 {
			t.Fatalf("%d chats of %d bytes", len(found), len(id))
		}
		for chat, p := range found {
			if p.position < 0 || p.position > 1<<53 {
				t.Fatalf("%q has the position %d", id, p.position)
			}
			again := cursor{fingerprint: fingerprint{chat, p.epoch}, position: p.position}
			if readEventID(base64.RawURLEncoding.EncodeToString(appendPoint([]byte{idVersion}, again.fingerprint, again.position)))[chat] != p {
				t.Fatalf("%+v is another when it is written again", p)
			}
		}
	})
}
