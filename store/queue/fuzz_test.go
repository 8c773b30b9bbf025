package queue

import (
	"testing"

	"fanfare/api"
	"fanfare/store/queue/shard"
)

// FuzzNames reads what callers send back: ids and cursors.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "x", "1-2-3", "01-2-3", "-1-2-3", "9223372036854775808-0-0", "0qqhn9zzzzzzzzzzzzzzzzzzzzzzzzzz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parseDeadCursor(text); err == nil && text != "" && p.String() != text {
			t.Fatalf("the cursor %q is %v", text, p)
		} else if err != nil && api.CodeOf(err) != api.CodeValidation {
			t.Fatalf("the cursor %q: %v", text, err)
		}
		if n, ok := ParseID(text); ok && (n < 0 || n > 255 || len(text) != shard.IDLength) {
			t.Fatalf("the id %q is of shard %d", text, n)
		}
		_ = DeriveID(text, make([]byte, 16), 1000)
	})
}
