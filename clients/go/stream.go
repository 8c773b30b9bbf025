package fanfare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

// StreamOptions say how a stream is read. The zero value begins where the server begins.
type StreamOptions struct {
	// LastEventID is the ID of the last event that was handled, perhaps by an earlier process.
	LastEventID string
	// Silence is how long nothing at all may come before the stream is opened again. The server sends a heartbeat
	// every 15 s. 40 s by default.
	Silence time.Duration
	// OnReconnect, if set, is called with the reason before the stream is opened again.
	OnReconnect func(error)
}

// errSilent ends a stream on which nothing came, not even a heartbeat.
var errSilent = errors.New("the stream was silent for too long")

// bye ends a stream whose token has ended.
type bye struct{ data []byte }

func (b *bye) Error() string { return "the server ended the stream: " + string(b.data) }

// Stream reads a stream of server-sent events. It opens the stream again when it ends, is cut or falls silent, and goes
// on after the last event. It waits before that as long as the server says, and longer with every failure. A token that
// has ended is replaced (Options.Token). The loop over it ends with an error when ctx ends, or when the server
// refuses the stream for good.
func (c *Client) Stream(ctx context.Context, path string, o StreamOptions) iter.Seq2[StreamEvent, error] {
	setDefault(&o.Silence, 40*time.Second)
	return func(yield func(StreamEvent, error) bool) {
		s := &stream{client: c, path: path, o: o, id: o.LastEventID}
		for failures := 0; ; failures++ {
			began, err := s.read(ctx, yield)
			switch {
			case err == nil:
				return // the caller left the loop
			case ctx.Err() != nil:
				yield(StreamEvent{}, context.Cause(ctx))
				return
			case s.final(ctx, err):
				yield(StreamEvent{}, &CallError{Method: http.MethodGet, Path: path, Attempts: failures + 1, Err: err})
				return
			}
			if o.OnReconnect != nil {
				o.OnReconnect(err)
			}
			wait := s.retry
			if began {
				failures = -1
			} else {
				wait += jitter(c.o.MinBackoff, 3*c.o.MaxBackoff, failures)
			}
			if !pause(ctx, max(wait, judge(err).wait)) && ctx.Err() != nil {
				yield(StreamEvent{}, context.Cause(ctx))
				return
			}
		}
	}
}

// stream is what is known of a stream from one connection to the next.
type stream struct {
	client  *Client
	path    string
	o       StreamOptions
	id      string
	retry   time.Duration
	token   string // of the last connection
	unheard bool   // the token before it was refused, too
}

// read opens the stream once and hands its events on. began says that the server accepted it. The error is nil
// only if the caller left the loop.
func (s *stream) read(ctx context.Context, yield func(StreamEvent, error) bool) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(min(s.o.Silence, s.client.o.Timeout), func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := s.open(ctx)
	if err != nil {
		return false, cause(ctx, err)
	}
	defer resp.Body.Close()
	s.unheard = false
	r := newReader(resp.Body, s.id)
	for {
		watch.Reset(s.o.Silence)
		event, err := r.next(func() { watch.Reset(s.o.Silence) })
		watch.Stop() // the caller may take its time
		s.id, s.retry = r.id, r.retry
		switch {
		case err != nil:
			return true, cause(ctx, err)
		case event.Name == "bye":
			s.client.token.reject(ctx, s.token)
			return true, &bye{event.Data}
		case !yield(event, nil):
			return true, nil
		}
	}
}

// cause is why ctx ended, if that is why something failed.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// open asks for the stream.
func (s *stream) open(ctx context.Context) (*http.Response, error) {
	token, err := s.client.token.get(ctx)
	if err != nil {
		return nil, &notSent{err}
	}
	s.token = token
	k := &call{method: http.MethodGet, path: s.path, header: http.Header{"Accept": {"text/event-stream"}}}
	if s.id != "" {
		k.header.Set("Last-Event-ID", s.id)
	}
	r, err := s.client.request(ctx, k, token)
	if err != nil {
		return nil, &notSent{err}
	}
	resp, err := s.client.o.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusOK:
		return nil, &badAnswer{fmt.Errorf("the answer is no stream but %q", resp.Header.Get("Content-Type"))}
	}
	return nil, problemOf(resp, text)
}

// final tells whether the server refused the stream for good. A token that was refused is replaced once.
func (s *stream) final(ctx context.Context, err error) bool {
	v := judge(err)
	if v.unauthorized && !s.unheard && s.client.token.reject(ctx, s.token) {
		s.unheard = true
		return false
	}
	return !v.transient
}
