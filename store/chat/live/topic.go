package live

import (
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
)

const (
	// keptMessages and keptBytes limit the newest messages of a chat that are kept for its streams.
	// A stream that is further behind reads the log.
	keptMessages = 32
	keptBytes    = 64 << 10
	// keptTotal limits the bytes of these messages over all chats.
	keptTotal = 64 << 20
)

// budget counts the bytes of the messages kept in memory.
type budget struct{ used atomic.Int64 }

// topic is a channel of Redis and the streams that listen to it: the channel of a chat or, with
// chat "", of a user, on which the user's joins and leaves are published.
type topic struct {
	channel, chat string
	checked       time.Time // when it was last compared; guarded by the hub's lock

	mu        sync.Mutex
	on        *feed // on which Redis has confirmed the subscription
	known     bool  // epoch and last were read since then
	epoch     string
	last      int64      // the newest known id
	ring      []*Message // the newest messages up to last, without a gap in their ids
	bytes     int        // their size
	offered   int64      // the newest id at the last check, see forget
	signals   signals
	listeners map[*Stream]struct{}
}

// add makes a stream a listener, and marks the stream if the topic is up to date.
func (t *topic) add(st *Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listeners[st] = struct{}{}
	if t.on != nil && (t.known || t.chat == "") {
		st.mark(t.chat)
	}
}

// remove removes a listener and returns how many are left.
func (t *topic) remove(st *Stream, kept *budget) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.listeners, st)
	left := len(t.listeners)
	if left == 0 {
		t.drop(kept)
	}
	return left
}

// mark marks every listener: there may be something new.
func (t *topic) mark() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markAll()
}

func (t *topic) markAll() { t.each(func(st *Stream) { st.mark(t.chat) }) }

// each calls f for every listener. The lock is held.
func (t *topic) each(f func(*Stream)) {
	for st := range t.listeners {
		f(st)
	}
}

// confirm records the subscription. The data that the topic had before may be out of date.
func (t *topic) confirm(f *feed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on, t.known = f, false
	if t.chat == "" {
		t.markAll()
	}
}

// lose records that the server has ended the subscription, and reports whether it was on this feed.
func (t *topic) lose(f *feed) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on != f {
		return false
	}
	t.on = nil
	return true
}

// isOn reports whether the topic is subscribed on a feed.
func (t *topic) isOn(f *feed) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on == f
}

// receive takes a published text, and reports whether the topic is then stale, so that the chat's
// last id must be read.
func (t *topic) receive(payload string, kept *budget) (stale bool) {
	if t.chat == "" {
		t.mark()
		return false
	}
	if signal, is, err := chat.DecodeSignal(payload); is {
		if err == nil {
			t.signal(signal, time.Now())
		}
		return false
	}
	epoch, m, err := chat.DecodePublished(payload)
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Redacted {
		t.redact(epoch, &m, kept)
	}
	switch {
	case err != nil || epoch != t.epoch || !t.known || m.Redacted && m.ID > t.last:
		return true
	case m.ID <= t.last:
		return false
	case m.ID > t.last+1:
		t.drop(kept)
	}
	t.last = m.ID
	t.keep(newMessage(t.chat, &m), kept)
	t.markAll()
	return false
}

// redact takes the text of a message out of memory, and tells the streams. If the chat was deleted and
// made again, it is no message that they have delivered. An epoch of another run of Redis is of the
// same chat.
func (t *topic) redact(epoch string, m *api.ChatMessage, kept *budget) {
	if t.known && chat.LifeOf(epoch) != chat.LifeOf(t.epoch) {
		return
	}
	if len(t.ring) > 0 && epoch == t.epoch {
		if i := m.ID - t.ring[0].ID; i >= 0 && i < int64(len(t.ring)) {
			was := t.ring[i]
			t.ring[i] = newMessage(t.chat, m) // readers may still have the one before
			t.count(t.ring[i].size()-was.size(), kept)
		}
	}
	t.each(func(st *Stream) { st.markRedacted(api.StreamRedacted{Chat: t.chat, ID: m.ID}) })
}

// count adds to the size of the messages.
func (t *topic) count(size int, kept *budget) {
	t.bytes += size
	kept.used.Add(int64(size))
}

// update takes epoch and last id from a read. The read may be older than messages that were
// received in the meantime, so within an epoch the last id only rises. Only after the connection
// was lost it may fall, because Redis itself may have lost messages.
func (t *topic) update(epoch string, last int64, kept *budget) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known && epoch == t.epoch && last <= t.last {
		return
	}
	if !t.known || epoch != t.epoch || last > t.last {
		t.drop(kept)
	}
	t.known, t.epoch, t.last = true, epoch, last
	t.markAll()
}

// keep keeps a message for the streams, and drops the oldest messages over the limits. If the last
// stream has left in the meantime, it keeps nothing, because nobody would drop the message.
func (t *topic) keep(m *Message, kept *budget) {
	if kept.used.Load() > keptTotal || len(t.listeners) == 0 {
		t.drop(kept)
		return
	}
	t.ring = append(t.ring, m)
	t.count(m.size(), kept)
	for len(t.ring) > keptMessages || t.bytes > keptBytes {
		t.dropOldest(kept)
	}
}

func (t *topic) dropOldest(kept *budget) {
	t.count(-t.ring[0].size(), kept)
	t.ring[0] = nil // frees the message
	t.ring = t.ring[1:]
}

// drop drops all messages.
func (t *topic) drop(kept *budget) {
	kept.used.Add(-int64(t.bytes))
	t.ring, t.bytes, t.offered = nil, 0, 0
}

// forget drops the messages that were there at the last check, because every open stream has had
// time to read them. Later messages stay: the log may not have them any more, if a member has
// acknowledged them on one device while another device still reads.
func (t *topic) forget(kept *budget) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.ring) > 0 && t.ring[0].ID <= t.offered {
		t.dropOldest(kept)
	}
	t.offered = t.last
}

// after returns the messages after a position, at most limit. enough is false if they must be read
// from the log.
func (t *topic) after(epoch string, position int64, limit int) (news []*Message, enough bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.known:
		return nil, true // the streams are marked as soon as it is up to date
	case epoch != t.epoch || position > t.last:
		return nil, false
	case position == t.last:
		return nil, true
	case len(t.ring) == 0 || t.ring[0].ID > position+1:
		return nil, false
	}
	news = t.ring[position+1-t.ring[0].ID:]
	return append([]*Message(nil), news[:min(limit, len(news))]...), true
}

// upToDate reports whether every message after last will be received.
func (t *topic) upToDate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on != nil && t.known
}
