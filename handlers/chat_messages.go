package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/store/chat"
)

type postMessageRequest struct {
	Chat        string `path:"chat" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.ChatMessageRequest
}

// postMessage sends a message.
//
//	@Summary		Send a message
//	@Description	The ids of a chat's messages are 1, 2, 3 and so on without holes: a reader who sees a message can also read all
//	@Description	kept messages with lower ids. Members with an open stream receive the message at once. The other members get a
//	@Description	push notification if the event type `chat.message` is registered. Its actor is the sender, its object is
//	@Description	`chat:<id>`, which members can mute, and its data has `chat`, `message_id` and `text` (the first 500 bytes of
//	@Description	the text). The message's own `data` is for apps that read the chat: pages and streams show it beside the text,
//	@Description	and pushes do not have it.
//	@Tags			group chat
//	@ID				postMessage
//	@Accept			json
//	@Produce		json
//	@Param			chat			path		string					true	"The chat"	example(team)
//	@Param			Idempotency-Key	header		string					false	"Makes the call safe to repeat for 24 h; unique per chat and sender"	minlength(1)	maxlength(255)
//	@Param			message			body		api.ChatMessageRequest	true	"The message: 1 to 4,000 characters and at most 1 KiB of data, kept as they are"
//	@Success		201				{object}	api.ChatMessageSent		"Sent"
//	@Header			201				{string}	Idempotent-Replayed		"true if this is the first answer again"
//	@Failure		403				{object}	api.Problem				"not_a_member"
//	@Failure		404				{object}	api.Problem				"not_found: there is no such chat"
//	@Failure		422				{object}	api.Problem				"validation_failed, idempotency_key_reused"
//	@Router			/v1/chats/{chat}/messages [post]
func (s *server) postMessage(ctx context.Context, in *postMessageRequest) (*web.Reply[api.ChatMessageSent], error) {
	if in.Idempotency.Key != "" {
		in.Idempotency.Scope += " " + in.Body.Sender
	}
	push := s.pushes(ctx)
	sent, replayed, err := s.o.Chats.Send(ctx, chat.Outgoing{
		Chat: in.Chat, Sender: in.Body.Sender, Text: in.Body.Text, Data: in.Body.Data, Push: push, Once: in.Idempotency,
	})
	if err != nil {
		return nil, asStranger(ctx, err)
	}
	s.sent(in.Chat, push, replayed)
	return web.Created(sent).Replayed(replayed), nil
}

// pushes reports whether messages are to be pushed.
func (s *server) pushes(ctx context.Context) bool { return s.o.Events.Knows(ctx, api.ChatMessageType) }

// sent counts a message and has its push made, outside of the request's path. A replay asks for
// the push, too, because the first request may have died before it could.
func (s *server) sent(chat string, push, replayed bool) {
	if !replayed {
		s.messages.Inc()
	}
	if push {
		s.o.Pusher.Due(chat)
	}
}

type listMessagesRequest struct {
	Chat   string `path:"chat" validate:"identifier"`
	User   string `query:"user" validate:"identifier"`
	After  *int64 `query:"after" validate:"omitempty,min=0"`
	Before *int64 `query:"before" validate:"omitempty,min=0"`
	Limit  int64  `query:"limit" default:"50" validate:"min=1,max=500"`
	Epoch  string `query:"epoch" validate:"max=128"`
}

// listMessages reads a chat's messages.
//
//	@Summary		Read messages
//	@Description	Lists messages in ascending order. Reading does not acknowledge them. With `after` the list begins with the
//	@Description	first message above that id. With `before` it has the newest messages below that id. With neither it begins with
//	@Description	the oldest message that is kept. `gap` is true if some of the requested messages are no longer kept. If `epoch`
//	@Description	was given, `gap` is also true if the messages up to `after` are not the ones of that epoch: the chat was deleted
//	@Description	and made again, or Redis lost messages and their ids were used again. Then go on from `first_id`. An answer has
//	@Description	about 1 MiB of messages at most, so it may have fewer than `limit` although there are more: read on until
//	@Description	`last_id` (with `before`: `first_id`).
//	@Tags			group chat
//	@ID				listMessages
//	@Produce		json
//	@Param			chat	path		string				true	"The chat"	example(team)
//	@Param			user	query		string				true	"The reader, a member; may be left out with a user token"	example(bob)
//	@Param			after	query		int					false	"Only messages above this id"	minimum(0)
//	@Param			before	query		int					false	"Only messages below this id"	minimum(0)
//	@Param			limit	query		int					false	"How many"	minimum(1)	maximum(500)	default(50)
//	@Param			epoch	query		string				false	"The epoch that the reader knows"
//	@Success		200		{object}	api.ChatMessages	"The messages"
//	@Failure		403		{object}	api.Problem			"not_a_member"
//	@Failure		404		{object}	api.Problem			"not_found: there is no such chat"
//	@Router			/v1/chats/{chat}/messages [get]
func (s *server) listMessages(ctx context.Context, in *listMessagesRequest) (*web.Reply[api.ChatMessages], error) {
	page, err := s.o.Chats.Messages(ctx, in.Chat, chat.MessagesQuery{
		User: in.User, After: in.After, Before: in.Before, Limit: int(in.Limit), Epoch: in.Epoch,
	})
	return web.OK(page), asStranger(ctx, err)
}

type deleteMessageRequest struct {
	Chat string `path:"chat" validate:"identifier"`
	ID   int64  `path:"id" validate:"min=1"`
}

// deleteMessage redacts a message.
//
//	@Summary		Redact a message
//	@Description	Removes text and data of a message for good. Its id, sender and time stay, with `redacted: true` and an empty
//	@Description	`text`, so that ids have no holes and unread counts do not change. Open streams get `event: redacted`, and
//	@Description	readers who were away see it when they read the messages again. A push notification of the message that was not
//	@Description	sent yet ends as failed with the reason `redacted`; at most a second after the answer no text of it is sent any
//	@Description	more. A user token redacts only its own user's messages; an API key redacts any message, for moderation. Doing it
//	@Description	again has no effect. Messages that are no longer kept cannot be redacted.
//	@Tags			group chat
//	@ID				deleteMessage
//	@Param			chat	path	string		true	"The chat"	example(team)
//	@Param			id		path	int			true	"The id of the message"	minimum(1)	example(7)
//	@Success		204		"Redacted, now or before"
//	@Failure		403		{object}	api.Problem	"forbidden: it is a message of another user"
//	@Failure		404		{object}	api.Problem	"not_found: there is no such chat, or it does not keep such a message"
//	@Router			/v1/chats/{chat}/messages/{id} [delete]
func (s *server) deleteMessage(ctx context.Context, in *deleteMessageRequest) (*web.Reply[web.Nothing], error) {
	user := caller(ctx)
	done, err := s.o.Chats.Redact(ctx, in.Chat, chat.Redaction{From: in.ID, To: in.ID, Sender: user, Member: user})
	if err != nil {
		return nil, asStranger(ctx, err)
	}
	switch err := s.o.Events.Withdraw(ctx, done.Pushes...); {
	case err != nil:
		return nil, api.AfterAChange(err)
	case done.Others > 0:
		return nil, api.Errorf(api.CodeForbidden, "message %d of chat %s is not %s's", in.ID, in.Chat, user)
	case done.Visible == 0:
		return nil, api.Errorf(api.CodeNotFound, "chat %s keeps no message %d", in.Chat, in.ID)
	}
	return web.NoContent(), nil
}

type ackRequest struct {
	User string `path:"user" validate:"identifier"`
	// Idempotency is checked but not used: an ack can be repeated without it.
	Idempotency api.Idempotency
	Body        api.AckRequest
}

// ackMessages moves a user's positions forward.
//
//	@Summary		Acknowledge messages
//	@Description	Records that the user has seen all messages up to the given id of each chat. A position only moves forward: an
//	@Description	older id changes nothing, and the answer has the present position. Each chat is handled separately; the chats
//	@Description	that were refused are listed in `errors`. `epochs` may name the epoch that an id is of. Then an id is refused
//	@Description	if the chat's messages up to it are not the ones of that epoch. With a user token each 50 chats count as one
//	@Description	request of the user.
//	@Tags			group chat
//	@ID				ackMessages
//	@Accept			json
//	@Produce		json
//	@Param			user			path		string			true	"The user"	example(alice)
//	@Param			Idempotency-Key	header		string			false	"Accepted and not kept: the call is safe to repeat without it"	minlength(1)	maxlength(255)
//	@Param			acks			body		api.AckRequest	true	"Chats and ids"
//	@Success		200				{object}	api.Acks		"The positions now"
//	@Failure		403				{object}	api.Problem		"not_a_member, with one chat"
//	@Failure		404				{object}	api.Problem		"not_found: there is no such chat, with one chat"
//	@Failure		422				{object}	api.Problem		"validation_failed: the id is above last_id, or of another epoch (with one chat)"
//	@Router			/v1/users/{user}/messages/ack [post]
func (s *server) ackMessages(ctx context.Context, in *ackRequest) (*web.Reply[api.Acks], error) {
	acks, err := s.o.Chats.Ack(ctx, in.User, in.Body.Acks, in.Body.Epochs)
	if err != nil {
		return nil, asStranger(ctx, err)
	}
	hideStrangers(ctx, acks)
	return web.OK(acks), nil
}

type typingRequest struct {
	Chat string `path:"chat" validate:"identifier"`
	// Idempotency is checked but not used.
	Idempotency api.Idempotency
	Body        api.TypingRequest
}

// postTyping tells the other members that a member types.
//
//	@Summary		Say that a member types
//	@Description	Open streams of the other members get `event: typing`, at most once a second for a member, in chats of at most 100
//	@Description	members. Nothing is stored. An app says it again every few seconds while its user types, and takes it as over
//	@Description	when it has not heard of it for some seconds, or when the message comes.
//	@Tags			group chat
//	@ID				postTyping
//	@Accept			json
//	@Param			chat			path	string				true	"The chat"	example(team)
//	@Param			Idempotency-Key	header	string				false	"Accepted and not kept"	minlength(1)	maxlength(255)
//	@Param			typing			body	api.TypingRequest	true	"Who types"
//	@Success		204				"Told"
//	@Failure		403				{object}	api.Problem	"not_a_member"
//	@Failure		404				{object}	api.Problem	"not_found: there is no such chat"
//	@Router			/v1/chats/{chat}/typing [post]
func (s *server) postTyping(ctx context.Context, in *typingRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), asStranger(ctx, s.o.Chats.Typing(ctx, in.Chat, in.Body.User))
}
