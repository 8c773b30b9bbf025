package chat

import (
	"fmt"
	"reflect"
	"testing"
)

// FuzzMessage reads messages as they are kept and published, and positions in a list
// of chats. What is read is what was written.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{"", "1 bob hello", "1 bob ", "1  ", "e 7 1 bob a b  c", "-1 x y", "9223372036854775808 x y", "a b c", "19 team", "19", " ", "1 \x00 \xff", "1 bob hi\xff{\"a\":\"b\"}", "1 bob hi\xff{\"a\":1}", "1 bob \xffnull", "1 bob hi\xff{}\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := decodeEntry(7, text); err == nil {
			content, err := encodeContent(m.Text, m.Data)
			if err != nil {
				t.Fatalf("%q is %+v: %v", text, m, err)
			}
			again, err := decodeEntry(7, fmt.Sprintf("%d %s %s", m.SentAt.UnixMilli(), m.Sender, content))
			if len(m.Data) == 0 {
				again.Data = m.Data // an empty map is not kept
			}
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%q is %+v, and read again %+v, %v", text, m, again, err)
			}
			epoch, published, err := DecodePublished("e 7 " + text)
			if err != nil || epoch != "e" || !reflect.DeepEqual(published, m) {
				t.Fatalf("%q is published as %+v of %q, %v", text, published, epoch, err)
			}
		}
		_, _, _ = DecodePublished(text)
		if e, err := readCursor(text); err == nil && text != "" {
			page := page{entries: []entry{e}}
			if again, err := readCursor(page.next(1)); err != nil || again != e {
				t.Fatalf("the cursor %q is %+v, and read again %+v, %v", text, e, again, err)
			}
		}
	})
}
