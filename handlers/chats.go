package handlers

import (
	"context"
	"strconv"
	"strings"

	"fanfare/api"
	"fanfare/handlers/web"
)

type createChatRequest struct {
	Idempotency api.Idempotency
	Body        api.ChatRequest
}

// createChat makes a chat.
//
//	@Summary		Create a chat
//	@Description	Makes a chat of its creator and the listed members. A user who is listed twice is one member. With `message`,
//	@Description	the chat begins with that message from the creator, and it is unread for the other members. Without an `id` the
//	@Description	server makes one. With an `Idempotency-Key` it is always the same one for a key, so using the key for another
//	@Description	chat after its 24 h is a conflict while the first chat is there. A chat that is deleted and made again under the
//	@Description	same `id` has another `epoch`.
//	@Tags			group chat
//	@ID				createChat
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string			false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			chat			body		api.ChatRequest	true	"The chat"
//	@Success		201				{object}	api.Chat		"Made"
//	@Header			201				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Header			201				{string}	Location			"The URL of the chat"
//	@Failure		409				{object}	api.Problem		"conflict: a chat with this id exists"
//	@Failure		422				{object}	api.Problem		"validation_failed, idempotency_key_reused"
//	@Router			/v1/chats [post]
func (s *server) createChat(ctx context.Context, in *createChatRequest) (*web.Reply[api.Chat], error) {
	push := s.pushes(ctx)
	chat, replayed, err := s.o.Chats.Create(ctx, &in.Body, in.Idempotency, push)
	if err != nil {
		return nil, err
	}
	if in.Body.Message != nil {
		s.sent(chat.ID, push, replayed)
	}
	return web.Created(chat).Replayed(replayed).At("/v1/chats/" + chat.ID), nil
}

type chatRequest struct {
	Chat string `path:"chat" validate:"identifier"`
}

// getChat shows a chat.
//
//	@Summary		Show a chat
//	@Description	`first_id` is the id of the oldest message that is kept. If none is kept, it is `last_id` + 1.
//	@Tags			group chat
//	@ID				getChat
//	@Produce		json
//	@Param			chat	path		string			true	"The chat"	example(team)
//	@Success		200		{object}	api.ChatInfo	"The chat"
//	@Failure		404		{object}	api.Problem		"not_found"
//	@Router			/v1/chats/{chat} [get]
func (s *server) getChat(ctx context.Context, in *chatRequest) (*web.Reply[api.ChatInfo], error) {
	info, err := s.o.Chats.Chat(ctx, in.Chat, caller(ctx))
	return web.OK(info), asStranger(ctx, err)
}

type listChatMembersRequest struct {
	Chat string `path:"chat" validate:"identifier"`
	web.Page
}

// listChatMembers lists a chat's members.
//
//	@Summary	List a chat's members
//	@Tags		group chat
//	@ID			listChatMembers
//	@Produce	json
//	@Param		chat	path		string				true	"The chat"	example(team)
//	@Param		limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param		cursor	query		string				false	"The `next` of the previous page"
//	@Success	200		{object}	api.ChatMemberList	"A page, by name"
//	@Failure	404		{object}	api.Problem			"not_found"
//	@Router		/v1/chats/{chat}/members [get]
func (s *server) listChatMembers(ctx context.Context, in *listChatMembersRequest) (*web.Reply[api.ChatMemberList], error) {
	read := func(ctx context.Context, chat, after string, limit int) ([]api.ChatMember, error) {
		return s.o.Chats.Members(ctx, chat, caller(ctx), after, limit)
	}
	items, next, err := web.ReadPage(ctx, in.Page, read, in.Chat, func(m *api.ChatMember) string { return m.User })
	return web.OK(&api.ChatMemberList{Items: items, Next: next}), asStranger(ctx, err)
}

type joinChatRequest struct {
	Chat string `path:"chat" validate:"identifier"`
	User string `path:"user" validate:"identifier"`
	Body *api.JoinRequest
}

// joinChat makes a user a member of a chat.
//
//	@Summary		Join a chat
//	@Description	A new member begins to read with the next message or, if `from` is `start`, with the oldest message that is
//	@Description	kept. If the user is a member already, nothing changes, and unread messages stay unread.
//	@Tags			group chat
//	@ID				joinChat
//	@Accept			json
//	@Produce		json
//	@Param			chat	path		string			true	"The chat"	example(team)
//	@Param			user	path		string			true	"The user who joins"	example(carol)
//	@Param			join	body		api.JoinRequest	false	"Where the new member begins to read; may be left out"
//	@Success		200		{object}	api.ChatMember	"Was a member already; nothing changed"
//	@Success		201		{object}	api.ChatMember	"Joined"
//	@Failure		404		{object}	api.Problem		"not_found: there is no such chat"
//	@Router			/v1/chats/{chat}/members/{user} [put]
func (s *server) joinChat(ctx context.Context, in *joinChatRequest) (*web.Reply[api.ChatMember], error) {
	member, joined, err := s.o.Chats.Join(ctx, in.Chat, in.User, in.Body != nil && in.Body.From == api.JoinStart)
	return web.Put(member, joined), err
}

type leaveChatRequest struct {
	Chat string `path:"chat" validate:"identifier"`
	User string `path:"user" validate:"identifier"`
}

// leaveChat ends a membership.
//
//	@Summary		Leave a chat
//	@Description	The user's messages stay in the chat. When the last member leaves, the chat is deleted; a chat that is made
//	@Description	later under the same id is a new one with another `epoch`. If the user is not a member, nothing changes.
//	@Tags			group chat
//	@ID				leaveChat
//	@Param			chat	path	string	true	"The chat"	example(team)
//	@Param			user	path	string	true	"The user who leaves"	example(carol)
//	@Success		204		"Left, or was not a member"
//	@Router			/v1/chats/{chat}/members/{user} [delete]
func (s *server) leaveChat(ctx context.Context, in *leaveChatRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Chats.Leave(ctx, in.Chat, in.User)
}

// listUserChats lists a user's chats.
//
//	@Summary		List a user's chats
//	@Description	Lists chats in the order in which the user joined them. `unread` counts the kept messages of other members above
//	@Description	`acked`. A chat that could not be read has only its id and `error`; the other chats are listed as usual.
//	@Tags			group chat
//	@ID				listUserChats
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(bob)
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"The `next` of the previous page"
//	@Success		200		{object}	api.UserChatList	"A page"
//	@Router			/v1/users/{user}/chats [get]
func (s *server) listUserChats(ctx context.Context, in *userPageRequest) (*web.Reply[api.UserChatList], error) {
	after, err := openJoined(in.Cursor)
	if err != nil {
		return nil, err
	}
	items, next, err := s.o.Chats.UserChats(ctx, in.User, after, int(in.Limit))
	return web.OK(&api.UserChatList{Items: items, Next: web.SealCursor(next)}), err
}

// openJoined reads the cursor of a list in the order of joining: a time and a chat.
func openJoined(cursor string) (string, error) {
	after, err := web.OpenCursor(cursor)
	if err != nil || after == "" {
		return "", err
	}
	joined, chat, _ := strings.Cut(after, " ")
	if _, err := strconv.ParseInt(joined, 10, 64); err != nil || !api.ValidIdentifier(chat) {
		return "", web.BadCursor()
	}
	return after, nil
}
