package app

import (
	"log/slog"
	"testing"

	"fanfare/api"
	"fanfare/delivery/fcm"
	"fanfare/delivery/logsender"
	"fanfare/delivery/transport"
)

// D2: a preview shows a platform if its devices get something, if only a line of the log.
func TestD2_PreviewsShowWhatIsLogged(t *testing.T) {
	t.Parallel()
	logs := logsender.New(slog.New(slog.DiscardHandler), func() bool { return true })
	without := fcm.New(fcm.Options{})
	for name, test := range map[string]struct {
		sender transport.Sender
		want   bool
	}{
		"everything is logged":  {logs, true},
		"FCM is logged":         {transport.Senders{api.PlatformFCM: logs}, true},
		"FCM without an app":    {transport.Senders{api.PlatformFCM: without}, false},
		"a process without FCM": {transport.Senders{}, false},
	} {
		a := &app{sender: test.sender}
		if got := a.delivers(api.PlatformFCM); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
