package web

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// U5: a body that a GET announces and does not send keeps no long poll and no stream for longer than a request may
// take.
func TestABodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	s := New(Options{RequestTimeout: 300 * time.Millisecond, HasKeys: func() bool { return false }, Closing: make(chan struct{}), Streams: &sync.WaitGroup{}})
	long := strings.Repeat("x", 8<<10)
	server := httptest.NewServer(s.Handler([]Route{
		{Method: "GET", Pattern: "/poll", Endpoint: Handle(func(context.Context, *Nothing) (*Reply[map[string]string], error) {
			return OK(&map[string]string{"x": long}), nil
		}).LongPoll("wait_ms")},
		{Method: "GET", Pattern: "/follow", Endpoint: HandleStream(quiet)},
	}))
	t.Cleanup(server.Close)
	for _, target := range []string{"/poll?wait_ms=1", "/follow"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			storetest.Must(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
			storetest.Must(t, err)
			storetest.Must(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
			if _, err := io.ReadAll(conn); err != nil {
				t.Errorf("the connection goes on: %v", err)
			}
		})
	}
}
