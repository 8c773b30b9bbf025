package live

import (
	"context"
	"maps"
	"slices"

	"fanfare/store/chat"
)

// fewChats is the number of chats up to which a stream searches without a map.
const fewChats = 16

// cursor finds the cursor of a chat; nil if the stream has none.
func (st *Stream) cursor(chat string) *cursor {
	if st.byChat != nil {
		return st.byChat[chat]
	}
	for _, c := range st.cursors {
		if c.topic.chat == chat {
			return c
		}
	}
	return nil
}

// addCursor adds the cursor of a chat.
func (st *Stream) addCursor(c *cursor) {
	st.cursors = append(st.cursors, c)
	switch {
	case st.byChat != nil:
		st.byChat[c.topic.chat] = c
	case len(st.cursors) > fewChats:
		st.byChat = make(map[string]*cursor, len(st.cursors))
		for _, c := range st.cursors {
			st.byChat[c.topic.chat] = c
		}
	}
}

// maxFormerEpochs is how many chats a stream remembers that the user has left.
const maxFormerEpochs = 1000

// refreshChats reads the user's chats and the positions in them. The events that it returns are
// delivered before any others. Chats that cannot be read stay unchanged, and are read again soon.
func (st *Stream) refreshChats(ctx context.Context) ([]Event, error) {
	positions, err := st.hub.chats.Positions(ctx, st.user)
	if err != nil {
		return nil, err
	}
	var events []Event
	found := make(map[string]struct{}, len(positions))
	changed, unread := false, false
	for i := range positions {
		p := &positions[i]
		found[p.Chat] = struct{}{}
		if p.Err != nil {
			unread = true
			continue
		}
		c := st.cursor(p.Chat)
		switch {
		case c == nil:
			changed = true
			c, events = st.addChat(events, p)
		case c.epoch != p.Epoch && goesOn(p, c.fingerprint.epoch, c.position):
			c.adopt(p.Epoch)
			st.mark(p.Chat)
		case c.epoch != p.Epoch || c.position > p.LastID:
			events = st.restartChat(events, c, p)
		}
		c.acked = p.Acked
	}
	unread = st.keepLost(ctx, found) || unread
	st.removeChats(found)
	if unread {
		st.rereadLater()
	} else {
		st.resume = nil // it applies only to the chats with which the stream begins
	}
	if changed && len(events) == 0 && !st.poll {
		events = append(events, Event{ID: st.eventID()})
	}
	return events, nil
}

// keepLost adds chats to found of which the user is still a member although the index has lost
// them, which may happen with a master of a Cluster. unread says that some chats could not be read.
func (st *Stream) keepLost(ctx context.Context, found map[string]struct{}) (unread bool) {
	var lost []string
	for _, c := range st.cursors {
		if _, ok := found[c.topic.chat]; !ok {
			lost = append(lost, c.topic.chat)
		}
	}
	left, err := st.hub.chats.AddMissing(ctx, st.user, lost)
	for _, chat := range lost {
		if !slices.Contains(left, chat) {
			found[chat] = struct{}{}
		}
	}
	return err != nil
}

// goesOn reports whether the ids up to a position, in the epoch with the given hash, are still the
// same messages in a chat.
func goesOn(p *chat.Position, epoch [4]byte, position int64) bool {
	if epoch == fingerprintOf(p.Chat, p.Was).epoch {
		return position <= p.Since
	}
	return epoch == fingerprintOf(p.Chat, p.Epoch).epoch && position <= p.LastID
}

// addChat begins with a chat. It continues where the client left off, if that position belongs to
// the chat's present epoch, and otherwise at the user's position.
func (st *Stream) addChat(events []Event, p *chat.Position) (*cursor, []Event) {
	c := &cursor{epoch: p.Epoch, fingerprint: fingerprintOf(p.Chat, p.Epoch), position: p.Acked, acked: p.Acked}
	was, ok := st.resume[c.fingerprint.chat]
	delete(st.resume, c.fingerprint.chat)
	lost := ok && !goesOn(p, was.epoch, was.position)
	if ok && !lost {
		c.position = was.position
	}
	if epoch, ok := st.formerEpochs[p.Chat]; ok && !goesOn(p, epoch, 0) {
		lost = true // a new chat with the id of the chat that the user had left
	}
	delete(st.formerEpochs, p.Chat)
	c.topic = st.hub.subscribe(st, st.hub.chats.MessageChannel(p.Chat), p.Chat)
	st.addCursor(c)
	if lost {
		events = append(events, st.gap(c, p.FirstID))
	}
	return c, events
}

// restartChat begins again with a chat that has another epoch, or of which Redis has lost messages
// that were delivered.
func (st *Stream) restartChat(events []Event, c *cursor, p *chat.Position) []Event {
	c.adopt(p.Epoch)
	c.position, c.acked = p.Acked, p.Acked
	st.mark(p.Chat)
	return append(events, st.gap(c, p.FirstID))
}

// removeChats removes the chats of which the user is no longer a member.
func (st *Stream) removeChats(found map[string]struct{}) {
	for _, c := range slices.Clone(st.cursors) {
		chat := c.topic.chat
		if _, ok := found[chat]; ok {
			continue
		}
		st.hub.unsubscribe(st, c.topic)
		if st.formerEpochs == nil || len(st.formerEpochs) > maxFormerEpochs {
			st.formerEpochs = map[string][4]byte{}
		}
		st.formerEpochs[chat] = c.fingerprint.epoch
		delete(st.byChat, chat)
		st.cursors = slices.DeleteFunc(st.cursors, func(o *cursor) bool { return o == c })
	}
}

// alsoMarked adds the marks of chats that were restarted.
func (st *Stream) alsoMarked(dirty map[string]struct{}) map[string]struct{} {
	again, more := st.takeMarks()
	if again {
		st.mark("") // the user joined or left a chat in the meantime
	}
	if dirty == nil {
		return more
	}
	maps.Copy(dirty, more)
	return dirty
}
