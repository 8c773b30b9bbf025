package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"fanfare/store/storetest"
)

// A request's headers and body as the peer reads them.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for i, wantSize := range []int{100, 50} { // the second time they are in the header table
		_, done := p.start([]byte("body"), nil)
		h := mustFrame[*http2.MetaHeadersFrame](p)
		got := fmt.Sprint(h.PseudoValue("method"), h.PseudoValue("scheme"), h.PseudoValue("authority"), h.PseudoValue("path"), h.RegularFields()[0])
		if got != "POSThttpsexample.com/path"+`header field "one" = "1"` || h.StreamID != uint32(1+2*i) || int(h.Length) > wantSize {
			t.Fatalf("stream %d, %d bytes: %s", h.StreamID, h.Length, got)
		}
		if d := mustFrame[*http2.DataFrame](p); string(d.Data()) != "body" || !d.StreamEnded() {
			t.Fatalf("the body is %v", d)
		}
		p.headers(h.StreamID, true, ":status", "200", "id", "7")
		if r := done.must(t); r.Status != 200 || r.Err != nil || r.Get("id") != "7" || r.Get("x") != "" {
			t.Fatalf("got %+v", r)
		}
	}
}

// A path that all requests share is sent as one byte from the second request on.
func TestOnePathIsSentOnce(t *testing.T) {
	t.Parallel()
	second := map[bool]int{}
	for _, one := range []bool{false, true} {
		p := setup(t, func(o *Options) { o.OnePath = one })
		p.ReadMetaHeaders = nil
		p.mustSettings()
		for range 2 {
			p.start(nil, nil)
			second[one] = len(mustFrame[*http2.HeadersFrame](p).HeaderBlockFragment())
			mustFrame[*http2.DataFrame](p)
		}
	}
	if second[false]-second[true] < len("/path")-1 {
		t.Errorf("%d bytes with a path of its own, %d with the same one", second[false], second[true])
	}
}

// Answers of every form.
func TestAnswersOnTheWire(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", 10_000)
	for name, row := range map[string]struct {
		answer func(p *peer)
		status int
		body   string
	}{
		"1xx first": {func(p *peer) {
			p.headers(1, false, ":status", "100")
			p.headers(1, true, ":status", "204")
		}, 204, ""},
		"continued headers": {func(p *peer) {
			b := p.block(":status", "429", "id", long)
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:1], EndStream: true})
			_ = p.WriteContinuation(1, false, b[1:9])
			_ = p.WriteContinuation(1, true, b[9:])
		}, 429, ""},
		"padding and trailers": {func(p *peer) {
			p.headers(1, false, ":status", "200")
			_ = p.WriteDataPadded(1, false, []byte("ab"), make([]byte, 9))
			_ = p.WriteData(1, false, []byte("c"))
			p.headers(1, true, "trailer", "x")
		}, 200, "abc"},
		"a body that breaks off": {func(p *peer) {
			p.headers(1, false, ":status", "500")
			_ = p.WriteData(1, false, []byte("ab"))
			_ = p.WriteRSTStream(1, http2.ErrCodeInternal)
		}, 500, "ab"},
		"a lost connection after the status": {func(p *peer) {
			p.headers(1, false, ":status", "500")
			_ = p.raw.Close()
		}, 500, ""},
		"no status":  {func(p *peer) { p.headers(1, true, "a", "b") }, 0, ""},
		"body first": {func(p *peer) { _ = p.WriteData(1, true, []byte("x")) }, 0, "x"},
		"a push": {func(p *peer) {
			_ = p.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
		}, 0, ""},
		"nonsense": {func(p *peer) { _, _ = p.raw.Write(bytes.Repeat([]byte{255}, 100)) }, 0, ""},
		"bad hpack": {func(p *peer) {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{255, 255, 255, 255}, EndHeaders: true})
		}, 0, ""},
		"endless headers": {func(p *peer) {
			for i := range 20 {
				b := p.block("h", strings.Repeat("z", 10_000))
				if i == 0 {
					_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b})
				} else {
					_ = p.WriteContinuation(1, false, b)
				}
			}
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, nil)
			_, done := p.start([]byte("x"), nil)
			mustFrame[*http2.MetaHeadersFrame](p)
			mustFrame[*http2.DataFrame](p)
			row.answer(p)
			r := done.must(t)
			if r.Status != row.status || string(r.Body) != row.body || (r.Err == nil) != (row.status != 0) || r.Cut != (row.status == 500) {
				t.Fatalf("got %d %q, cut off %v: %v", r.Status, r.Body, r.Cut, r.Err)
			}
			if errors.Is(r.Err, ErrUnprocessed) {
				t.Fatalf("the peer had all of it: %v", r.Err)
			}
		})
	}
}

// A body is read up to the limit, whatever the peer sends. The connection stays open and its window
// is given back.
func TestHugeAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	_, done := p.start([]byte("x"), nil)
	mustFrame[*http2.MetaHeadersFrame](p)
	mustFrame[*http2.DataFrame](p)
	p.headers(1, false, ":status", "500")
	piece, window := make([]byte, 16<<10), firstWindow
	for reset := false; !reset; {
		if n := min(len(piece), window); n > 0 {
			_ = p.WriteData(1, false, piece[:n])
			window -= n
		}
		f, err := p.ReadFrame()
		switch f := f.(type) {
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				window += int(f.Increment)
			}
		case *http2.RSTStreamFrame:
			reset = true
		default:
			t.Fatalf("got %v: %v", f, err)
		}
	}
	if r := done.must(t); r.Status != 500 || len(r.Body) != maxBody || r.Err != nil {
		t.Fatalf("got %d with %d bytes: %v", r.Status, len(r.Body), r.Err)
	}
	_ = p.WritePing(false, [8]byte{1})
	for {
		f, err := p.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if ping, ok := f.(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}

// while a body waits for a window the lease may end. The check is called again before the end
// of the body is written, and false withholds the request.
func TestCheckIsAskedAfterWaitingForAWindow(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		window uint32 // of the stream
		body   int
		open   func(p *peer)
	}{
		"stream":     {10, 25, func(p *peer) { _ = p.WriteWindowUpdate(1, 100) }},
		"nothing":    {0, 25, func(p *peer) { _ = p.WriteWindowUpdate(1, 100) }},
		"settings":   {10, 25, func(p *peer) { p.mustSettingsLate(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}) }},
		"connection": {1 << 20, firstWindow + 1, func(p *peer) { _ = p.WriteWindowUpdate(0, 100) }},
	} {
		for _, allowed := range []bool{true, false} {
			t.Run(fmt.Sprint(name, allowed), func(t *testing.T) {
				t.Parallel()
				p := setup(t, nil)
				p.mustSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: row.window})
				var may atomic.Bool
				may.Store(true)
				_, done := p.start(make([]byte, row.body), may.Load)
				mustFrame[*http2.MetaHeadersFrame](p)
				for got := 0; got < min(int(row.window), firstWindow); {
					d := mustFrame[*http2.DataFrame](p)
					if got += len(d.Data()); d.StreamEnded() {
						t.Fatal("the whole body came")
					}
				}
				may.Store(allowed)
				row.open(p)
				f := p.mustData()
				if d, ok := f.(*http2.DataFrame); ok != allowed || ok && !d.StreamEnded() {
					t.Fatalf("got %v", f)
				}
				if allowed {
					p.headers(1, true, ":status", "200")
				}
				if r := done.must(t); errors.Is(r.Err, ErrWithheld) == allowed || (r.Status == 200) != allowed {
					t.Fatalf("got %+v", r)
				}
			})
		}
	}
}

// mustSettingsLate sends settings without waiting for their acknowledgement.
func (p *peer) mustSettingsLate(s ...http2.Setting) { _ = p.WriteSettings(s...) }

// mustData is the next frame that is not an acknowledgement.
func (p *peer) mustData() http2.Frame {
	p.t.Helper()
	for {
		f, err := p.ReadFrame()
		if err != nil {
			p.t.Fatal(err)
		}
		if s, ok := f.(*http2.SettingsFrame); !ok || !s.IsAck() {
			return f
		}
	}
}

// Requests keep to the settings of the peer.
func TestPeerSettings(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.mustSettings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 400},
		http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 20_000})
	large := make(results, 1)
	p.conn.NewCall(nil, nil, large).Start("/"+strings.Repeat("x", 400), nil)
	if r := large.must(t); !errors.Is(r.Err, errTooLarge) || !errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("headers that are too large: %+v", r)
	}
	_, done := p.start(make([]byte, 30_000), nil)
	mustFrame[*http2.MetaHeadersFrame](p)
	if d := mustFrame[*http2.DataFrame](p); len(d.Data()) != 20_000 {
		t.Errorf("a frame of %d bytes", len(d.Data()))
	}
	mustFrame[*http2.DataFrame](p)
	_, second := p.start([]byte("x"), nil)
	if r := second.must(t); !errors.Is(r.Err, ErrFull) || !errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("one request more than allowed: %+v", r)
	}
	p.headers(1, true, ":status", "200")
	done.must(t)
	_, third := p.start([]byte("x"), nil)
	if h := mustFrame[*http2.MetaHeadersFrame](p); h.StreamID != 3 {
		t.Errorf("the next stream is %d", h.StreamID)
	}
	_ = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}) // not allowed
	third.must(t)
}

// Stream ids have 31 bits. After the last one another connection is needed.
func TestStreamNumbersRunOut(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.conn.mu.Lock()
	p.conn.nextID = maxStreamID
	p.conn.mu.Unlock()
	_, done := p.start([]byte("x"), nil)
	if h := mustFrame[*http2.MetaHeadersFrame](p); h.StreamID != maxStreamID {
		t.Fatalf("stream %d", h.StreamID)
	}
	_, next := p.start([]byte("x"), nil)
	if r := next.must(t); !errors.Is(r.Err, ErrUnprocessed) {
		t.Fatalf("got %+v", r)
	}
	storetest.Eventually(t, 20*time.Second, "the connection to be retired", p.conn.Gone)
	mustFrame[*http2.DataFrame](p)
	p.headers(maxStreamID, true, ":status", "200")
	if r := done.must(t); r.Status != 200 {
		t.Fatalf("the last one: %+v", r)
	}
}

// GOAWAY, RST_STREAM and the loss of the connection tell which requests may have been processed.
func TestWhoWasProcessed(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	var done [5]results
	for i := range done {
		_, done[i] = p.start([]byte("x"), nil)
		mustFrame[*http2.MetaHeadersFrame](p)
		mustFrame[*http2.DataFrame](p)
	}
	_ = p.WriteRSTStream(1, http2.ErrCodeRefusedStream)
	_ = p.WriteRSTStream(3, http2.ErrCodeInternal)
	_ = p.WriteGoAway(7, http2.ErrCodeInternal, []byte("why"))
	if r := done[4].must(t); !errors.Is(r.Err, ErrUnprocessed) || !p.conn.Gone() {
		t.Errorf("above the GOAWAY: %+v", r)
	}
	p.headers(5, true, ":status", "200")
	if r := done[2].must(t); r.Status != 200 {
		t.Errorf("below the GOAWAY: %+v", r)
	}
	_ = p.raw.Close()
	for i, unprocessed := range map[int]bool{0: true, 1: false, 3: false} {
		if r := done[i].must(t); r.Err == nil || errors.Is(r.Err, ErrUnprocessed) != unprocessed {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// A call that its caller cancels is reset, unless it has not begun.
func TestCancel(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	call, done := p.start([]byte("x"), nil)
	mustFrame[*http2.MetaHeadersFrame](p)
	mustFrame[*http2.DataFrame](p)
	call.Cancel(context.Canceled)
	if r := done.must(t); !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("what was sent: %+v", r)
	}
	if f := mustFrame[*http2.RSTStreamFrame](p); f.StreamID != 1 {
		t.Errorf("stream %d was reset", f.StreamID)
	}
	call.Cancel(context.Canceled)
	p.headers(1, true, ":status", "200") // too late
	early := p.conn.NewCall([]byte("x"), nil, done)
	early.Cancel(context.Canceled)
	early.Start("/", nil)
	if r := done.must(t); !errors.Is(r.Err, context.Canceled) || !errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("what was not sent: %+v", r)
	}
	p.conn.fail(ErrClosed)
	_, late := p.start([]byte("x"), nil)
	if r := late.must(t); !errors.Is(r.Err, ErrUnprocessed) || len(done) > 0 {
		t.Errorf("on a closed connection: %+v", r)
	}
}

// slowPeer is a connection that accepts no data until it is allowed to.
type slowPeer struct {
	net.Conn
	allow chan struct{}
	began chan struct{}
	taken atomic.Int64
}

func (p *slowPeer) Write(b []byte) (int, error) {
	select {
	case p.began <- struct{}{}:
	default:
	}
	<-p.allow
	p.taken.Add(int64(len(b)))
	return len(b), nil
}

// Failure table: no send starts after the end of the lease, not even of data that was buffered when
// the process was stopped. Data that was never sent is known to be unprocessed.
func TestHeldUpFramesAreNeverSent(t *testing.T) {
	t.Parallel()
	p := setup(t, func(o *Options) { o.SendWithin = 20 * time.Millisecond })
	_, done := p.start([]byte("x"), func() bool {
		time.Sleep(30 * time.Millisecond) //nolint:forbidigo // the process is stopped
		return true
	})
	_, next := p.start([]byte("x"), nil)
	for _, r := range []*Result{done.must(t), next.must(t)} {
		if !errors.Is(r.Err, errLate) || !errors.Is(r.Err, ErrUnprocessed) {
			t.Errorf("got %+v", r)
		}
	}
	if f, err := p.ReadFrame(); err == nil {
		t.Errorf("%v was sent", f)
	}
	_, late := p.start([]byte("x"), nil)
	if r := late.must(t); !errors.Is(r.Err, errLate) {
		t.Errorf("a call after that: %+v", r)
	}
}

// P4: on a slow way to the server a burst takes longer than SendWithin. All of it arrives, and each check is asked
// when the request leaves.
func TestP4_ABurstOnASlowWay(t *testing.T) {
	t.Parallel()
	const calls, size, within = 60, 1000, time.Second
	ours, theirs := mustSlowPipe(t)
	o := testOptions()
	o.SendWithin = within
	raw := newPunctual(ours)
	c := newConn(New("", nil, o), raw, raw)
	c.window = calls * size
	c.start()
	t.Cleanup(func() { c.fail(ErrClosed) })
	began, done := time.Now(), make(results, calls)
	var checked atomic.Int64
	for range calls {
		c.NewCall(make([]byte, size), func() bool { checked.Store(int64(time.Since(began))); return true }, done).Start("/", nil)
	}
	for got := 0; got < calls*size; { // 6 KB a second: the system takes a write of 8 KB at once, or in more than a second
		n, err := io.ReadFull(theirs, make([]byte, 1<<10))
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		got += n
		time.Sleep(160 * time.Millisecond) //nolint:forbidigo // the way is slow
	}
	if took := time.Since(began); time.Duration(checked.Load()) < took/2 || took < 2*within {
		t.Errorf("the last request was checked after %v of %v", time.Duration(checked.Load()), took)
	}
	if c.Gone() || len(done) > 0 {
		t.Errorf("%d calls have ended", len(done))
	}
}

// brokenWay is a connection on which writes fail, from a moment on.
type brokenWay struct {
	net.Conn
	broken atomic.Bool
	failed chan struct{} // closed when one has failed
}

func (w *brokenWay) Write(p []byte) (int, error) {
	if w.broken.Load() {
		close(w.failed) // the writer ends with the first
		return 0, syscall.EPIPE
	}
	return w.Conn.Write(p)
}

// A peer closes the connection, and a write fails before the reader has read what the peer said: it has processed nothing.
func TestAPeerIsHeardThoughAWriteFails(t *testing.T) {
	t.Parallel()
	ours, theirs := mustPipe(t)
	way := &brokenWay{Conn: ours, failed: make(chan struct{})}
	raw := newPunctual(way)
	c := newConn(New("", nil, testOptions()), raw, raw)
	c.start()
	t.Cleanup(func() { c.fail(ErrClosed) })
	if _, err := io.ReadFull(theirs, make([]byte, len(http2.ClientPreface))); err != nil {
		t.Fatal(err)
	}
	way.broken.Store(true)
	done := make(results, 1)
	c.NewCall([]byte("x"), nil, done).Start("/", nil)
	<-way.failed
	if err := http2.NewFramer(theirs, nil).WriteGoAway(0, http2.ErrCodeNo, nil); err != nil {
		t.Fatal(err)
	}
	_ = theirs.(*net.TCPConn).CloseWrite()
	if r := done.must(t); !errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("the request ended as %+v", r)
	}
}

// A request that waits while the server takes nothing can be withdrawn, by its check and by its caller.
func TestWhatHasNotLeftIsWithdrawn(t *testing.T) {
	t.Parallel()
	ours, _ := mustPipe(t)
	slow := &slowPeer{Conn: ours, allow: make(chan struct{}), began: make(chan struct{}, 1)}
	raw := newPunctual(slow)
	c := newConn(New("", nil, testOptions()), raw, raw)
	c.start()
	t.Cleanup(func() { c.fail(ErrClosed) })
	<-slow.began
	withheld, cancelled := make(results, 1), make(results, 1)
	c.NewCall([]byte("x"), func() bool { return false }, withheld).Start("/", nil)
	call := c.NewCall([]byte("x"), nil, cancelled)
	call.Start("/", nil)
	call.Cancel(context.Canceled)
	if r := cancelled.must(t); !errors.Is(r.Err, context.Canceled) || !errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("the cancelled one: %+v", r)
	}
	close(slow.allow)
	if r := withheld.must(t); !errors.Is(r.Err, ErrWithheld) {
		t.Errorf("the other: %+v", r)
	}
}

// A silent peer gets a PING, and the connection is given up if there is no answer.
func TestSilentPeerIsGivenUp(t *testing.T) {
	t.Parallel()
	p := setup(t, func(o *Options) { o.ReadIdle, o.PingTimeout = 50*time.Millisecond, 300*time.Millisecond })
	_, done := p.start([]byte("x"), nil)
	var headers, data, pings int
	for headers == 0 || data == 0 || pings < 2 { // on a slow machine a PING comes before the request
		f, err := p.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			headers++
		case *http2.DataFrame:
			data++
		case *http2.PingFrame:
			if pings++; pings == 1 {
				_ = p.WritePing(true, f.Data)
			}
		default:
			t.Fatalf("got the frame %v", f)
		}
	}
	if r := done.must(t); !errors.Is(r.Err, errSilent) {
		t.Fatalf("got %+v", r)
	}
}

// A process that was stopped between a PING and its time-out must not take the peer for dead,
// because the answer is waiting to be read.
func TestStoppedProcessAsksAgain(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	c := p.conn
	c.mu.Lock()
	c.heard.Store(-int64(time.Hour))
	c.pinged = -time.Minute
	c.mu.Unlock()
	c.checkSilence()
	if f := mustFrame[*http2.PingFrame](p); f.IsAck() {
		t.Error("no PING of its own")
	}
	if c.Gone() {
		t.Error("the connection was given up")
	}
}

// A peer that causes answers and reads nothing takes only limited memory.
func TestFloodedConnectionEnds(t *testing.T) {
	t.Parallel()
	ours, theirs := mustPipe(t)
	slow := &slowPeer{Conn: ours, allow: make(chan struct{}), began: make(chan struct{}, 1)}
	defer close(slow.allow)
	raw := newPunctual(slow)
	c := newConn(New("", nil, testOptions()), raw, raw)
	c.start()
	pings := bytes.Repeat([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 10_000)
	for range 2 * maxUnsent / len(pings) {
		if _, err := theirs.Write(pings); err != nil {
			break
		}
	}
	storetest.Eventually(t, 20*time.Second, "the connection to end", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return errors.Is(c.err, errFlooded)
	})
}

// P4: a peer that stops reading gets nothing of what waited for longer than SendWithin, also if the write had
// begun. What the system has taken by then is beyond recall.
func TestP4_AWriteThatIsHeldUpEnds(t *testing.T) {
	t.Parallel()
	ours, theirs := mustPipe(t)
	for _, end := range []net.Conn{ours, theirs} {
		_ = end.(*net.TCPConn).SetWriteBuffer(4 << 10)
		_ = end.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	o := testOptions()
	o.SendWithin, o.AnswerWithin = 200*time.Millisecond, 200*time.Millisecond
	raw := newPunctual(ours)
	c := newConn(New("", nil, o), raw, raw)
	const calls, size = 64, 8 << 10
	c.window = calls * size
	c.start()
	t.Cleanup(func() { c.fail(ErrClosed) })
	var last results
	for range calls {
		last = make(results, 1)
		c.NewCall(make([]byte, size), nil, last).Start("/", nil)
	}
	if r := last.must(t); !errors.Is(r.Err, errLate) && !errors.Is(r.Err, errStuck) || !errors.Is(r.Err, ErrUnprocessed) {
		t.Errorf("the last call: %+v", r)
	}
	got, _ := io.Copy(io.Discard, theirs)
	if c.mu.Lock(); uint64(got) > c.out.taken {
		t.Errorf("%d bytes arrived, %d were sent in time", got, c.out.taken)
	}
	c.mu.Unlock()
}
