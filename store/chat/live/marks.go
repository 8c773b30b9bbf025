package live

import (
	"sync"
	"time"

	"fanfare/api"
)

const (
	// retryAfter is how long a stream waits after Redis could not be read.
	retryAfter = time.Second
	// rereadSoon is how long a stream waits until it reads chats again that are on a master of a
	// Cluster which is away. Such a read takes long.
	rereadSoon = 5 * time.Second
	// mostRedacted is how many redactions wait for a reader. One that is so far behind is not told
	// of more; it sees them when it reads the messages again.
	mostRedacted = 10_000
)

// marks tell the reader of a stream which chats may have something new. Topics and timers set them
// from any goroutine, and the reader takes all of them at once.
type marks struct {
	wake chan struct{} // has a value while there may be something to read

	mu           sync.Mutex
	chatsChanged bool                 // the user may have joined or left chats
	dirty        map[string]struct{}  // chats that may have more than was delivered
	redacted     []api.StreamRedacted // messages that were redacted
	signals      map[signalMark]int64 // who read up to where, and who types
	retry        *time.Timer          // wakes the reader after a failure
	reread       *time.Timer          // lets chats be read again that could not be read
}

// rereadLater lets the stream read the user's chats again soon.
func (m *marks) rereadLater() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reread != nil {
		m.reread.Stop()
	}
	m.reread = time.AfterFunc(rereadSoon, func() { m.mark("") })
}

// Wake has a value when there may be something to read.
func (m *marks) Wake() <-chan struct{} { return m.wake }

// mark records a chat that may have new messages, or with "" that the user may have joined or left
// chats, and wakes the reader.
func (m *marks) mark(chat string) {
	m.mu.Lock()
	if chat == "" {
		m.chatsChanged = true
	} else {
		if m.dirty == nil {
			m.dirty = map[string]struct{}{}
		}
		m.dirty[chat] = struct{}{}
	}
	m.mu.Unlock()
	m.wakeReader()
}

// markRedacted records that a message was redacted, and wakes the reader.
func (m *marks) markRedacted(r api.StreamRedacted) {
	m.mu.Lock()
	if len(m.redacted) < mostRedacted {
		m.redacted = append(m.redacted, r)
	}
	m.mu.Unlock()
	m.wakeReader()
}

// takeRedacted returns the messages that were redacted since the last call.
func (m *marks) takeRedacted() []api.StreamRedacted {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.redacted
	m.redacted = nil
	return all
}

func (m *marks) wakeReader() {
	select {
	case m.wake <- struct{}{}:
	default: // the reader has been woken already
	}
}

// takeMarks returns the marks and clears them.
func (m *marks) takeMarks() (chatsChanged bool, dirty map[string]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	chatsChanged, dirty = m.chatsChanged, m.dirty
	m.chatsChanged, m.dirty = false, nil
	return chatsChanged, dirty
}

// hasLeft reports whether the user may have left a chat since the marks were taken. A leave is
// published before any message that is sent after it, on the same channel.
func (m *marks) hasLeft() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chatsChanged
}

// restoreMarks puts marks back and wakes the reader after wait.
func (m *marks) restoreMarks(chatsChanged bool, dirty map[string]struct{}, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chatsChanged = m.chatsChanged || chatsChanged
	if m.dirty == nil {
		m.dirty = dirty
	} else {
		for chat := range dirty {
			m.dirty[chat] = struct{}{}
		}
	}
	switch {
	case wait == 0:
		m.wakeReader()
	case m.retry == nil:
		m.retry = time.AfterFunc(wait, m.wakeReader)
	default:
		m.retry.Reset(wait)
	}
}

// close stops the timers.
func (m *marks) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, timer := range []*time.Timer{m.retry, m.reread} {
		if timer != nil {
			timer.Stop()
		}
	}
}
