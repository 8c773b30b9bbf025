package devices

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// FuzzGuard reads guards and settings as they stand in Redis. What is read is
// written the same.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{"", "active|1|production|com.example.app|bob", "gone|0|||", "active|x|a|b|c", "||||", "|||||", `[{"t":"a","at":1}]`, "a\x1fb\x1fapns\x1fproduction\x1factive\x1f\x1f12\x1f\x1e", "a\x1fb\x1e", "active|1||com.example.app|bob|", "a\x1ft\x1f\x1factive\x1f1\x1f\x1f\x1e", "active|1||shop|bob|https://a.b/x p a", "wp." + strings.Repeat("a", 43) + "\x1ft\x1f\x1factive\x1f1\x1f\x1fhttps://a.b/x p a\x1f\x1e", "wp." + strings.Repeat("a", 43) + "\x1ft\x1f\x1f\x1f1\x1f\x1f\x1f\x1e", "\x1e", "12", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if g, ok := ParseGuard(text); ok {
			if again, ok := ParseGuard(EncodeGuard(g)); !ok || again != g {
				t.Fatalf("%q is %+v, and read again %+v, %t", text, g, again, ok)
			}
		}
		if list, ok := parseDevices(text); ok {
			if again, ok := parseDevices(devicesText(list)); !ok || !reflect.DeepEqual(again, list) {
				t.Fatalf("%q is %+v, and read again %+v, %t", text, list, again, ok)
			}
		}
		now := time.Now().UnixMilli()
		for _, values := range [][]any{{text, nil, text}, {"", text, text}, {nil, nil, nil}, {text}} {
			if target, ok := decodeHit(Query{User: "bob"}, values, now); ok && target.User != "bob" {
				t.Fatalf("%q is %+v", text, target)
			}
		}
	})
}
