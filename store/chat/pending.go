package chat

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// indexChunk is how many of a user's chats one pipeline reads, and unreadChunk how many with
	// their messages: each chat may have chatBytes or one message.
	indexChunk, unreadChunk = 1000, 100
	// answerBytes is about how many bytes of messages one answer has, as JSON writes them.
	answerBytes = 1 << 20
	chatBytes   = 16 << 10
	// messageBytes is what JSON adds to a message, such as the names of members.
	messageBytes = 64
)

// Position is a member's position in a chat.
type Position struct {
	Chat, Epoch            string
	Acked, LastID, FirstID int64
	// Was is an earlier epoch of the chat, from before Redis was restarted or failed over. The
	// messages up to Since are the same in it.
	Was   string
	Since int64
	Err   error // why this chat could not be read, if others could
}

// memberState is the reply of message_pending.lua for one chat.
type memberState struct {
	Position
	unread int64
	items  []api.ChatMessage
	err    error
}

// UserChats lists a page of a user's chats, in the order in which the user joined them. Over all
// pages, a chat of which the user stays a member is listed once. A chat that the user leaves and
// joins again in the meantime may be listed twice. A page may have fewer than limit chats although
// next is not "", because entries that a crash left behind are not listed. A chat that cannot be
// read has an Error.
func (s *Store) UserChats(ctx context.Context, user, cursor string, limit int) (items []api.UserChat, next string, err error) {
	limit = pageSize(limit)
	p, err := s.readPage(ctx, user, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	found, err := s.memberStates(ctx, user, p, 0)
	if err != nil {
		return nil, "", err
	}
	items = make([]api.UserChat, len(found))
	for i, f := range found {
		items[i] = api.UserChat{ID: f.Chat, Unread: f.unread, LastID: f.LastID, Acked: f.Acked}
		if f.err != nil {
			items[i].Error = &api.ChatError{Code: api.CodeOf(f.err)}
		}
	}
	return items, p.next(limit), nil
}

// UnreadChats counts a user's chats with unread messages, among the thousand that the user joined first. If some of them cannot be
// read, n is the number of the others, and the error is that of the first. It makes two round trips.
func (s *Store) UnreadChats(ctx context.Context, user string) (n int64, err error) {
	p, err := s.readPage(ctx, user, "", indexChunk)
	if err != nil {
		return 0, err
	}
	found, err := s.memberStates(ctx, user, p, 0)
	if err != nil {
		return 0, err
	}
	for i := range found {
		if err == nil {
			err = found[i].err
		}
		if found[i].unread > 0 {
			n++
		}
	}
	return n, err
}

// Positions reads a user's position in each of the user's chats. A chat that cannot be read has an
// Err. There is one round trip for each thousand chats.
func (s *Store) Positions(ctx context.Context, user string) ([]Position, error) {
	var out []Position
	err := s.eachState(ctx, user, 0, func(f *memberState) error {
		f.Err = f.err
		out = append(out, f.Position)
		return nil
	})
	return out, err
}

// Pending reads the messages that a user has not acknowledged, for every chat that has unread ones:
// at most limit messages of each chat (0: the default), fewer if they are very long, and about
// answerBytes in all. Chats for whose messages there is no room are listed without them, and More is
// set. It changes nothing, so that a second call has the same answer. There is one pipeline for
// each hundred chats. A chat that cannot be read has an Error.
func (s *Store) Pending(ctx context.Context, user string, limit int) (*api.PendingChats, error) {
	out, left := &api.PendingChats{Chats: []api.PendingChat{}}, answerBytes
	err := s.eachState(ctx, user, pageSize(limit), func(f *memberState) error {
		switch {
		case f.err != nil:
			out.Chats = append(out.Chats, api.PendingChat{ID: f.Chat, Items: []api.ChatMessage{}, Error: &api.ChatError{Code: api.CodeOf(f.err)}})
		case f.unread > 0:
			if bytes := writtenBytes(f.items); bytes > left && left < answerBytes {
				f.items, out.More = []api.ChatMessage{}, true
			} else {
				left -= bytes
			}
			out.Chats = append(out.Chats, api.PendingChat{
				ID: f.Chat, Epoch: f.Epoch, Unread: f.unread, Gap: f.FirstID > f.Acked+1, FirstID: f.FirstID, Items: f.items,
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// eachState reads all chats of a user, with up to limit messages of each. A chat that the user
// leaves and joins again in the meantime may come twice.
func (s *Store) eachState(ctx context.Context, user string, limit int, fn func(*memberState) error) error {
	chunk := indexChunk
	if limit > 0 {
		chunk = unreadChunk
	}
	for cursor, more := "", true; more; more = cursor != "" {
		p, err := s.readPage(ctx, user, cursor, chunk)
		if err != nil {
			return err
		}
		found, err := s.memberStates(ctx, user, p, limit)
		if err != nil {
			return err
		}
		for i := range found {
			if err := fn(&found[i]); err != nil {
				return err
			}
		}
		cursor = p.next(chunk)
	}
	return nil
}

// memberStates reads the chats of a page in one pipeline. Chats of which the user is not a member
// are left out, and old entries of such chats are dropped from the index.
func (s *Store) memberStates(ctx context.Context, user string, p *page, limit int) ([]memberState, error) {
	if len(p.entries) == 0 {
		return nil, nil
	}
	budget := shareOf(len(p.entries))
	list := make([]redis.Cmder, len(p.entries))
	for i, e := range p.entries {
		list[i] = s.chatCmd(ctx, s.pendingScript, e.chat, user, limit, budget)
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, list...); err != nil && !anyAnswered(list) {
		return nil, err
	}
	found, stale := make([]memberState, 0, len(list)), []entry(nil)
	for i, e := range p.entries {
		f, member := s.readState(list[i].(*redis.Cmd), e.chat, budget)
		if !member {
			stale = append(stale, e)
			continue
		}
		found = append(found, f)
	}
	s.dropStale(ctx, user, p.now, stale)
	return found, nil
}

// writtenBytes is about how many bytes messages take in an answer.
func writtenBytes(messages []api.ChatMessage) (n int) {
	for _, m := range messages {
		n += messageBytes + len(m.Sender) + jsonBytes(m.Text)
		for name, value := range m.Data {
			n += jsonBytes(name) + jsonBytes(value)
		}
	}
	return n
}

// jsonBytes is at most how many bytes JSON writes for a text: up to six for a control character.
func jsonBytes(s string) int {
	n := len(s) + 2
	for i := range len(s) {
		switch {
		case s[i] < ' ':
			n += 5
		case s[i] == '"', s[i] == '\\':
			n++
		}
	}
	return n
}

// shareOf is how many bytes of messages each of many chats may have in one pipeline.
func shareOf(chats int) int { return max(chatBytes, answerBytes/chats) }

// readState reads the answer of message_pending.lua, and whether the user is a member, if that is
// known.
func (s *Store) readState(cmd *redis.Cmd, chat string, budget int) (f memberState, member bool) {
	f.Chat = chat
	reply, err := redisdb.ListOf(cmd)
	if err != nil {
		f.err = s.db.Err(fmt.Errorf("read chat %s: %w", chat, err), redisdb.Read)
		return f, true
	}
	if redisdb.Number(reply[0]) != statusDone {
		return f, false
	}
	f.Epoch, f.LastID, f.FirstID, f.Acked = redisdb.Text(reply[1]), redisdb.Number(reply[2]), redisdb.Number(reply[3]), redisdb.Number(reply[4])
	f.unread = redisdb.Number(reply[5])
	f.Was, f.Since = redisdb.Text(reply[8]), redisdb.Number(reply[9])
	f.items, f.err = decodeEntries(redisdb.Number(reply[6]), redisdb.ListAt(reply, 7))
	f.items = within(f.items, budget, false)
	return f, true
}
