package live

import (
	"context"
	"errors"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
)

const (
	// readChats and readLimit limit one Read to 100 messages of the log, so that a slow reader
	// takes little memory.
	readChats = 4
	readLimit = 25
	// readEvents is about how many events one Read returns at most.
	readEvents = 100
	// refreshPatience is how long an open stream waits for the list of its user's chats.
	// On a Cluster the list may be on a master that is away, while the chats are not.
	refreshPatience = time.Second
)

// Event is one event of a stream: a message, a redaction, a gap, a signal, or only a new ID.
type Event struct {
	// ID has the positions after this event. A client that sends it back continues there.
	ID      string
	Message *Message
	// Redacted is a message that was delivered before.
	Redacted *api.StreamRedacted
	Gap      *api.StreamGap
	Read     *api.StreamRead
	Typing   *api.StreamTyping
}

// Stream delivers all chats of a user to one client: every message after the user's position
// exactly once, in the order of its chat. It belongs to one goroutine, which waits for Wake, calls
// Read, and at the end calls Close.
type Stream struct {
	hub       *Hub
	user      string
	poll      bool // for a long poll: no presence, and no events
	userTopic *topic
	marks

	// Only the reader uses the fields below.
	queued       []Event                 // to be delivered before anything else
	resume       map[[8]byte]resumePoint // where the client says that it left off, for chats that have not begun yet
	formerEpochs map[string][4]byte      // for chats that the user has left
	cursors      []*cursor               // of all chats; the latest deliveries come first
	byChat       map[string]*cursor      // the same by chat, if there are many
}

// cursor is the position up to which a chat was delivered.
type cursor struct {
	topic           *topic
	epoch           string
	fingerprint     fingerprint
	position, acked int64
}

// adopt sets the chat's present epoch.
func (c *cursor) adopt(epoch string) {
	if c.epoch != epoch {
		c.epoch, c.fingerprint = epoch, fingerprintOf(c.topic.chat, epoch)
	}
}

// Stream opens a stream of a user's chats. It begins at the acknowledged positions, or after
// lastEventID; a malformed id is ignored. The error is unavailable while Redis takes no
// subscriptions.
func (h *Hub) Stream(ctx context.Context, user, lastEventID string) (*Stream, error) {
	st := h.newStream(user)
	st.resume = readEventID(lastEventID)
	h.presence.begin(ctx, user)
	if err := st.begin(ctx); err != nil {
		st.Close(ctx)
		return nil, err
	}
	return st, nil
}

// Watch opens a stream for a long poll. The long poll itself reads the store when Wake has a value,
// and calls Refresh instead of Read.
func (h *Hub) Watch(ctx context.Context, user string) (*Stream, error) {
	st := h.newStream(user)
	st.poll = true
	if err := st.begin(ctx); err != nil {
		st.Close(ctx)
		return nil, err
	}
	return st, nil
}

func (h *Hub) newStream(user string) *Stream {
	st := &Stream{hub: h, user: user, marks: marks{wake: make(chan struct{}, 1)}}
	st.userTopic = h.subscribe(st, chat.MembershipChannel(user), "")
	return st
}

// begin waits for the subscription to the user's channel, reads the positions at which the stream
// continues, and waits for the subscriptions to the user's chats. Every message that is sent after
// begin has returned is delivered, even if it is no longer kept because all other members have
// acknowledged it.
func (st *Stream) begin(ctx context.Context) (err error) {
	if err := st.await(ctx, func() bool { return true }); err != nil {
		return err
	}
	st.takeMarks()
	if st.queued, err = st.refreshChats(ctx); err != nil {
		return err
	}
	st.wakeReader() // there may be nothing to wait for
	err = st.await(ctx, st.upToDate)
	st.wakeReader()
	return err
}

// await returns when ready is true; it checks whenever the stream is woken.
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

// upToDate reports whether the topics of all chats are up to date. A topic that becomes up to date
// wakes the stream.
func (st *Stream) upToDate() bool {
	for _, c := range st.cursors {
		if !c.topic.upToDate() {
			return false
		}
	}
	return true
}

// Close ends the stream.
func (st *Stream) Close(ctx context.Context) {
	st.close()
	if !st.poll {
		st.hub.presence.end(ctx, st.user)
	}
}

// Reached says that data which was written at that time has arrived. The user is live for 30 s from
// then on. If a proxy acknowledges data for a client that has vanished, this cannot be noticed.
func (st *Stream) Reached(written time.Time) { st.hub.presence.seen(st.user, written) }

func (st *Stream) close() {
	st.hub.unsubscribe(st, st.userTopic)
	for _, c := range st.cursors {
		st.hub.unsubscribe(st, c.topic)
	}
	st.marks.close()
}

// Refresh is Read for a long poll. It only updates the list of chats to which the stream listens.
func (st *Stream) Refresh(ctx context.Context) error {
	chatsChanged, _ := st.takeMarks()
	st.takeRedacted() // the long poll reads the messages again anyway
	if !chatsChanged {
		return nil
	}
	if _, err := st.refreshChats(ctx); err != nil {
		return st.retryLater(err, true, nil)
	}
	return nil
}

// Read returns the new events, at most about 100. If there are more, Wake has a value again. While
// Redis is away Read returns nothing, and Wake has a value again later.
func (st *Stream) Read(ctx context.Context) ([]Event, error) {
	chatsChanged, dirty := st.takeMarks()
	events := st.tellRedacted(st.queued)
	st.queued = nil
	if chatsChanged {
		patient, cancel := context.WithTimeout(ctx, refreshPatience)
		gaps, err := st.refreshChats(patient)
		cancel()
		if err == nil {
			events, dirty = append(events, gaps...), st.alsoMarked(dirty)
		} else if err := st.retryLater(err, true, nil); err != nil {
			return events, err
		} // otherwise only the list of chats may be away: the known chats go on
	}
	events, reads := st.readMemory(events, dirty)
	events, err := st.readLog(ctx, events, reads, dirty)
	if err != nil {
		return events, st.retryLater(err, false, dirty)
	}
	if len(dirty) > 0 {
		st.restoreMarks(false, dirty, 0)
	}
	return st.tellSignals(events), nil
}

// tellRedacted adds the redactions of messages that were delivered. A message that comes later comes
// without its text: it is redacted in the log and in memory before its stream is marked.
func (st *Stream) tellRedacted(events []Event) []Event {
	for _, r := range st.takeRedacted() {
		if c := st.cursor(r.Chat); c != nil && r.ID <= c.position {
			events = append(events, Event{ID: st.eventID(), Redacted: &r})
		}
	}
	return events
}

// retryLater puts the marks back if Redis is away. It returns every other error, which ends the
// stream.
func (st *Stream) retryLater(err error, chatsChanged bool, dirty map[string]struct{}) error {
	if api.Passing(err) || errors.Is(err, context.DeadlineExceeded) {
		st.restoreMarks(chatsChanged, dirty, retryAfter)
		return nil
	}
	return err
}

// readMemory delivers the messages that the topics have, removes the chats that are complete from
// dirty, and returns the chats that must be read from the log.
func (st *Stream) readMemory(events []Event, dirty map[string]struct{}) ([]Event, []*cursor) {
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
		if !enough || st.hasLeft() { // the log knows who is a member
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

// readLog delivers from the log, several chats in one round trip.
func (st *Stream) readLog(ctx context.Context, events []Event, cursors []*cursor, dirty map[string]struct{}) ([]Event, error) {
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
			st.mark("") // the user has left; refreshChats will find that
		case found[i].Err != nil:
			err = found[i].Err
		default:
			var more bool
			if events, more = st.deliverPage(events, c, found[i].Messages); !more {
				delete(dirty, c.topic.chat)
			}
		}
	}
	return events, err
}

// deliverPage delivers a page of the log and reports whether there is more.
func (st *Stream) deliverPage(events []Event, c *cursor, page *api.ChatMessages) ([]Event, bool) {
	if page.Epoch != c.epoch && page.Gap || page.LastID < c.position {
		st.mark("") // another epoch, see restartChat
		return events, false
	}
	c.adopt(page.Epoch)
	if page.Gap {
		c.position = max(c.position, page.FirstID-1)
		events = append(events, st.gap(c, page.FirstID))
	}
	news := make([]*Message, len(page.Items))
	for i := range page.Items {
		news[i] = newMessage(c.topic.chat, &page.Items[i])
	}
	events = st.deliver(events, c, news)
	return events, c.position < page.LastID
}

// deliver makes events of messages and moves the cursor.
func (st *Stream) deliver(events []Event, c *cursor, news []*Message) []Event {
	if len(news) > 0 {
		st.toFront(c)
	}
	for _, m := range news {
		if m.ID <= c.position {
			continue
		}
		c.position = m.ID
		events = append(events, Event{ID: st.eventID(), Message: m})
	}
	return events
}

// toFront moves a cursor before those with earlier deliveries.
func (st *Stream) toFront(c *cursor) {
	i := slices.Index(st.cursors, c)
	copy(st.cursors[1:i+1], st.cursors[:i])
	st.cursors[0] = c
}

func (st *Stream) gap(c *cursor, first int64) Event {
	return Event{ID: st.eventID(), Gap: &api.StreamGap{Chat: c.topic.chat, FirstID: first, Epoch: c.epoch}}
}
