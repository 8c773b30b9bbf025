package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"fanfare/store/storetest"
)

// askOnly sends a request on a connection of its own whose answer nobody reads. Its segments and its
// buffer are small, as on the way to a phone: otherwise the kernel would take the whole answer.
func (p *program) askOnly(ctx context.Context, path string) (net.Conn, error) {
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) {
			err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1200),
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10))
		})
		return err
	}}
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(p.base, "http://"))
	if err == nil {
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	}
	return conn, err
}

// U5: 512 long answers that nobody reads, for 16 users, neither fill the memory of a process nor slow
// down others.
func TestU5_UnreadAnswersTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const users, each = 16, 32
	p, quiet := mustServeAlone(t), mustServeAlone(t)
	healthyCalls(p, quiet) // fill the caches
	members := make([]string, users)
	for i := range members {
		members[i] = fmt.Sprint("reader", i)
	}
	p.must(201, nil, "POST", "/v1/chats", map[string]any{"id": "long", "creator": "ann", "members": members})
	for range 70 { // more than a page, of 1 MiB
		p.must(201, nil, "POST", "/v1/chats/long/messages", map[string]any{"sender": "ann", "text": strings.Repeat("😀", 4000)})
	}
	var begun atomic.Int64
	storetest.AtOnce(t, users, func(_ context.Context, i int) error {
		for range each {
			conn, err := p.askOnly(t.Context(), "/v1/users/"+members[i]+"/messages/pending?limit=500")
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = conn.Close() })
			head := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(conn, head); err != nil {
				return err
			}
			if string(head) == "HTTP/1.1 200" {
				begun.Add(1)
			}
		}
		return nil
	})
	p99 := healthyCalls(p, quiet)
	if peak := p.peakMemory(); peak > hostileMemory {
		t.Errorf("%d MiB of memory", peak>>20)
	} else {
		t.Logf("%d answers and %d MiB of memory; p99 %v, %v without", begun.Load(), peak>>20, p99[0], p99[1])
	}
	if n := begun.Load(); n < 32 || n > 70 {
		t.Errorf("%d answers have begun", n)
	}
	p.must(200, nil, "GET", "/v1/users/ann/chats", nil)
}
