package live

import (
	"maps"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
)

// signalEvery is the least time between two signals of the same kind of one member on a stream.
const signalEvery = time.Second

// signals are what members of a chat did in the last second.
type signals struct {
	read  map[string]int64     // positions that were not told yet, by user: all are told together
	told  time.Time            // when positions were last told
	typed map[string]time.Time // when it was told that a user types
}

// signal tells the streams that a member reads or types. A position that comes too soon is told later, the last one of
// several; a member who still types is not told again so soon. A signal of another epoch is of a chat that was made again, or
// of a Redis that has lost messages. After a leave the user's streams read their list of chats.
func (t *topic) signal(s chat.Signal, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch of := &t.signals; {
	case s.Left:
		t.each(func(st *Stream) {
			if st.user == s.User {
				st.mark("")
			}
		})
	case !t.known || s.Epoch != t.epoch || len(t.listeners) == 0:
	case s.Acked > 0:
		if of.read == nil {
			of.read = map[string]int64{}
		}
		of.read[s.User] = max(of.read[s.User], s.Acked)
		t.tellRead(now)
	case now.Sub(of.typed[s.User]) >= signalEvery:
		if of.typed == nil {
			of.typed = map[string]time.Time{}
		}
		of.typed[s.User] = now
		t.tellSignal(signalMark{chat: t.chat, epoch: t.epoch, user: s.User, typing: true}, 0)
	}
}

// tellLater tells what waits, and forgets who typed a second ago.
func (t *topic) tellLater(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tellRead(now)
	maps.DeleteFunc(t.signals.typed, func(_ string, at time.Time) bool { return now.Sub(at) >= signalEvery })
}

// tellRead tells the streams all positions that wait, unless some were told within the last second. The lock is held.
func (t *topic) tellRead(now time.Time) {
	if len(t.signals.read) == 0 || now.Sub(t.signals.told) < signalEvery {
		return
	}
	for user, acked := range t.signals.read {
		t.tellSignal(signalMark{chat: t.chat, epoch: t.epoch, user: user}, acked)
	}
	t.signals.read, t.signals.told = nil, now
}

// tellSignal marks the streams; long polls are not told. The lock is held.
func (t *topic) tellSignal(s signalMark, acked int64) {
	t.each(func(st *Stream) {
		if !st.poll {
			st.markSignal(s, acked)
		}
	})
}

// signalMark is a signal that waits for the reader of a stream.
type signalMark struct {
	chat, epoch, user string
	typing            bool
}

// mostSignals is how many signals wait for a reader. One that is so far behind is not told of more.
const mostSignals = 1000

// markSignal records a signal, and wakes the reader. A later position replaces the earlier one.
func (m *marks) markSignal(s signalMark, acked int64) {
	m.mu.Lock()
	if m.signals == nil {
		m.signals = map[signalMark]int64{}
	}
	if was, ok := m.signals[s]; ok || len(m.signals) < mostSignals {
		m.signals[s] = max(was, acked)
	}
	m.mu.Unlock()
	m.wakeReader()
}

// takeSignals returns the signals since the last call.
func (m *marks) takeSignals() map[signalMark]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.signals
	m.signals = nil
	return all
}

// tellSignals adds who reads and who types in the user's chats. A position that the stream has not reached itself waits
// for the messages; typing of the user's own is not told.
func (st *Stream) tellSignals(events []Event) []Event {
	for s, acked := range st.takeSignals() {
		c := st.cursor(s.chat)
		switch {
		case c == nil || s.typing && s.user == st.user:
		case s.typing:
			events = append(events, Event{ID: st.eventID(), Typing: &api.StreamTyping{Chat: s.chat, User: s.user}})
		case acked > c.position && s.epoch == c.epoch:
			st.keepSignal(s, acked)
		case acked > c.position: // the chat was made again, or Redis has lost messages
		default:
			events = append(events, Event{ID: st.eventID(), Read: &api.StreamRead{Chat: s.chat, User: s.user, Acked: acked}})
		}
	}
	return events
}

// keepSignal puts a signal back without waking the reader: the messages before it do that.
func (m *marks) keepSignal(s signalMark, acked int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.signals == nil {
		m.signals = map[signalMark]int64{}
	}
	m.signals[s] = max(m.signals[s], acked)
}
