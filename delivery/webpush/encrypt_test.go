package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// The example of RFC 8291, section 5 and appendix A.
const (
	examplePlain   = "When I grow up, I want to be a watermelon"
	examplePrivate = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
	exampleP256dh  = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	exampleAuth    = "BTBZMqHH6r4Tts7J_aSIgg"
	exampleSalt    = "DGv6ra1nlYgDCS1FRnbzlw"
	exampleBody    = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)

func mustDecode(t testing.TB, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	storetest.Must(t, err)
	return b
}

// W13: with the keys and the salt of RFC 8291's example, the body is that of the example.
func TestW13_TheExampleOfRFC8291(t *testing.T) {
	t.Parallel()
	s := api.Subscription{Endpoint: "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV", Keys: api.SubscriptionKeys{P256dh: exampleP256dh, Auth: exampleAuth}}
	to, err := recipientOf(s.Target())
	storetest.Must(t, err)
	key, err := ecdh.P256().NewPrivateKey(mustDecode(t, examplePrivate))
	storetest.Must(t, err)
	body, err := seal([]byte(examplePlain+"\x02"), to, key, mustDecode(t, exampleSalt))
	storetest.Must(t, err)
	if got := base64.RawURLEncoding.EncodeToString(body); got != exampleBody {
		t.Errorf("got  %s\nwant %s", got, exampleBody)
	}
}

// W13: a body is padded to the next 256 bytes, and has at most the 4,096 bytes that push services take.
func TestW13_Padding(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	for size, want := range map[int]int{1: 256, 255: 256, 256: 512, 3000: 3072, 3839: 3840, 3840: 3994, maxPlain: 3994} {
		n := w.note()
		n.Payload = []byte(strings.Repeat("x", size))
		w.mustDeliver(n)
		r := w.last()
		if r.Size != headerSize+want+tagSize || len(r.Payload) != size || r.Padding != want-size-1 {
			t.Errorf("a payload of %d bytes has a body of %d with %d of padding", size, r.Size, r.Padding)
		}
	}
	if w.last().Size > recordSize || maxPlain != 3993 {
		t.Errorf("a body has %d bytes, a payload %d", w.last().Size, maxPlain)
	}
}

// A target that is none is a fault of fanfare. What it contains is not shown.
func TestTargetsThatAreNone(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	good := w.browser.Subscription
	for name, change := range map[string]func(*api.Subscription){
		"endpoint":  func(s *api.Subscription) { s.Endpoint = "https://127.0.0.1/secret" },
		"point":     func(s *api.Subscription) { s.Keys.P256dh = good.Keys.P256dh[:80] },
		"curve":     func(s *api.Subscription) { s.Keys.P256dh = "B" + strings.Repeat("A", 86) },
		"p256dh":    func(s *api.Subscription) { s.Keys.P256dh = "?secret?" },
		"auth":      func(s *api.Subscription) { s.Keys.Auth = "c2VjcmV0" },
		"no base64": func(s *api.Subscription) { s.Keys.Auth = "?secret?" },
	} {
		s := good
		change(&s)
		n := w.note()
		n.Target = s.Target()
		if a := w.send(n); a.Outcome != transport.OurBug || a.Err == nil || strings.Contains(a.Err.Error(), "secret") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	n := w.note()
	if n.Target = "secret"; w.send(n).Outcome != transport.OurBug || len(w.Requests()) != 0 {
		t.Error("a target without keys is taken")
	}
}
