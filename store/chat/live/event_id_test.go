package live

import (
	"fmt"
	"strings"
	"testing"
)

// C13: an id has at most 2 KB, however many chats there are; those delivered
// last are in it.
func TestC13_EventIDHasABound(t *testing.T) {
	t.Parallel()
	st := &Stream{}
	for n := range 1000 {
		chat := fmt.Sprint(strings.Repeat("long", 30), n)
		st.cursors = append(st.cursors, &cursor{fingerprint: fingerprintOf(chat, "epoch"), position: 1 << 50, topic: &topic{chat: chat}})
	}
	id := st.eventID()
	points := readEventID(id)
	if len(id) > MaxEventID || len(points) < 60 {
		t.Fatalf("%d bytes for %d chats", len(id), len(points))
	}
	for n, c := range st.cursors {
		at, ok := points[c.fingerprint.chat]
		if ok != (n < len(points)) || ok && at != (resumePoint{c.fingerprint.epoch, c.position}) {
			t.Fatalf("chat %d: %v %+v", n, ok, at)
		}
	}
	for _, c := range st.cursors {
		c.acked = c.position
	}
	if id = st.eventID(); len(id) > MaxEventID || len(readEventID(id)) != len(points) {
		t.Errorf("%d chats in %d bytes, want %d, although they were acknowledged", len(readEventID(id)), len(id), len(points))
	}
	if id = (&Stream{}).eventID(); len(readEventID(id)) != 0 {
		t.Errorf("an id of no chats: %s", id)
	}
}
