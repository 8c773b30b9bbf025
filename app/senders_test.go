package app

import (
	"log/slog"
	"testing"

	"fanfare/api"
	"fanfare/delivery/apns"
	"fanfare/delivery/fcm"
	"fanfare/delivery/logsender"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
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

// G5: a process without credentials makes up channels if it also sends to them. Otherwise it has no app for them, and deletes none.
func TestG5_ChannelsWithoutCredentials(t *testing.T) {
	t.Parallel()
	logs := logsender.New(slog.New(slog.DiscardHandler), func() bool { return true })
	real := apns.New(apns.Options{})
	for name, test := range map[string]struct {
		sender transport.Sender
		sends  bool
		takes  bool
		code   api.Code
	}{
		"it sends":                   {logs, true, true, ""},
		"it tries out":               {transport.Senders{api.PlatformAPNs: logs}, true, true, ""},
		"another process sends":      {logs, false, false, api.CodeUnknownApp},
		"another one, and it logs":   {transport.Senders{api.PlatformAPNs: logs}, false, false, api.CodeUnknownApp},
		"it has credentials, no app": {transport.Senders{api.PlatformAPNs: real}, false, false, api.CodeUnknownApp},
	} {
		c := channelsOf(test.sender, test.sends)
		if takes := c.TakesBroadcast("com.example.app", api.EnvProduction); takes != test.takes {
			t.Errorf("%s: it takes broadcasts: %v", name, takes)
		}
		_, err := c.CreateChannel(t.Context(), "com.example.app", api.EnvProduction, api.KeepNone)
		storetest.WantCode(t, err, test.code)
		storetest.WantCode(t, c.DeleteChannel(t.Context(), "com.example.app", api.EnvProduction, "x"), test.code)
		_, err = c.ListChannels(t.Context(), "com.example.app", api.EnvProduction)
		storetest.WantCode(t, err, test.code)
	}
}
