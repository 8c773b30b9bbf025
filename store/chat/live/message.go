package live

import (
	"sync"

	"fanfare/api"
)

// Message is a message as streams send it. All streams of a process share it.
type Message struct {
	api.StreamMessage

	once sync.Once
	text []byte
	err  error
}

func newMessage(chat string, m *api.ChatMessage) *Message {
	return &Message{StreamMessage: api.StreamMessage{Chat: chat, ChatMessage: *m}}
}

// size is about how many bytes the message takes in memory.
func (m *Message) size() int {
	n := len(m.Text) + len(m.Sender)
	for name, value := range m.Data {
		n += len(name) + len(value)
	}
	return n
}

// Encoded is the message as encode writes it. encode is called only once, for all streams. The text
// must not be changed.
func (m *Message) Encoded(encode func(any) ([]byte, error)) ([]byte, error) {
	m.once.Do(func() { m.text, m.err = encode(&m.StreamMessage) })
	return m.text, m.err
}
