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
//	@Summary		Make a chat
//	@Description	The creator and the members named are in it; who is named twice counts once. With `message` the chat begins with that
//	@Description	message from the creator, which the others have not read yet. Without an `id` the server makes one. The `epoch` tells
//	@Description	this chat from any other that had or will have the same id.
//	@Tags			group chat
//	@ID				createChat
//	@Accept			json
//	@Produce		json
//	@Param			Idempotency-Key	header		string			false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			chat			body		api.ChatRequest	true	"The chat"
//	@Success		201				{object}	api.Chat		"Made"
//	@Header			201				{string}	Idempotent-Replayed	"true when this is the first answer again"
//	@Header			201				{string}	Location			"Where to look at the chat"
//	@Failure		409				{object}	api.Problem		"conflict: a chat of this id exists"
//	@Failure		422				{object}	api.Problem		"validation_failed, idempotency_key_reused"
//	@Router			/v1/chats [post]
func (s *server) createChat(ctx context.Context, in *createChatRequest) (*web.Reply[api.Chat], error) {
	push := s.pushes(ctx)
	chat, replayed, err := s.chats.Create(ctx, &in.Body, in.Idempotency, push)
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
//	@Summary		Look at a chat
//	@Description	`first_id` is the first message that is kept; in an empty log it is `last_id` + 1.
//	@Tags			group chat
//	@ID				getChat
//	@Produce		json
//	@Param			chat	path		string			true	"The chat"	example(team)
//	@Success		200		{object}	api.ChatInfo	"The chat"
//	@Failure		404		{object}	api.Problem		"not_found"
//	@Router			/v1/chats/{chat} [get]
func (s *server) getChat(ctx context.Context, in *chatRequest) (*web.Reply[api.ChatInfo], error) {
	info, err := s.chats.Chat(ctx, in.Chat, caller(ctx))
	if err != nil {
		return nil, asStranger(ctx, err)
	}
	return web.OK(info), nil
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
//	@Param		cursor	query		string				false	"next of the page before"
//	@Success	200		{object}	api.ChatMemberList	"A page, by name"
//	@Failure	404		{object}	api.Problem			"not_found"
//	@Router		/v1/chats/{chat}/members [get]
func (s *server) listChatMembers(ctx context.Context, in *listChatMembersRequest) (*web.Reply[api.ChatMemberList], error) {
	after, err := web.OpenCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := int(in.Limit)
	items, err := s.chats.Members(ctx, in.Chat, caller(ctx), after, limit+1)
	if err != nil {
		return nil, asStranger(ctx, err)
	}
	list := &api.ChatMemberList{Items: items}
	if len(items) > limit {
		list.Items, list.Next = items[:limit], web.SealCursor(items[limit-1].User)
	}
	return web.OK(list), nil
}

type joinChatRequest struct {
	Chat string `path:"chat" validate:"identifier"`
	User string `path:"user" validate:"identifier"`
	Body *api.JoinRequest
}

// joinChat makes a user a member of a chat.
//
//	@Summary		Join a chat
//	@Description	A new member begins with the next message, or, with `from` = `start`, with the first that is kept. For a member
//	@Description	nothing changes: no unread message is lost.
//	@Tags			group chat
//	@ID				joinChat
//	@Accept			json
//	@Produce		json
//	@Param			chat	path		string			true	"The chat"	example(team)
//	@Param			user	path		string			true	"Who joins"	example(carol)
//	@Param			join	body		api.JoinRequest	false	"Where to begin; may be left out"
//	@Success		200		{object}	api.ChatMember	"Was a member already; nothing changed"
//	@Success		201		{object}	api.ChatMember	"Joined"
//	@Failure		404		{object}	api.Problem		"not_found: there is no such chat"
//	@Router			/v1/chats/{chat}/members/{user} [put]
func (s *server) joinChat(ctx context.Context, in *joinChatRequest) (*web.Reply[api.ChatMember], error) {
	member, joined, err := s.chats.Join(ctx, in.Chat, in.User, in.Body != nil && in.Body.From == api.JoinStart)
	if err != nil {
		return nil, err
	}
	return web.Put(member, joined), nil
}

type leaveChatRequest struct {
	Chat string `path:"chat" validate:"identifier"`
	User string `path:"user" validate:"identifier"`
}

// leaveChat ends a membership.
//
//	@Summary		Leave a chat
//	@Description	What the user wrote stays for the others. The last to leave ends the chat; another one made under the same id begins
//	@Description	anew, with an `epoch` of its own. Whoever is no member leaves without effect.
//	@Tags			group chat
//	@ID				leaveChat
//	@Param			chat	path	string	true	"The chat"	example(team)
//	@Param			user	path	string	true	"Who leaves"	example(carol)
//	@Success		204		"Left, or was no member"
//	@Router			/v1/chats/{chat}/members/{user} [delete]
func (s *server) leaveChat(ctx context.Context, in *leaveChatRequest) (*web.Reply[web.Nothing], error) {
	if err := s.chats.Leave(ctx, in.Chat, in.User); err != nil {
		return nil, err
	}
	return web.NoContent(), nil
}

type listUserChatsRequest struct {
	User string `path:"user" validate:"identifier"`
	web.Page
}

// listUserChats lists a user's chats.
//
//	@Summary		List a user's chats
//	@Description	In the order of joining. `unread` counts the messages of others above `acked` that are kept. A chat
//	@Description	that could not be read has `error` and nothing but its id, and the others are there.
//	@Tags			group chat
//	@ID				listUserChats
//	@Produce		json
//	@Param			user	path		string				true	"The user"	example(bob)
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"next of the page before"
//	@Success		200		{object}	api.UserChatList	"A page"
//	@Router			/v1/users/{user}/chats [get]
func (s *server) listUserChats(ctx context.Context, in *listUserChatsRequest) (*web.Reply[api.UserChatList], error) {
	after, err := openJoined(in.Cursor)
	if err != nil {
		return nil, err
	}
	items, next, err := s.chats.UserChats(ctx, in.User, after, int(in.Limit))
	if err != nil {
		return nil, err
	}
	list := &api.UserChatList{Items: items}
	if next != "" {
		list.Next = web.SealCursor(next)
	}
	return web.OK(list), nil
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
