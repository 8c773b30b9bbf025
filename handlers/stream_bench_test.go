package handlers_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"fanfare/store/storetest"
)

// BenchmarkStreams sends messages to a chat that 1,000 streams follow, with the readers in the same
// process. An operation is one message to all of them.
func BenchmarkStreams(b *testing.B) {
	const streams = 1000
	w := setupOn(b, storetest.Open(b, storetest.Redis(b).URL()))
	w.workChats()
	names := make([]string, streams)
	for i := range names {
		names[i] = fmt.Sprint("user", i)
	}
	w.mustChat("team", names...)
	conns := make([]net.Conn, streams)
	for i := range conns {
		conns[i] = w.mustOpen(names[i])
	}
	b.ResetTimer()
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() { readEvents(b, c, b.N) })
	}
	w.mustSend("team", names[0], 1, b.N)
	all.Wait()
	b.ReportMetric(float64(b.N)*streams/b.Elapsed().Seconds(), "messages/s")
}

// mustOpen opens a stream on a bare connection and waits for its first id.
func (w *world) mustOpen(user string) net.Conn {
	w.t.Helper()
	c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", strings.TrimPrefix(w.url, "http://"))
	storetest.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "GET /v1/users/%s/messages/stream HTTP/1.1\r\nHost: localhost\r\n\r\n", user)
	storetest.Must(w.t, err)
	var text []byte
	for buf := make([]byte, 4096); !bytes.Contains(text, []byte("\nid: ")); {
		n, err := c.Read(buf)
		storetest.Must(w.t, err)
		text = append(text, buf[:n]...)
	}
	return c
}

// readEvents reads n messages.
func readEvents(b *testing.B, c net.Conn, n int) {
	lines := bufio.NewScanner(c)
	for n > 0 && lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
			n--
		}
	}
	if n > 0 {
		b.Error(lines.Err())
	}
}
