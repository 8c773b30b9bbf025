package delivery

import "testing"

// FuzzMessage reads notifications as they stand in the queue.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{`{"token":"a","user":"bob","topic":"t","environment":"production","registered_at":1,"push":{"payload":{"aps":{}}}}`, `{"push":null}`, `{"suspect":1}`, `null`, ``, `{"registered_at":9223372036854775808}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := decodeMessage(payload)
		if err != nil {
			return
		}
		if n := m.notification("id", nil); n.Token != m.Token || n.Topic != m.Topic {
			t.Fatalf("%s becomes %+v", payload, n)
		}
		marked := m.marked()
		if marked == nil {
			return
		}
		again, err := decodeMessage(marked)
		if err != nil || !again.Retrying || again.Token != m.Token || again.User != m.User || again.RegisteredAt != m.RegisteredAt {
			t.Fatalf("%s is marked as %s, %v", payload, marked, err)
		}
	})
}
