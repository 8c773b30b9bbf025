package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// C17 to C19: a message whose push waits is redacted through one process. A stream of the other process
// hears of it, reading again shows it, and its text never arrives at APNs.
func TestC19_ARedactedMessageIsNotSent(t *testing.T) {
	t.Parallel()
	apns, redis := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t)
	servers := mustServeMany(t, 2, parkingVars(apns, redis.URL(), storetest.MySQL(t))...)
	p, other := servers[0], servers[1]
	p.must(201, nil, "PUT", "/v1/event-types/chat.message", map[string]any{"title": "{{.actor}}", "body": "{{.data.text}}"})
	p.mustRegister(1)
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "team", "creator": "ann", "members": []string{"user-0", "cat"}})
	p.mustPause(apns, 1)
	f := other.mustFollow("cat", "")
	p.mustSay("team", "ann", "kept", "secret")
	if got := f.texts(2); got != "kept secret " {
		t.Fatalf("heard %q", got)
	}
	storetest.Eventually(t, parkedWithin, "the pushes are parked", func() bool { return p.parked() == "3" })
	p.must(204, nil, "DELETE", "/v1/chats/team/messages/2", nil)
	if name, data := f.event(); name != "redacted" || data != `{"chat":"team","id":2}` {
		t.Errorf("heard %s %s", name, data)
	}
	redacted := time.Now()
	storetest.Eventually(t, 10*time.Second, "more than a second to pass", func() bool { return time.Since(redacted) > 1100*time.Millisecond })
	apns.ScriptAll()
	apns.Reset()
	for _, p := range servers {
		p.signal(syscall.SIGHUP)
	}
	storetest.Eventually(t, time.Minute, "all pushes have ended", func() bool {
		ended := 0
		for _, p := range servers {
			if p.metric(`fanfare_notifications_ended_total{platform="apns",reason="redacted",state="failed"}`) == "1" {
				ended++
			}
		}
		return ended == 1 && apns.Total() == 2 && p.parked() == "0"
	})
	for _, r := range apns.Requests() {
		if strings.Contains(string(r.Payload), "secret") {
			t.Errorf("APNs got %s", r.Payload)
		}
	}
	var page struct {
		Items []struct {
			Text     string
			Redacted bool
		}
	}
	other.must(200, &page, "GET", "/v1/chats/team/messages?user=cat", nil)
	if got := fmt.Sprint(page.Items); got != "[{kept false} { true}]" {
		t.Errorf("read again: %s", got)
	}
	if found := storetest.KeysWith(t, storetest.Open(t, redis.URL()), "secret"); len(found) > 0 {
		t.Errorf("the text is in %v", found)
	}
}

// event reads the next event that has data.
func (f *followed) event() (name, data string) {
	f.t.Helper()
	for f.lines.Scan() {
		switch field, value, _ := strings.Cut(f.lines.Text(), ": "); field {
		case "event":
			name = value
		case "data":
			return name, value
		}
	}
	f.t.Fatalf("the stream ended: %v", f.lines.Err())
	return "", ""
}
