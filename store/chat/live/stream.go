package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
)

const (
	// readChats and readLimit bound what one Read takes from the log, so that a
	// slow reader holds little: 100 messages.
	readChats = 4
	readLimit = 25
	// readEvents bounds what one Read returns.
	readEvents = 100
	// tryAgain is how long a stream waits after Redis could not be read.
	tryAgain = time.Second
)

// Event is what a stream tells: a message, a gap, or neither of them but a new
// ID.
type Event struct {
	// ID is where a client goes on that sends it back.
	ID      string
	Message *api.StreamMessage
	Gap     *api.StreamGap
}

// Stream is what one client hears of all the chats of a user: every message
// after his position exactly once, in order. It belongs to one goroutine, which
// waits for Wake, calls Read, and in the end Close.
type Stream struct {
	hub    *Hub
	user   string
	silent bool // a long poll: not present, and told of nothing twice
	told   *topic
	wake   chan struct{}

	mu    sync.Mutex
	moved bool                // the user may have other chats than are known
	dirty map[string]struct{} // chats that may have more than was delivered
	later *time.Timer         // wakes the stream after a failure

	// What follows is the reader's alone.
	first   []Event            // to be told before anything else
	left    map[[8]byte]left   // where the client says it left off
	former  map[string][4]byte // epochs of chats that the user has left
	cursors map[string]*cursor // of all chats, while they are many
	order   []*cursor          // those delivered last come first
}

// cursor is how far one chat is delivered.
type cursor struct {
	topic           *topic
	epoch           string
	place           place
	position, acked int64
}

// Stream opens a stream of a user's chats. It begins at his acknowledged
// positions, or where lastEventID says; what is no id of ours says nothing.
// It is unavailable while Redis can't be subscribed to.
func (h *Hub) Stream(ctx context.Context, user, lastEventID string) (*Stream, error) {
	st := h.listen(user)
	st.left = readEventID(lastEventID)
	if err := h.enter(ctx, user); err != nil {
		st.close()
		return nil, fmt.Errorf("open stream of %s: %w", user, err)
	}
	if err := st.begin(ctx); err != nil {
		st.Close(ctx)
		return nil, err
	}
	return st, nil
}

// Watch opens a stream for a long poll, which reads by itself and only wants to
// know when: use Settle instead of Read.
func (h *Hub) Watch(ctx context.Context, user string) (*Stream, error) {
	st := h.listen(user)
	st.silent = true
	if err := st.begin(ctx); err != nil {
		st.Close(ctx)
		return nil, err
	}
	return st, nil
}

func (h *Hub) listen(user string) *Stream {
	st := &Stream{hub: h, user: user, wake: make(chan struct{}, 1)}
	st.told = h.join(st, chat.MembershipChannel(user), "")
	return st
}

// begin waits until joins and leaves are heard of, takes the positions from
// which the stream goes on, and waits until its chats are heard as well:
// whatever is sent after it returned is delivered, even if everybody else has
// acknowledged it and it is kept no longer.
func (st *Stream) begin(ctx context.Context) (err error) {
	if err := st.await(ctx, func() bool { return true }); err != nil {
		return err
	}
	st.take()
	if st.first, err = st.refresh(ctx); err != nil {
		return err
	}
	st.rouse() // there may be nothing to wait for
	err = st.await(ctx, st.settled)
	st.rouse()
	return err
}

// await returns once the stream was woken and ready holds.
func (st *Stream) await(ctx context.Context, ready func() bool) error {
	for {
		select {
		case <-st.wake:
			if ready() {
				return nil
			}
		case <-ctx.Done():
			return api.Errorf(api.CodeUnavailable, "Redis takes no subscription").Because(context.Cause(ctx))
		}
	}
}

// settled tells whether all chats of the stream are heard. Each that comes to
// it wakes the stream.
func (st *Stream) settled() bool {
	for _, c := range st.order {
		if !c.topic.settled() {
			return false
		}
	}
	return true
}

// Close ends the stream.
func (st *Stream) Close(ctx context.Context) {
	st.close()
	if !st.silent {
		st.hub.exit(ctx, st.user)
	}
}

func (st *Stream) close() {
	st.hub.leave(st, st.told)
	for _, c := range st.order {
		st.hub.leave(st, c.topic)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.later != nil {
		st.later.Stop()
	}
}

// Wake has a value when there may be something to read.
func (st *Stream) Wake() <-chan struct{} { return st.wake }

// mark notes a chat that may have news, or with "" that the user may have other
// chats, and wakes the reader.
func (st *Stream) mark(chat string) {
	st.mu.Lock()
	if chat == "" {
		st.moved = true
	} else {
		if st.dirty == nil {
			st.dirty = map[string]struct{}{}
		}
		st.dirty[chat] = struct{}{}
	}
	st.mu.Unlock()
	st.rouse()
}

func (st *Stream) rouse() {
	select {
	case st.wake <- struct{}{}:
	default: // the reader has not looked since the last time
	}
}

// take takes the marks.
func (st *Stream) take() (moved bool, dirty map[string]struct{}) {
	st.mu.Lock()
	defer st.mu.Unlock()
	moved, dirty = st.moved, st.dirty
	st.moved, st.dirty = false, nil
	return moved, dirty
}

// again puts marks back; the reader is woken after a while.
func (st *Stream) again(moved bool, dirty map[string]struct{}, wait time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.moved = st.moved || moved
	if st.dirty == nil {
		st.dirty = dirty
	} else {
		for chat := range dirty {
			st.dirty[chat] = struct{}{}
		}
	}
	switch {
	case wait == 0:
		st.rouse()
	case st.later == nil:
		st.later = time.AfterFunc(wait, st.rouse)
	default:
		st.later.Reset(wait)
	}
}

// Settle follows the user's chats and forgets what it was woken for.
func (st *Stream) Settle(ctx context.Context) error {
	moved, _ := st.take()
	if !moved {
		return nil
	}
	if _, err := st.refresh(ctx); err != nil {
		return st.putOff(err, true, nil)
	}
	return nil
}

// Read returns what is new, at most some 100 events; when there is more it
// wakes again. While Redis is away there is nothing new, and Wake comes again.
func (st *Stream) Read(ctx context.Context) ([]Event, error) {
	moved, dirty := st.take()
	events := st.first
	st.first = nil
	if moved {
		told, err := st.refresh(ctx)
		if err != nil {
			return events, st.putOff(err, true, dirty)
		}
		events = append(events, told...)
		again, more := st.take() // cursors that the refresh has set back
		if again {
			st.mark("") // he joined or left while it was read
		}
		for chat := range more {
			if dirty == nil {
				dirty = map[string]struct{}{}
			}
			dirty[chat] = struct{}{}
		}
	}
	events, reads := st.fromMemory(events, dirty)
	events, err := st.fromLog(ctx, events, reads, dirty)
	if err != nil {
		return events, st.putOff(err, false, dirty)
	}
	if len(dirty) > 0 {
		st.again(false, dirty, 0)
	}
	return events, nil
}

// putOff tells an absence of Redis, after which the stream goes on, from what
// ends it.
func (st *Stream) putOff(err error, moved bool, dirty map[string]struct{}) error {
	switch api.CodeOf(err) {
	case api.CodeUnavailable, api.CodeUnknownOutcome, api.CodeOverloaded:
		st.again(moved, dirty, tryAgain)
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		st.again(moved, dirty, tryAgain)
		return nil
	}
	return err
}

// fromMemory delivers what the topics have kept. What is done with is taken out
// of dirty; the chats to read from the log are returned.
func (st *Stream) fromMemory(events []Event, dirty map[string]struct{}) ([]Event, []*cursor) {
	var reads []*cursor
	for chat := range dirty {
		c := st.cursor(chat)
		if c == nil {
			delete(dirty, chat)
			continue
		}
		if len(events) >= readEvents {
			continue
		}
		news, enough := c.topic.after(c.epoch, c.position, readEvents-len(events))
		if !enough {
			reads = append(reads, c)
			continue
		}
		events = st.deliver(events, c, news)
		if len(events) < readEvents {
			delete(dirty, chat)
		}
	}
	return events, reads[:min(len(reads), readChats)]
}

// fromLog delivers from the log, several chats in one round trip.
func (st *Stream) fromLog(ctx context.Context, events []Event, cursors []*cursor, dirty map[string]struct{}) ([]Event, error) {
	if len(cursors) == 0 {
		return events, nil
	}
	reads := make([]chat.Read, len(cursors))
	for i, c := range cursors {
		reads[i] = chat.Read{Chat: c.topic.chat, MessagesQuery: chat.MessagesQuery{User: st.user, After: &c.position, Limit: readLimit, Epoch: c.epoch}}
	}
	found, err := st.hub.chats.ReadMany(ctx, st.user, reads)
	if err != nil {
		return events, err
	}
	for i, c := range cursors {
		switch code := api.CodeOf(found[i].Err); {
		case code == api.CodeNotFound || code == api.CodeNotAMember:
			delete(dirty, c.topic.chat)
			st.mark("") // he left; the list of his chats will say so
		case found[i].Err != nil:
			err = found[i].Err
		default:
			var more bool
			if events, more = st.readUp(events, c, found[i].Messages); !more {
				delete(dirty, c.topic.chat)
			}
		}
	}
	return events, err
}

// readUp delivers a page of the log, and says whether there is more.
func (st *Stream) readUp(events []Event, c *cursor, page *api.ChatMessages) ([]Event, bool) {
	if page.Epoch != c.epoch || page.LastID < c.position {
		st.mark("") // another chat by now, or messages that Redis lost: see reset
		return events, false
	}
	if page.Gap {
		c.position = max(c.position, page.FirstID-1)
		events = append(events, st.gap(c, page.FirstID))
	}
	events = st.deliver(events, c, page.Items)
	return events, c.position < page.LastID
}

// deliver makes events of messages and moves the cursor.
func (st *Stream) deliver(events []Event, c *cursor, news []api.ChatMessage) []Event {
	if len(news) > 0 {
		st.toFront(c)
	}
	for i := range news {
		m := &news[i]
		if m.ID <= c.position {
			continue
		}
		c.position = m.ID
		events = append(events, Event{ID: st.eventID(), Message: &api.StreamMessage{
			Chat: c.topic.chat, ID: m.ID, Sender: m.Sender, Text: m.Text, SentAt: m.SentAt,
		}})
	}
	return events
}

// toFront puts a cursor before those that were delivered earlier.
func (st *Stream) toFront(c *cursor) {
	i := slices.Index(st.order, c)
	copy(st.order[1:i+1], st.order[:i])
	st.order[0] = c
}

func (st *Stream) gap(c *cursor, first int64) Event {
	return Event{ID: st.eventID(), Gap: &api.StreamGap{Chat: c.topic.chat, FirstID: first, Epoch: c.epoch}}
}
