package h2

import (
	"fmt"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameHeader = 9               // length of a frame's header in bytes
	giveBack    = firstWindow / 4 // received bytes that are returned to the peer's window at once
)

// heardReader reads from a connection and notes that its peer is alive.
type heardReader struct{ c *Conn }

// Read implements io.Reader.
func (r heardReader) Read(p []byte) (int, error) {
	n, err := r.c.conn.Read(p)
	if n > 0 {
		r.c.hear()
	}
	return n, err
}

// read is the connection's reader goroutine. A malformed frame ends the connection, even if it concerns
// only one stream (RFC 9113, 5.4.2 allows that).
func (c *Conn) read() {
	for {
		f, err := c.framer.ReadFrame()
		if err == nil {
			err = c.frame(f)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// frame handles one frame; an error ends the connection. Frames of ended calls and of unknown
// kinds are ignored.
func (c *Conn) frame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		c.answer.begin(f.StreamID, f.StreamEnded())
		return c.onHeader(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return c.onHeader(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return c.onData(f)
	case *http2.RSTStreamFrame:
		c.onReset(f)
	case *http2.SettingsFrame:
		return c.onSettings(f)
	case *http2.WindowUpdateFrame:
		return c.onWindow(f)
	case *http2.PingFrame:
		return c.onPing(f)
	case *http2.GoAwayFrame:
		c.onGoAway(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil
}

// head is an answer's headers as they come.
type head struct {
	dec    *hpack.Decoder
	stream uint32
	ended  bool // no body follows
	status int
	fields []Field
	size   int
}

// init makes the decoder, which is used as long as the connection.
func (h *head) init() {
	h.dec = hpack.NewDecoder(4096, h.add)
	h.dec.SetMaxStringLength(maxAnswer)
}

// begin starts with the headers of a stream.
func (h *head) begin(stream uint32, ended bool) {
	h.stream, h.ended, h.status, h.fields, h.size = stream, ended, 0, h.fields[:0], 0
}

// add takes one field.
func (h *head) add(f hpack.HeaderField) {
	h.size += int(f.Size())
	switch {
	case f.Name == ":status":
		h.status, _ = strconv.Atoi(f.Value)
	case h.size <= maxAnswer:
		h.fields = append(h.fields, f)
	}
}

// take is a copy of the fields.
func (h *head) take() []Field { return append([]Field(nil), h.fields...) }

// onHeader takes a fragment of headers. Headers that do not belong to a final answer, such as 100
// Continue and trailers, are decoded too, because the header table depends on them.
func (c *Conn) onHeader(fragment []byte, ended bool) error {
	h := &c.answer
	h.size += frameHeader + len(fragment) // an empty one counts, too
	if _, err := h.dec.Write(fragment); err != nil {
		return fmt.Errorf("read headers: %w", err)
	}
	if h.size > 2*maxAnswer {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	if !ended {
		return nil
	}
	if err := h.dec.Close(); err != nil {
		return fmt.Errorf("read headers: %w", err)
	}
	c.mu.Lock()
	defer c.unlockAndNotify()
	call, ok := c.calls[h.stream]
	switch {
	case !ok, h.status/100 == 1 && !h.ended:
	case h.status == 0 && call.result.Status == 0:
		c.reset(call, call.lost(errNoHeader))
	default:
		c.began(call, h, h.ended)
	}
	return nil
}

// onData takes a piece of an answer's body. A body that is too long is cut off, and the rest is
// not waited for.
func (c *Conn) onData(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.unlockAndNotify()
	if c.owed += f.Length; c.owed >= giveBack {
		_ = c.framer.WriteWindowUpdate(0, c.owed)
		c.owed = 0
	}
	call, ok := c.calls[f.StreamID]
	if !ok {
		return c.flooded()
	}
	r := &call.result
	r.Body = append(r.Body, f.Data()[:min(len(f.Data()), maxBody-len(r.Body))]...)
	switch {
	case r.Status == 0:
		c.reset(call, call.lost(errNoHeader))
	case f.StreamEnded():
		c.finish(call)
	case len(r.Body) == maxBody:
		c.reset(call, nil)
	}
	return nil
}

// onReset ends a call that the peer ended.
func (c *Conn) onReset(f *http2.RSTStreamFrame) {
	c.mu.Lock()
	defer c.unlockAndNotify()
	cause := http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode}
	call, ok := c.calls[f.StreamID]
	switch {
	case !ok:
	case f.ErrCode == http2.ErrCodeRefusedStream:
		c.end(call, unprocessed(cause))
	default:
		c.end(call, call.lost(cause))
	}
}

// onSettings applies the peer's settings. The pool gets a lower limit before it is acknowledged, and a
// higher one afterwards, so that there are never more calls than the peer allows.
func (c *Conn) onSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	streams, named := f.Value(http2.SettingMaxConcurrentStreams)
	allowed := int(min(streams, maxStreamID))
	if named {
		c.pool.lower(c, allowed)
	}
	c.mu.Lock()
	if named {
		c.streams = allowed
	}
	err := f.ForeachSetting(c.apply)
	if err == nil {
		err = c.framer.WriteSettingsAck()
		c.unblock()
	}
	if err == nil {
		err = c.flooded()
	}
	allowed = c.streams
	c.unlockAndNotify()
	c.pool.raise(c, min(allowed, MaxStreams))
	return err
}

// apply takes over one setting. mu is held.
func (c *Conn) apply(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingInitialWindowSize:
		for _, call := range c.calls {
			call.window += int64(s.Val) - c.perCall
		}
		c.perCall = int64(s.Val)
	case http2.SettingMaxFrameSize:
		c.maxFrame = int(s.Val)
	case http2.SettingMaxHeaderListSize:
		c.maxHead = int(min(s.Val, firstMaxFrame))
	case http2.SettingHeaderTableSize:
		c.enc.SetMaxDynamicTableSize(s.Val)
	}
	return nil
}

// onWindow resumes bodies that waited for a window.
func (c *Conn) onWindow(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.unlockAndNotify()
	if f.StreamID == 0 {
		c.window += int64(f.Increment)
	} else if call, ok := c.calls[f.StreamID]; ok {
		call.window += int64(f.Increment)
	}
	c.unblock()
	if c.window > maxStreamID {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	return nil
}

// onPing answers the peer's PING.
func (c *Conn) onPing(f *http2.PingFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.framer.WritePing(true, f.Data)
	return c.flooded()
}

// flooded ends a connection whose peer makes us write more than it reads.
func (c *Conn) flooded() error {
	if len(c.out.bytes) > maxUnsent {
		return errFlooded
	}
	return nil
}

// onGoAway sends new requests, and those that the peer did not process, to other connections.
func (c *Conn) onGoAway(f *http2.GoAwayFrame) {
	cause := http2.GoAwayError{LastStreamID: f.LastStreamID, ErrCode: f.ErrCode}
	c.retire(cause)
	c.mu.Lock()
	defer c.unlockAndNotify()
	for id, call := range c.calls {
		if id > f.LastStreamID {
			c.end(call, unprocessed(cause))
		}
	}
}
