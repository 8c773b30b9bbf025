package handlers

import (
	"context"

	"fanfare/api"
	"fanfare/handlers/web"
)

type userTopicRequest struct {
	User  string `path:"user" validate:"identifier"`
	Topic string `path:"topic" validate:"identifier"`
}

// joinTopic makes a user a member of a topic.
//
//	@Summary		Join a topic
//	@Description	Events to the topic reach the user from now on. A topic needs no other call: the first member makes it. A user token
//	@Description	may join only topics that are open (`PUT /v1/topics/{topic}`); for any other topic the answer is 403, whether the topic
//	@Description	exists or not. A user may be in at most 1,000 topics. Joining a topic again changes nothing.
//	@Tags			push
//	@ID				joinTopic
//	@Param			user	path	string	true	"The user"
//	@Param			topic	path	string	true	"The topic"
//	@Success		204		"Is a member"
//	@Failure		403		{object}	api.Problem	"forbidden: the key lacks the scope; with a user token also: another user, or the topic is not open"
//	@Failure		422		{object}	api.Problem	"validation_failed, also for the 1,001st topic of a user"
//	@Router			/v1/users/{user}/topics/{topic} [put]
func (s *server) joinTopic(ctx context.Context, in *userTopicRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Record.JoinTopic(ctx, in.User, in.Topic, caller(ctx) != "")
}

// leaveTopic ends a user's membership of a topic.
//
//	@Summary		Leave a topic
//	@Description	Events to the topic no longer reach the user. Leaving is always possible, also with a user token and also if the user is
//	@Description	not a member. When the last member has left, the topic is gone.
//	@Tags			push
//	@ID				leaveTopic
//	@Param			user	path	string	true	"The user"
//	@Param			topic	path	string	true	"The topic"
//	@Success		204		"Is no member"
//	@Router			/v1/users/{user}/topics/{topic} [delete]
func (s *server) leaveTopic(ctx context.Context, in *userTopicRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Record.LeaveTopic(ctx, in.User, in.Topic)
}

// listUserTopics lists the topics of a user.
//
//	@Summary	List a user's topics
//	@Tags		push
//	@ID			listUserTopics
//	@Produce	json
//	@Param		user	path		string				true	"The user"
//	@Param		limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param		cursor	query		string				false	"next of the page before"
//	@Success	200		{object}	api.UserTopicList	"A page, by name"
//	@Router		/v1/users/{user}/topics [get]
func (s *server) listUserTopics(ctx context.Context, in *userPageRequest) (*web.Reply[api.UserTopicList], error) {
	name := func(t *api.UserTopic) string { return t.Topic }
	items, next, err := web.ReadPage(ctx, in.Page, s.o.Record.UserTopics, in.User, name)
	return web.OK(&api.UserTopicList{Items: items, Next: next}), err
}

// listTopics lists all topics.
//
//	@Summary		List the topics
//	@Description	Lists the topics that have members or are open, by name. Up to 1,000 members of each are counted. A topic whose name
//	@Description	was misspelt by a caller is found here. The key needs the scope `push` or `ops:read`. Not for user tokens.
//	@Tags			push
//	@ID				listTopics
//	@Produce		json
//	@Param			limit	query		int				false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string			false	"next of the page before"
//	@Success		200		{object}	api.TopicList	"A page, by name"
//	@Failure		403		{object}	api.Problem		"forbidden: the key has neither the scope push nor the scope ops:read"
//	@Router			/v1/topics [get]
func (s *server) listTopics(ctx context.Context, in *web.Page) (*web.Reply[api.TopicList], error) {
	if err := needsOneOf(ctx, api.ScopePush, api.ScopeOpsRead); err != nil {
		return nil, err
	}
	read := func(ctx context.Context, _, after string, limit int) ([]api.ListedTopic, error) {
		return s.o.Record.Topics(ctx, after, limit)
	}
	items, next, err := web.ReadPage(ctx, *in, read, "", func(t *api.ListedTopic) string { return t.Topic })
	return web.OK(&api.TopicList{Items: items, Next: next}), err
}

type topicUsersRequest struct {
	Topic string `path:"topic" validate:"identifier"`
	web.Page
}

// listTopicUsers lists the members of a topic.
//
//	@Summary		List the members of a topic
//	@Description	Not for user tokens. A topic without members is an empty list.
//	@Tags			push
//	@ID				listTopicUsers
//	@Produce		json
//	@Param			topic	path		string				true	"The topic"
//	@Param			limit	query		int					false	"Items per page"	minimum(1)	maximum(500)	default(50)
//	@Param			cursor	query		string				false	"next of the page before"
//	@Success		200		{object}	api.TopicUserList	"A page, by name"
//	@Router			/v1/topics/{topic}/users [get]
func (s *server) listTopicUsers(ctx context.Context, in *topicUsersRequest) (*web.Reply[api.TopicUserList], error) {
	name := func(u *api.TopicUser) string { return u.User }
	items, next, err := web.ReadPage(ctx, in.Page, s.o.Record.TopicMembers, in.Topic, name)
	return web.OK(&api.TopicUserList{Items: items, Next: next}), err
}

type changeTopicRequest struct {
	Topic       string `path:"topic" validate:"identifier"`
	Idempotency api.Idempotency
	Body        api.TopicUsersRequest
}

// changeTopic adds users to a topic and removes others.
//
//	@Summary		Add users to a topic and remove others
//	@Description	Adds up to 1,000 users and removes up to 1,000 others in one transaction, either all or none. Users who are members
//	@Description	already, or who are not there to be removed, change nothing. If one of the added users is in 1,000 topics already, the
//	@Description	whole call is refused, and the errors name these users.
//	@Tags			push
//	@ID				changeTopic
//	@Accept			json
//	@Param			topic			path	string					true	"The topic"
//	@Param			Idempotency-Key	header	string					false	"Makes the call safe to repeat for 24 h"	minlength(1)	maxlength(255)
//	@Param			users			body	api.TopicUsersRequest	true	"Who joins and who leaves"
//	@Success		204				"Done"
//	@Header			204				{string}	Idempotent-Replayed	"true if this is the first answer again"
//	@Failure		413				{object}	api.Problem	"payload_too_large: the body may have at most 1 MiB"
//	@Failure		422				{object}	api.Problem	"validation_failed (also for the 1,001st topic of a user), idempotency_key_reused"
//	@Router			/v1/topics/{topic}/users [post]
func (s *server) changeTopic(ctx context.Context, in *changeTopicRequest) (*web.Reply[web.Nothing], error) {
	replayed, err := s.o.Record.ChangeTopic(ctx, in.Topic, &in.Body, in.Idempotency)
	return web.NoContent().Replayed(replayed), err
}

type putTopicRequest struct {
	Topic string `path:"topic" validate:"identifier"`
	Body  api.TopicRequest
}

// putTopic opens or closes a topic.
//
//	@Summary		Open or close a topic
//	@Description	Users join an open topic by themselves, with a user token. A topic is closed until this call opens it, and may be opened
//	@Description	before it has members. Closing a topic removes nobody: once the call is answered, no more users join by themselves.
//	@Tags			push
//	@ID				putTopic
//	@Accept			json
//	@Param			topic	path	string				true	"The topic"
//	@Param			open	body	api.TopicRequest	true	"Whether users may join by themselves"
//	@Success		204		"Done"
//	@Router			/v1/topics/{topic} [put]
func (s *server) putTopic(ctx context.Context, in *putTopicRequest) (*web.Reply[web.Nothing], error) {
	return web.NoContent(), s.o.Record.SetTopicOpen(ctx, in.Topic, *in.Body.Open)
}

// getTopic reports whether a topic is open.
//
//	@Summary		Show whether a topic is open
//	@Description	Not for user tokens. A topic that nobody opened is closed, whether it has members or not.
//	@Tags			push
//	@ID				getTopic
//	@Produce		json
//	@Param			topic	path		string		true	"The topic"
//	@Success		200		{object}	api.Topic	"The topic"
//	@Router			/v1/topics/{topic} [get]
func (s *server) getTopic(ctx context.Context, in *topicRequest) (*web.Reply[api.Topic], error) {
	open, err := s.o.Record.TopicOpen(ctx, in.Topic)
	if err != nil {
		return nil, err
	}
	return web.OK(&api.Topic{Topic: in.Topic, Open: open}), nil
}
