package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// H8: a webhook is connected to at no address at which the process itself listens: for everybody, for operators, or for the commands of
// an in-process Redis.
func TestH8_OwnAddresses(t *testing.T) {
	t.Parallel()
	a := mustBuildApp(t, "FANFARE_WEBHOOK_NETS=127.0.0.0/8", "FANFARE_ADDR=127.0.0.1:0", "FANFARE_METRICS_ADDR=127.0.0.1:0")
	public, err := listen(t.Context(), a.config, a.log)
	storetest.Must(t, err)
	t.Cleanup(func() { _ = public.listener.Close() })
	private, err := listenPrivately(t.Context(), a.config, a.log)
	storetest.Must(t, err)
	t.Cleanup(func() { _ = private.listener.Close() })
	a.noteListening(public, private)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // those that listen do not answer
	defer cancel()
	for what, at := range map[string]string{"public": public.listener.Addr().String(), "private": private.listener.Addr().String(), "redis": a.redis.Listens()} {
		w := &record.Webhook{Webhook: api.Webhook{ID: "shop", URL: "http://" + at + "/"}, Secrets: []string{"whsec_AAAA"}}
		if answer := a.testWebhook(ctx, w); !strings.HasSuffix(answer.Error, "is an address of fanfare itself: it does not connect to it") {
			t.Errorf("%s: %+v", what, answer)
		}
	}
}
