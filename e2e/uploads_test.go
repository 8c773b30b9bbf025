package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// Clients that never end their bodies do not keep other clients out, and the memory of a process
// with many such clients stays small.
func TestUploadsWithoutEnd(t *testing.T) {
	t.Parallel()
	t.Run("SlowOnesShutNobodyOut", func(t *testing.T) {
		t.Parallel()
		p := mustServe(t, t.TempDir())
		stop := p.uploadWithoutEnd(100, "x", 100*time.Millisecond)
		defer stop()
		storetest.Eventually(t, time.Minute, "most uploads are under way", func() bool {
			n, err := strconv.ParseFloat(p.metric("fanfare_http_in_flight_requests"), 64)
			return err == nil && n >= 60
		})
		for i := range 100 {
			p.must(202, nil, "POST", "/v1/events", greeting(fmt.Sprintf("user-%d", i)))
		}
	})
	t.Run("FastOnesTakeLittleMemory", func(t *testing.T) {
		t.Parallel()
		p := mustServeShipped(t)
		stop := p.uploadWithoutEnd(200, strings.Repeat("x", 64<<10), 0)
		defer stop()
		storetest.Eventually(t, 2*time.Minute, "each was refused twice or so", func() bool { return p.refusals() >= 400 })
		p.must(202, nil, "POST", "/v1/events", greeting("alice"))
		if peak := p.peakMemory() >> 20; peak > 300 {
			t.Errorf("%d MiB of memory", peak)
		} else {
			t.Logf("%d MiB of memory", peak)
		}
	})
}

// refusals is how many bodies the server refused.
func (p *program) refusals() (n int) {
	for _, code := range []string{"payload_too_large", "overloaded", "request_timeout"} {
		v, _ := strconv.ParseFloat(p.metric(`fanfare_http_problems_total{code="`+code+`"}`), 64)
		n += int(v)
	}
	return n
}

// uploadWithoutEnd lets n clients post a batch whose body never ends, with a pause after each
// chunk. Clients that are disconnected begin again until stop is called.
func (p *program) uploadWithoutEnd(n int, chunk string, pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				_ = p.uploadOnce(ctx, chunk, pause)
			}
		})
	}
	return func() {
		cancel()
		clients.Wait()
	}
}

// uploadOnce posts until the server hangs up.
func (p *program) uploadOnce(ctx context.Context, chunk string, pause time.Duration) error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, err = io.WriteString(conn, "POST /v1/events/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
	part := fmt.Appendf(nil, "%x\r\n%s\r\n", len(chunk), chunk)
	tick := time.NewTicker(max(pause, 1))
	defer tick.Stop()
	for err == nil {
		if _, err = conn.Write(part); err == nil {
			<-tick.C
		}
	}
	return err
}

// Clients that read while they send get the error, however large the request is.
func TestTooLargeIsAnswered(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir())
	const post = "POST /v1/events/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20))
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"AnnouncedBody": {post + "Content-Length: 12582912\r\n\r\n" + strings.Repeat("x", 12<<20), 413},
		"ChunkedBody":   {post + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 12) + "0\r\n\r\n", 413},
		"Head":          {post + "X-Long: " + strings.Repeat("x", 12<<20) + "\r\n\r\n", 431},
	} {
		t.Run(name, func(t *testing.T) { // not parallel: the server would be idle until all other tests have begun
			request := []byte(c.request)
			for range 5 {
				p.mustBeTold(t, request, c.status)
			}
		})
	}
}

// mustBeTold sends a request and reads its answer meanwhile, to the end.
func (p *program) mustBeTold(t *testing.T, request []byte, want int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = conn.Write(request) }() // the server need not take it all
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != want {
		t.Fatalf("answered %d %.200q, %v", answer.StatusCode, text, err)
	}
}
