package live

import (
	"context"
	"slices"

	"fanfare/store/chat"
)

// fewChats is up to how many chats a stream has no map of them.
const fewChats = 16

// cursor finds the cursor of a chat, nil when the stream has none.
func (st *Stream) cursor(chat string) *cursor {
	if st.cursors != nil {
		return st.cursors[chat]
	}
	for _, c := range st.order {
		if c.topic.chat == chat {
			return c
		}
	}
	return nil
}

// keep keeps a cursor.
func (st *Stream) keep(c *cursor) {
	st.order = append(st.order, c)
	switch {
	case st.cursors != nil:
		st.cursors[c.topic.chat] = c
	case len(st.order) > fewChats:
		st.cursors = make(map[string]*cursor, len(st.order))
		for _, c := range st.order {
			st.cursors[c.topic.chat] = c
		}
	}
}

// maxFormer bounds the chats of which a stream remembers that the user left
// them.
const maxFormer = 1000

// refresh reads which chats the user has and where he stands in them. What it
// returns is told before anything else.
func (st *Stream) refresh(ctx context.Context) ([]Event, error) {
	positions, err := st.hub.chats.Positions(ctx, st.user)
	if err != nil {
		return nil, err
	}
	var events []Event
	found := make(map[string]struct{}, len(positions))
	changed := false
	for i := range positions {
		p := &positions[i]
		found[p.Chat] = struct{}{}
		c := st.cursor(p.Chat)
		if c == nil {
			changed = true
			c, events = st.admit(events, p)
		} else if c.epoch != p.Epoch || c.position > p.LastID {
			events = st.reset(events, c, p)
		}
		c.acked = p.Acked
	}
	st.expel(found)
	st.left = nil // it was for the chats that the stream began with
	if changed && len(events) == 0 && !st.silent {
		events = append(events, Event{ID: st.eventID()})
	}
	return events, nil
}

// admit begins with a chat: where the client left off, if that is a place in
// this chat, else at the user's position.
func (st *Stream) admit(events []Event, p *chat.Position) (*cursor, []Event) {
	c := &cursor{epoch: p.Epoch, place: placeOf(p.Chat, p.Epoch), position: p.Acked, acked: p.Acked}
	was, ok := st.left[c.place.chat]
	lost := ok && (was.epoch != c.place.epoch || was.position > p.LastID)
	if ok && !lost {
		c.position = was.position
	}
	if epoch, ok := st.former[p.Chat]; ok && epoch != c.place.epoch {
		lost = true // another chat than the one that the user has left
	}
	delete(st.former, p.Chat)
	c.topic = st.hub.join(st, chat.MessageChannel(p.Chat), p.Chat)
	st.keep(c)
	if lost {
		events = append(events, st.gap(c, p.FirstID))
	}
	return c, events
}

// reset begins anew with a chat that is another one by now, or of which Redis
// has lost messages that were delivered.
func (st *Stream) reset(events []Event, c *cursor, p *chat.Position) []Event {
	c.epoch, c.position, c.acked = p.Epoch, p.Acked, p.Acked
	c.place = placeOf(p.Chat, p.Epoch)
	st.mark(p.Chat)
	return append(events, st.gap(c, p.FirstID))
}

// expel ends with the chats that the user is no member of any more.
func (st *Stream) expel(found map[string]struct{}) {
	for _, c := range slices.Clone(st.order) {
		chat := c.topic.chat
		if _, ok := found[chat]; ok {
			continue
		}
		st.hub.leave(st, c.topic)
		if st.former == nil || len(st.former) > maxFormer {
			st.former = map[string][4]byte{}
		}
		st.former[chat] = c.place.epoch
		delete(st.cursors, chat)
		st.order = slices.DeleteFunc(st.order, func(o *cursor) bool { return o == c })
	}
}
