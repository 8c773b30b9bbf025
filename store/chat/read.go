package chat

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// MessagesQuery says which messages of a chat to read, and for which user.
type MessagesQuery struct {
	// User must be a member.
	User string
	// After and Before are exclusive bounds. With After or neither, the result is the oldest Limit
	// messages within the bounds. With Before it is the newest Limit messages.
	After, Before *int64
	// Limit is the most messages to read; 0: api.DefaultPageSize, at most
	// api.MaxPageSize. Fewer are read if they are long: see answerBytes.
	Limit int
	// Epoch is the chat's epoch when the reader last read it; "": not known.
	Epoch string
}

// Read is one of many reads.
type Read struct {
	Chat string
	MessagesQuery
}

// Reading is the outcome of one of many reads.
type Reading struct {
	Messages *api.ChatMessages
	Err      error
}

// Messages reads messages for a member and changes nothing. A page may have fewer than Limit messages
// although there are more. Gap is true if messages that the reader
// has not seen are no longer kept. Errors: not_found, not_a_member, and those of Redis.
func (s *Store) Messages(ctx context.Context, chat string, q MessagesQuery) (*api.ChatMessages, error) {
	cmd := s.readCmd(ctx, chat, &q, answerBytes)
	missing, err := s.call(ctx, memberCall{mode: redisdb.Read, user: q.User, chats: []string{chat}, cmds: cmds(cmd)})
	if err != nil {
		return nil, err
	}
	messages, err := readMessages(cmd, chat, &q, answerBytes)
	if err == nil {
		s.addMissing(ctx, q.User, missing)
	}
	return messages, err
}

// ReadMany makes many reads for one user in one pipeline, which share the bytes of one answer. Each
// read has its own outcome. The User
// of the queries is ignored. The error is Redis' if nothing could be read.
func (s *Store) ReadMany(ctx context.Context, user string, reads []Read) ([]Reading, error) {
	if len(reads) == 0 {
		return nil, nil
	}
	list, budget := make([]redis.Cmder, len(reads)), shareOf(len(reads))
	for i := range reads {
		reads[i].User = user
		list[i] = s.readCmd(ctx, reads[i].Chat, &reads[i].MessagesQuery, budget)
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, list...); err != nil && !anyAnswered(list) {
		return nil, err
	}
	out := make([]Reading, len(reads))
	for i, cmd := range list {
		out[i].Messages, out[i].Err = readMessages(cmd.(*redis.Cmd), reads[i].Chat, &reads[i].MessagesQuery, budget)
		out[i].Err = s.db.Err(out[i].Err, redisdb.Read)
	}
	return out, nil
}

func (s *Store) readCmd(ctx context.Context, chat string, q *MessagesQuery, budget int) *redis.Cmd {
	return s.chatCmd(ctx, s.readScript, chat, q.User, bound(q.After), bound(q.Before), pageSize(q.Limit), budget)
}

// readMessages reads the answer of message_read.lua, as much of it as the budget has room for.
func readMessages(cmd *redis.Cmd, chat string, q *MessagesQuery, budget int) (*api.ChatMessages, error) {
	reply, err := redisdb.ListOf(cmd)
	if err != nil {
		return nil, fmt.Errorf("read chat %s: %w", chat, err)
	}
	if err := refusal(redisdb.Number(reply[0]), chat, q.User); err != nil {
		return nil, err
	}
	m := &api.ChatMessages{Epoch: redisdb.Text(reply[1]), LastID: redisdb.Number(reply[2]), FirstID: redisdb.Number(reply[3])}
	other := q.Epoch != "" && q.Epoch != m.Epoch
	if other && q.After != nil && q.Epoch == redisdb.Text(reply[6]) { // up to there the messages are the same in both epochs
		other = *q.After > redisdb.Number(reply[7])
	}
	m.Gap = other || q.After != nil && (*q.After > m.LastID || m.FirstID > *q.After+1)
	if m.Items, err = decodeEntries(redisdb.Number(reply[4]), redisdb.ListAt(reply, 5)); err != nil {
		return nil, fmt.Errorf("read chat %s: %w", chat, err)
	}
	m.Items = within(m.Items, budget, q.Before != nil)
	return m, nil
}

// within returns the oldest messages that the budget has room for, or the newest ones, and at least
// one.
func within(items []api.ChatMessage, budget int, newest bool) []api.ChatMessage {
	for n := range items {
		at := n
		if newest {
			at = len(items) - 1 - n
		}
		if budget -= writtenBytes(items[at : at+1]); budget >= 0 || n == 0 {
			continue
		}
		if newest {
			return items[at+1:]
		}
		return items[:n]
	}
	return items
}

// anyAnswered reports whether any command of a pipeline has an answer.
func anyAnswered(list []redis.Cmder) bool {
	for _, cmd := range list {
		if err := cmd.Err(); err == nil || errors.Is(err, redis.Nil) {
			return true
		}
	}
	return false
}

func cmds(cmd redis.Cmder) []redis.Cmder { return []redis.Cmder{cmd} }

// bound is an optional id in the form for scripts.
func bound(id *int64) any {
	if id == nil {
		return ""
	}
	return *id
}

func pageSize(limit int) int {
	if limit <= 0 {
		return api.DefaultPageSize
	}
	return min(limit, api.MaxPageSize)
}
