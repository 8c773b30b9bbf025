package logsender

import (
	"context"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// Without credentials a channel is made up, and what is sent to it is logged.
func TestChannelsAreMadeUp(t *testing.T) {
	t.Parallel()
	log := &storetest.Lines{}
	s := New(slog.New(slog.NewTextHandler(log, nil)), func() bool { return false })
	if !s.TakesBroadcast("com.example.app", api.EnvSandbox) {
		t.Error("it does not take an app")
	}
	one, err := s.CreateChannel(t.Context(), "com.example.app", api.EnvSandbox, api.KeepNone)
	storetest.Must(t, err)
	two, err := s.CreateChannel(t.Context(), "com.example.app", api.EnvSandbox, api.KeepNone)
	storetest.Must(t, err)
	if raw, err := base64.StdEncoding.DecodeString(one); err != nil || len(raw) != 16 || one == two {
		t.Errorf("the channels are %q and %q", one, two)
	}
	a := transport.Await(context.Background(), s, &transport.Notification{
		Token: api.BroadcastToken("match:1"), Channel: one, Topic: "com.example.app.push-type.liveactivity", Environment: api.EnvSandbox, Platform: api.PlatformAPNs,
		Payload: []byte(`{"aps":{"event":"update"}}`),
	})
	if a.Outcome != transport.Delivered || strings.Count(log.String(), one) != 2 {
		t.Errorf("%s, and the log has %s", a.Outcome, log.String())
	}
	storetest.Must(t, s.DeleteChannel(t.Context(), "com.example.app", api.EnvSandbox, one))
	if all, err := s.ListChannels(t.Context(), "com.example.app", api.EnvSandbox); err != nil || len(all) != 0 {
		t.Errorf("the list is %v %v", all, err)
	}
}
