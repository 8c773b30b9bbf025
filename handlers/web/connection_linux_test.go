package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// mustConnect returns both ends of a TCP connection.
func mustConnect(t testing.TB) (here, there *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	here, err = l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close() })
	return here, dialed.(*net.TCPConn)
}

func mustWrite(t testing.TB, c *net.TCPConn, n int) {
	t.Helper()
	if _, err := c.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// mustFill writes until TCP takes no more.
func mustFill(t testing.TB, c *net.TCPConn) (written int64) {
	t.Helper()
	for {
		_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := c.Write(make([]byte, 64<<10))
		written += int64(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = c.SetWriteDeadline(time.Time{})
			return written
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until a receipt shows that the data has arrived.
func (r *receipt) await(t testing.TB, c *net.TCPConn) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for !r.arrived(c) {
		select {
		case <-deadline.C:
			t.Fatal("it has not arrived, says TCP")
		case <-time.After(time.Millisecond):
		}
	}
}

// A heartbeat has arrived when TCP has acknowledged it, whatever is written after it. A heartbeat
// that was only written has not.
func TestReceipt(t *testing.T) {
	t.Parallel()
	here, there := mustConnect(t)
	mustWrite(t, here, 3)
	new(receipt).await(t, here)

	written := mustFill(t, here) // a client that does not read acknowledges only what fits into its buffer
	r := &receipt{}
	for range 100 {
		if r.arrived(here) {
			t.Fatal("it has arrived, though nobody takes it")
		}
	}
	if acked, open, err := acknowledged(here); err != nil || open == 0 || r.goal != acked+open || int64(r.goal) != 3+written {
		t.Fatalf("%d bytes acknowledged, %d not, of %d; awaited are %d; %v", acked, open, 3+written, r.goal, err)
	}
	if _, err := io.CopyN(io.Discard, there, 3+written); err != nil {
		t.Fatal(err)
	}
	mustFill(t, here) // from now on some data is always under way
	r.await(t, here)
	if _, open, err := acknowledged(here); err != nil || open == 0 {
		t.Errorf("%d bytes are not acknowledged, %v: this has tried nothing", open, err)
	}

	_ = here.Close()
	if new(receipt).arrived(here) {
		t.Error("it has arrived over a closed connection")
	}
	if !new(receipt).arrived(nil) {
		t.Error("it has not arrived, where nobody can know")
	}
}

// The connection is found below TLS, and it is nil if there is no TCP.
func TestKeepConnection(t *testing.T) {
	t.Parallel()
	here, _ := mustConnect(t)
	for name, c := range map[string]net.Conn{"plain": here, "TLS": tls.Server(here, &tls.Config{MinVersion: tls.VersionTLS12})} {
		if found := connectionOf(KeepConnection(context.Background(), c)); found != here {
			t.Errorf("%s: found %v", name, found)
		}
	}
	pipe, _ := net.Pipe()
	if found := connectionOf(KeepConnection(context.Background(), pipe)); found != nil {
		t.Errorf("found %v", found)
	}
}

// A caller who has closed the connection has left, also before anybody has read from it and in the middle of a context that
// goes on. One who still reads, or whose next request has come already, has not.
func TestLeft(t *testing.T) {
	t.Parallel()
	var s Server
	for _, row := range []struct {
		what string
		do   func(t *testing.T, there *net.TCPConn) error
		left bool
	}{
		{"waits", func(*testing.T, *net.TCPConn) error { return nil }, false},
		{"has sent more", func(t *testing.T, there *net.TCPConn) error { mustWrite(t, there, 10); return nil }, false},
		{"has closed", func(_ *testing.T, there *net.TCPConn) error { return there.Close() }, true},
		{"was cut off", func(_ *testing.T, there *net.TCPConn) error {
			return errors.Join(there.SetLinger(0), there.Close())
		}, true},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			here, there := mustConnect(t)
			for _, c := range []net.Conn{here, tls.Server(here, &tls.Config{MinVersion: tls.VersionTLS12})} {
				if err := s.Left(KeepConnection(t.Context(), c)); err != nil {
					t.Errorf("before: %v", err)
				}
			}
			if err := row.do(t, there); err != nil {
				t.Fatal(err)
			}
			for _, c := range []net.Conn{here, tls.Server(here, &tls.Config{MinVersion: tls.VersionTLS12})} {
				if err := s.Left(KeepConnection(t.Context(), c)); errors.Is(err, context.Canceled) != row.left {
					t.Errorf("left: %v", err)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Left(ctx) == nil || s.Left(t.Context()) != nil {
		t.Error("a request without a connection follows its context")
	}
}
