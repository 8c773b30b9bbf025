package live

import (
	"sync"
	"time"
)

const (
	// retryAfter is how long a stream waits after Redis could not be read.
	retryAfter = time.Second
	// rereadSoon is how long it waits to read chats again that are on a master of a
	// Cluster which is away: such a read takes long.
	rereadSoon = 5 * time.Second
)

// marks tell the reader of a stream what may be new. Topics and timers set them from any
// goroutine; the reader takes them all at once.
type marks struct {
	wake chan struct{} // has a value while there may be something to read

	mu           sync.Mutex
	chatsChanged bool                // the user may have joined or left chats
	dirty        map[string]struct{} // chats that may have more than was delivered
	retry        *time.Timer         // wakes the reader after a failure
	reread       *time.Timer         // has chats read again that could not be
}

// rereadLater has the user's chats read again soon.
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

// mark notes a chat that may have new messages, or with "" that the user may
// have joined or left chats, and wakes the reader.
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

func (m *marks) wakeReader() {
	select {
	case m.wake <- struct{}{}:
	default: // it is woken already
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

// hasLeft tells that the user may have left a chat since the marks were taken: a leave is
// published before any message that is sent after it.
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
