package live

import (
	"encoding/json"
	"testing"

	"fanfare/store/storetest"
)

// A message that many streams read is encoded once.
func TestAMessageIsEncodedOnceForAllStreams(t *testing.T) {
	t.Parallel()
	top, times := &topic{chat: "team", on: new(feed), known: true, epoch: "e", listeners: map[*Stream]struct{}{{}: {}}}, 0
	if top.receive("e 1 1700000000000 ann hi there", &budget{}) {
		t.Fatal("the topic is stale")
	}
	encode := func(v any) ([]byte, error) {
		times++
		return json.Marshal(v)
	}
	for range 3 {
		news, enough := top.after("e", 0, readEvents)
		if !enough || len(news) != 1 {
			t.Fatalf("%d messages, enough %v", len(news), enough)
		}
		text, err := news[0].Encoded(encode)
		storetest.Must(t, err)
		if want := `{"chat":"team","id":1,"sender":"ann","text":"hi there","sent_at":"2023-11-14T22:13:20.000Z"}`; string(text) != want {
			t.Errorf("encoded as %s", text)
		}
	}
	if times != 1 {
		t.Errorf("encoded %d times", times)
	}
}

// A message that is received while the last stream leaves is not kept: what nobody drops
// again would count for ever against what may be kept.
func TestAMessageForNobodyIsNotKept(t *testing.T) {
	t.Parallel()
	top, kept := &topic{chat: "team", on: new(feed), known: true, epoch: "e"}, &budget{}
	if top.receive("e 1 1700000000000 ann hi there", kept) || kept.used.Load() != 0 || len(top.ring) != 0 {
		t.Errorf("%d bytes of %d messages are kept", kept.used.Load(), len(top.ring))
	}
}

// C16: data counts against what is kept in memory, as text does.
func TestDataCountsInMemory(t *testing.T) {
	t.Parallel()
	top, kept := &topic{chat: "team", on: new(feed), known: true, epoch: "e", listeners: map[*Stream]struct{}{{}: {}}}, &budget{}
	if top.receive("e 1 1700000000000 ann hi\xff"+`{"of":"a1"}`, kept) {
		t.Fatal("the topic is stale")
	}
	if want := int64(len("ann") + len("hi") + len("of") + len("a1")); kept.used.Load() != want {
		t.Errorf("%d bytes are kept, want %d", kept.used.Load(), want)
	}
	if top.drop(kept); kept.used.Load() != 0 {
		t.Errorf("%d bytes stay counted", kept.used.Load())
	}
}
