package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
)

// testOptions are the options of a pool in tests.
func testOptions() Options {
	return Options{
		Name: "the test server", Host: "example.com", Logger: slog.New(slog.DiscardHandler), DialTimeout: 10 * time.Second,
		ReadIdle: 10 * time.Second, PingTimeout: 10 * time.Second, SendWithin: 10 * time.Second,
	}
}

// peer is the other end of a connection, frame by frame.
type peer struct {
	*http2.Framer
	t    testing.TB
	raw  net.Conn
	conn *Conn
	enc  *hpack.Encoder
	buf  bytes.Buffer
}

// setup connects a Conn, without TLS, to a peer that has read its preface.
func setup(t testing.TB, change func(*Options)) *peer {
	t.Helper()
	ours, theirs := mustPipe(t)
	o := testOptions()
	if change != nil {
		change(&o)
	}
	raw := newPunctual(ours)
	p := &peer{t: t, raw: theirs, conn: newConn(New("", nil, o), raw, raw)}
	p.conn.start()
	t.Cleanup(func() { p.conn.fail(ErrClosed) })
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(theirs, preface); err != nil || string(preface) != http2.ClientPreface {
		t.Fatalf("the preface is %q: %v", preface, err)
	}
	p.Framer = http2.NewFramer(theirs, theirs)
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.enc = hpack.NewEncoder(&p.buf)
	mustFrame[*http2.SettingsFrame](p)
	return p
}

// mustPipe connects two ends over TCP.
func mustPipe(t testing.TB) (a, b net.Conn) {
	t.Helper()
	return mustPipeOf(t, net.ListenConfig{})
}

// mustSlowPipe is mustPipe with a second end that takes few bytes at a time. It says so before the connection
// is made: what the first end sends is never more than the second has room for, so no segment is dropped and sent
// again after a pause that doubles each time.
func mustSlowPipe(t testing.TB) (a, b net.Conn) {
	t.Helper()
	return mustPipeOf(t, net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		ruled := conn.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 512)) // less than on a real network, and not 64 KB
		})
		return errors.Join(ruled, err)
	}})
}

func mustPipeOf(t testing.TB, listen net.ListenConfig) (a, b net.Conn) {
	t.Helper()
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	_ = b.SetDeadline(time.Now().Add(20 * time.Second))
	return a, b
}

// mustFrame reads the next frame, which must be of this kind.
func mustFrame[F http2.Frame](p *peer) F {
	p.t.Helper()
	f, err := p.ReadFrame()
	if err != nil {
		p.t.Fatalf("read a frame: %v", err)
	}
	want, ok := f.(F)
	if !ok {
		p.t.Fatalf("got the frame %v", f)
	}
	return want
}

// mustSettings sends settings and reads their acknowledgement.
func (p *peer) mustSettings(s ...http2.Setting) {
	p.t.Helper()
	_ = p.WriteSettings(s...)
	if !mustFrame[*http2.SettingsFrame](p).IsAck() {
		p.t.Fatal("no acknowledgement")
	}
}

// block encodes header fields.
func (p *peer) block(fields ...string) []byte {
	p.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(p.buf.Bytes())
}

// headers sends an answer's headers.
func (p *peer) headers(id uint32, ended bool, fields ...string) {
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(fields...), EndHeaders: true, EndStream: ended})
}

// results is the owner of calls.
type results chan *Result

func (r results) Answered(result *Result) { r <- result }

// must is the next result.
func (r results) must(t testing.TB) *Result {
	t.Helper()
	select {
	case result := <-r:
		return result
	case <-time.After(20 * time.Second):
		t.Fatal("no result")
		return nil
	}
}

// start begins a call and returns a channel for its result.
func (p *peer) start(body []byte, check func() bool) (*Call, results) {
	r := make(results, 1)
	call := p.conn.NewCall(body, check, r)
	call.Start("/path", []Field{{Name: "one", Value: "1"}})
	return call, r
}

// grants is an owner of waiters, which gets the connections.
type grants chan acquired

type acquired struct {
	conn *Conn
	err  error
}

func (r grants) Acquired(c *Conn, err error) { r <- acquired{c, err} }

// acquire calls Pool.Acquire and waits for the result.
func acquire(ctx context.Context, p *Pool, group string) (*Conn, error) {
	r := make(grants, 1)
	w := &Waiter{Group: group, Context: ctx, Owner: r}
	p.Acquire(w)
	select {
	case got := <-r:
		return got.conn, got.err
	case <-ctx.Done():
		p.Cancel(w, ctx.Err())
		got := <-r
		return got.conn, got.err
	}
}
