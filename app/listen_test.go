package app

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// HTTP has not ended as long as a stream is open that has left its server.
func TestTheEndWaitsForStreams(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		drain time.Duration
		ends  bool
	}{"Ends": {time.Minute, true}, "Stays": {10 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lc net.ListenConfig
			listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
			storetest.Must(t, err)
			var open sync.WaitGroup
			open.Add(1)
			f := &front{server: &http.Server{ReadHeaderTimeout: time.Second}, listener: listener, drain: row.drain, streams: &open}
			if row.ends {
				f.server.RegisterOnShutdown(open.Done)
			} else {
				t.Cleanup(open.Done)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := f.run(ctx); (err == nil) != row.ends {
				t.Error(err)
			}
		})
	}
}
