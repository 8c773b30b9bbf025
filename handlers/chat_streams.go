package handlers

import (
	"context"
	"slices"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/chat/live"
)

type pendingRequest struct {
	User   string `path:"user" validate:"identifier"`
	Limit  int64  `query:"limit" default:"50" validate:"min=1,max=500"`
	WaitMS int64  `query:"wait_ms" default:"0" validate:"min=0,max=30000"`
}

// getPending lists the messages that a user has not acknowledged.
//
//	@Summary		List unread messages
//	@Description	Lists every chat that has unread messages, with up to `limit` messages above the user's position, including the
//	@Description	user's own. The answer stays the same until the messages are acknowledged. `gap` is true if messages between the
//	@Description	position and `first_id` are no longer kept. If there is nothing to read, the call waits up to `wait_ms` for a
//	@Description	message. A chat that could not be read has `error` and does not end the wait; the other chats are listed as
//	@Description	usual. An answer has about 1 MiB of messages at most. `more` is true if some chats are listed with empty `items`
//	@Description	because there is no room for their messages: acknowledge what came and ask again, or read these chats one by one.
//	@Tags			group chat
//	@ID				getPendingMessages
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(bob)
//	@Param			limit	query		int					false	"Messages per chat"	minimum(1)	maximum(500)	default(50)
//	@Param			wait_ms	query		int					false	"How long to wait for a message"	minimum(0)	maximum(30000)	default(0)
//	@Success		200		{object}	api.PendingChats	"The chats"
//	@Router			/v1/users/{user}/messages/pending [get]
func (s *server) getPending(ctx context.Context, in *pendingRequest) (*web.Reply[api.PendingChats], error) {
	pending, err := s.pending(ctx, in)
	if err == nil && in.WaitMS > 0 && !hasNews(pending) {
		pending, err = s.awaitPending(ctx, in)
	}
	return web.OK(pending), err
}

func (s *server) pending(ctx context.Context, in *pendingRequest) (*api.PendingChats, error) {
	ctx, cancel := s.web.Briefly(ctx)
	defer cancel()
	pending, err := s.o.Chats.Pending(ctx, in.User, int(in.Limit))
	if err == nil {
		err = s.web.StillAllowed(ctx) // the token may have ended before the chats were read
	}
	return pending, err
}

// awaitPending reads again whenever a message may have come, until there is one or the wait has
// timed out.
func (s *server) awaitPending(ctx context.Context, in *pendingRequest) (*api.PendingChats, error) {
	over := time.NewTimer(time.Duration(in.WaitMS) * time.Millisecond)
	defer over.Stop()
	check := time.NewTicker(web.CheckEvery)
	defer check.Stop()
	watch, err := s.watch(ctx, in.User)
	if err != nil {
		return nil, err
	}
	defer watch.Close(ctx)
	for last := false; ; {
		select {
		case <-watch.Wake():
		case <-check.C:
			if err := s.web.StillAllowed(ctx); err != nil {
				return nil, err
			}
			continue
		case <-over.C:
			last = true
		case <-s.web.Closing():
			last = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := s.refresh(ctx, watch); err != nil {
			return nil, err
		}
		pending, err := s.pending(ctx, in)
		if err != nil || last || hasNews(pending) {
			return pending, err
		}
	}
}

// hasNews reports whether there is something to read. Chats that failed to load do not end
// the wait, or clients would poll in a loop.
func hasNews(p *api.PendingChats) bool {
	return slices.ContainsFunc(p.Chats, func(c api.PendingChat) bool { return c.Error == nil })
}

func (s *server) watch(ctx context.Context, user string) (*live.Stream, error) {
	ctx, cancel := s.web.Briefly(ctx)
	defer cancel()
	return s.o.Live.Watch(ctx, user)
}

func (s *server) refresh(ctx context.Context, watch *live.Stream) error {
	ctx, cancel := s.web.Briefly(ctx)
	defer cancel()
	return watch.Refresh(ctx)
}

type streamMessagesRequest struct {
	User string `path:"user" validate:"identifier"`
	lastEvent
}

// lastEvent names the event after which a stream goes on. A browser's EventSource sends the header when it
// reconnects by itself; a new EventSource can only say it in the URL.
type lastEvent struct {
	LastEventID string `header:"Last-Event-ID"`
	InURL       string `query:"last_event_id"`
}

func (l lastEvent) id() string {
	if l.LastEventID != "" {
		return l.LastEventID
	}
	return l.InURL
}

// streamMessages sends all messages of a user's chats.
//
//	@Summary		Follow all chats of a user
//	@Description	Sends server-sent events. `message` has `{chat, id, sender, text, data, redacted, sent_at}`: every message above the
//	@Description	user's position is sent once, in the order of its chat, including the user's own. A message that was redacted
//	@Description	before has `redacted: true` and an empty `text`. `redacted` has
//	@Description	`{chat, id}`: a message that was sent before was redacted. `gap` has `{chat, first_id, epoch}`:
//	@Description	earlier messages are no longer kept, or the chat was deleted and made again. In chats of at most 100 members `read`
//	@Description	has `{chat, user, acked}` when a member acknowledges, and `typing` has `{chat, user}`, each at most once a second for
//	@Description	a member; they are not repeated after a reconnection. Joining and leaving take effect at once. To go on exactly after an event, send its id as `Last-Event-ID` when you open the stream again; browsers
//	@Description	do so by themselves. Without that header a stream begins at the acknowledged positions, and with it do those of a user's chats
//	@Description	that the id has no room for, if there are more than some 100. Delivery does not
//	@Description	acknowledge a message. A comment every 15 s shows that the stream is alive. A reader that is too slow is
//	@Description	disconnected. A user with an open stream gets no push notifications of chats. A stream that was opened with a
//	@Description	user token or a ticket ends with `event: bye`, whose `reason` is `expired` or `revoked`, within 10 s of the end
//	@Description	of the token.
//	@Tags			group chat
//	@ID				streamMessages
//	@Produce		event-stream
//	@Param			user			path		string		true	"The user"	example(bob)
//	@Param			Last-Event-ID	header		string		false	"The id of the last event received"	maxlength(2048)
//	@Param			last_event_id	query		string		false	"The same for a new EventSource, which can send no header; the header takes precedence"	maxlength(2048)
//	@Success		200				{object}	api.StreamEvents	"The events, until either side ends them"
//	@Failure		503				{object}	api.Problem	"overloaded: the process has FANFARE_MAX_STREAMS open; unavailable"
//	@Router			/v1/users/{user}/messages/stream [get]
func (s *server) streamMessages(ctx context.Context, in *streamMessagesRequest, out *web.Stream) error {
	st, err := s.openStream(ctx, in)
	if err != nil {
		return err
	}
	defer st.Close(ctx)
	out.Reached = st.Reached
	for {
		if err := out.Await(ctx, st.Wake()); err != nil {
			return err
		}
		events, err := s.readStream(ctx, st)
		if sent := out.Send(events...); sent != nil {
			return sent
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) openStream(ctx context.Context, in *streamMessagesRequest) (st *live.Stream, err error) {
	ctx, cancel := s.web.Briefly(ctx)
	defer cancel()
	web.OnNewStack(func() { st, err = s.o.Live.Stream(ctx, in.User, in.id()) })
	return st, err
}

// readStream reads the new events, in the form in which they are sent.
func (s *server) readStream(ctx context.Context, st *live.Stream) (out []web.StreamEvent, err error) {
	ctx, cancel := s.web.Briefly(ctx)
	defer cancel()
	web.OnNewStack(func() {
		var events []live.Event
		events, err = st.Read(ctx)
		out = make([]web.StreamEvent, len(events))
		for i := range events {
			out[i] = streamEvent(&events[i])
		}
	})
	return out, err
}

// streamEvent is an event as it is sent. A message is encoded once for all streams.
func streamEvent(e *live.Event) web.StreamEvent {
	out := web.StreamEvent{ID: e.ID}
	switch {
	case e.Message != nil:
		out.Name, out.Data = "message", &e.Message.StreamMessage
		if text, err := e.Message.Encoded(web.Encode); err == nil {
			out.Data = web.Encoded(text)
		}
	case e.Redacted != nil:
		out.Name, out.Data = "redacted", e.Redacted
	case e.Gap != nil:
		out.Name, out.Data = "gap", e.Gap
	case e.Read != nil:
		out.Name, out.Data = "read", e.Read
	case e.Typing != nil:
		out.Name, out.Data = "typing", e.Typing
	}
	return out
}
