package logsender

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/delivery/transport"
)

func TestA14_LogSender(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := New(slog.New(slog.NewTextHandler(&out, nil)), func() bool { return false })
	n := &transport.Notification{
		ID: "6ba7b810-9dad-51d1-80b4-00c04fd430c8", Token: "abcdef0123456789", Topic: "com.example.app", Environment: api.EnvProduction,
		Payload: []byte(`{"aps":{"alert":{"title":"Grüße","body":"secret"}}}`),
	}
	for range 2 {
		if a := transport.Await(context.Background(), s, n); a.Outcome != transport.Delivered {
			t.Fatalf("got %+v", a)
		}
	}
	log := out.String()
	if strings.Count(log, "no APNs credentials") != 1 {
		t.Errorf("it must be said once:\n%s", log)
	}
	for _, want := range []string{"topic=com.example.app", "token=abcdef01 ", "title_length=5"} {
		if strings.Count(log, want) != 2 {
			t.Errorf("missing %q in:\n%s", want, log)
		}
	}
	for _, leak := range []string{"secret", "Grü", "abcdef012"} {
		if strings.Contains(log, leak) {
			t.Errorf("the log shows %q:\n%s", leak, log)
		}
	}
	if apps := s.Apps(); !maps.Equal(apps, map[string]error{"com.example.app/production": nil}) {
		t.Errorf("got %+v", apps)
	}
	fcm := &transport.Notification{ID: n.ID, Platform: api.PlatformFCM, Token: "fcm-token-of-a-phone", Topic: "shop",
		Payload: []byte(`{"android":{"notification":{"title":"Grüße","tag":"1"},"priority":"HIGH"},"data":{"type":"t"}}`)}
	transport.Await(context.Background(), s, fcm)
	if text := strings.TrimPrefix(out.String(), log); !strings.Contains(text, "topic=shop token=fcm-toke title_length=5") || !maps.Equal(s.Apps(), map[string]error{"com.example.app/production": nil, "shop/fcm": nil}) {
		t.Errorf("a device of FCM:\n%s", text)
	}
	n.MaySend = func() bool { return false }
	if a := transport.Await(context.Background(), s, n); a.Outcome != transport.NotSent {
		t.Errorf("without a lease: %s", a.Outcome)
	}
}

// A server that is open only to its own machine may show the texts of notifications.
func TestA14_TextsWhereTheyMayBeShown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	open := true
	s := New(slog.New(slog.NewTextHandler(&out, nil)), func() bool { return open })
	n := &transport.Notification{Token: "abcdef0123456789", Topic: "com.example.app", Payload: []byte(`{"aps":{"alert":{"title":"Grüße","body":"von dort"}}}`)}
	transport.Await(t.Context(), s, n)
	if log := out.String(); !strings.Contains(log, `title=Grüße body="von dort"`) || strings.Contains(log, "title_length") || strings.Contains(log, n.Token) {
		t.Errorf("open: %s", log)
	}
	out.Reset()
	open = false
	transport.Await(t.Context(), s, n)
	if log := out.String(); strings.Contains(log, "Grü") || strings.Contains(log, "dort") || !strings.Contains(log, "title_length=5") {
		t.Errorf("with a key: %s", log)
	}
}

func TestA14_Alerts(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]api.Alert{
		`{"aps":{"alert":{"title":"abc","body":"d"}}}`: {Title: "abc", Body: "d"}, `{"aps":{"alert":"text"}}`: {}, `{"aps":{}}`: {}, `{}`: {}, `no`: {},
	} {
		if got := alertOf([]byte(payload)); got != want {
			t.Errorf("%s: got %+v, want %+v", payload, got, want)
		}
	}
}
