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
		st.order = append(st.order, &cursor{place: placeOf(chat, "epoch"), position: 1 << 50, topic: &topic{chat: chat}})
	}
	id := st.eventID()
	places := readEventID(id)
	if len(id) > MaxEventID || len(places) < 60 {
		t.Fatalf("%d bytes for %d chats", len(id), len(places))
	}
	for n, c := range st.order {
		place, ok := places[c.place.chat]
		if ok != (n < len(places)) || ok && place != (left{c.place.epoch, c.position}) {
			t.Fatalf("chat %d: %v %+v", n, ok, place)
		}
	}
	for _, c := range st.order {
		c.acked = c.position
	}
	if id = st.eventID(); len(id) > smallEventID {
		t.Errorf("%d bytes though nothing would come again", len(id))
	}
	if id = (&Stream{}).eventID(); len(readEventID(id)) != 0 {
		t.Errorf("an id of no chats: %s", id)
	}
}
