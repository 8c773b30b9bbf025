package chat

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Join makes a user a member of a chat, and returns the membership. A new member begins to read
// with the next message, or with the oldest message that is kept. A user who is a member already
// keeps the position, and joined is false. Errors: not_found, and those of Redis. After not_found
// no key was made.
func (s *Store) Join(ctx context.Context, chat, user string, fromStart bool) (m *api.ChatMember, joined bool, err error) {
	info, facts, err := s.readChat(ctx, chat, user)
	if err != nil {
		return nil, false, err
	}
	if info == nil {
		return nil, false, refusal(statusUnknown, chat, user)
	}
	if len(facts) > 0 {
		s.writeEntry(ctx, chat, user, redisdb.Text(facts[0]))
		m, err = memberOf(user, facts)
		return m, false, err
	}
	return s.join(ctx, chat, user, fromStart)
}

// join writes the index, then the membership, and then the index again: another join of the user
// may have ended in the meantime and removed the entry.
func (s *Store) join(ctx context.Context, chat, user string, fromStart bool) (m *api.ChatMember, joined bool, err error) {
	stamps, err := s.addToIndexes(ctx, chat, user)
	if err != nil {
		return nil, false, err
	}
	reply, err := s.db.List(ctx, redisdb.Write, s.chatCmd(ctx, s.joinScript, chat, user, stamps[0], fromStart, MembershipChannel(user)))
	if err != nil {
		return nil, false, fmt.Errorf("join chat %s: %w", chat, err)
	}
	status, facts := redisdb.Number(reply[0]), reply[1:]
	if status == statusUnknown {
		s.removeFromIndex(ctx, chat, user, stamps[0])
		return nil, false, refusal(status, chat, user)
	}
	s.writeEntry(ctx, chat, user, redisdb.Text(facts[0]))
	m, err = memberOf(user, facts)
	return m, status == statusDone, err
}

// memberOf reads the facts that scripts return about a member: the stamp that the member's index
// should have, the stamp of the join, and the position.
func memberOf(user string, facts []any) (*api.ChatMember, error) {
	if len(facts) != 3 {
		return nil, fmt.Errorf("read member %s: %v", user, facts)
	}
	m, err := readMember(user + " " + redisdb.Text(facts[1]))
	m.Acked = redisdb.Number(facts[2])
	return &m, err
}

// Leave ends a user's membership. If there is none, nothing changes. The user's messages stay for
// the others. When the last member leaves, the chat is deleted.
func (s *Store) Leave(ctx context.Context, chat, user string) error {
	_, err := s.leave(ctx, chat, user, "")
	return err
}

// leave ends a membership, unless it began after the latest stamp ("": whenever it began). It tells
// whether there was one.
func (s *Store) leave(ctx context.Context, chat, user, latest string) (left bool, err error) {
	keys := append(chatKeys(chat), recordKey(chat, newRequest()))
	cmd := s.chatCmdWith(ctx, s.leaveScript, keys, user, MembershipChannel(user), requestTTL.Milliseconds(), latest, s.MessageChannel(chat))
	reply, err := s.db.List(ctx, redisdb.Write, cmd)
	if err != nil {
		return false, fmt.Errorf("leave chat %s: %w", chat, err)
	}
	s.removeFromIndex(ctx, chat, user, redisdb.Text(reply[1]))
	// A join in the meantime may have found the old entry and written none.
	if _, facts, err := s.readChat(ctx, chat, user); err == nil && len(facts) > 0 {
		s.writeEntry(ctx, chat, user, redisdb.Text(facts[0]))
	}
	return redisdb.Text(reply[1]) != "", nil
}

// removeFromIndex removes the chat from a user's index if the entry still has the stamp of the join
// that ended. If that fails, dropStale removes the entry later.
func (s *Store) removeFromIndex(ctx context.Context, chat, user, stamp string) {
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return // the user was not a member
	}
	if err := s.db.Share(ctx, redisdb.Write, s.dropCmd(ctx, user, 0, entry{chat, n})); err != nil {
		s.o.Logger.DebugContext(ctx, "a chat that was left waits for the user's next read", "error", err)
	}
}

// writeEntry writes a member's entry in the member's index.
func (s *Store) writeEntry(ctx context.Context, chat, user, stamp string) {
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return
	}
	if err := s.writeEntries(ctx, user, []entry{{chat, n}}); err != nil {
		s.o.Logger.DebugContext(ctx, "the index of a user lacks chats until the user's next call", "error", err)
	}
}

// Chat describes a chat to a member. If member is "", the caller need not be one. Errors:
// not_found, not_a_member, and those of Redis.
func (s *Store) Chat(ctx context.Context, chat, member string) (*api.ChatInfo, error) {
	info, facts, err := s.readChat(ctx, chat, member)
	switch {
	case err != nil:
		return nil, err
	case info == nil:
		return nil, refusal(statusUnknown, chat, member)
	case member != "" && len(facts) == 0:
		return nil, refusal(statusNoMember, chat, member)
	}
	return info, nil
}

// readChat reads a chat, nil if there is none, and the facts for memberOf, which are empty for a
// user who is not a member.
func (s *Store) readChat(ctx context.Context, chat, user string) (info *api.ChatInfo, facts []any, err error) {
	reply, err := s.db.List(ctx, redisdb.Read, s.chatCmd(ctx, s.readChatScript, chat, user))
	if err != nil {
		return nil, nil, fmt.Errorf("read chat %s: %w", chat, err)
	}
	if redisdb.Number(reply[0]) == statusUnknown {
		return nil, nil, nil
	}
	return &api.ChatInfo{
		ID: chat, Epoch: redisdb.Text(reply[1]), LastID: redisdb.Number(reply[2]), FirstID: redisdb.Number(reply[3]),
		MemberCount: redisdb.Number(reply[4]), CreatedAt: api.AtMillis(redisdb.Number(reply[5])),
	}, memberFacts(reply), nil
}

// memberFacts are the facts of a member in the answer of chat_read.lua. They are empty for a user
// who is not a member.
func memberFacts(reply []any) []any {
	if redisdb.Number(reply[0]) == statusUnknown {
		return nil
	}
	return redisdb.ListAt(reply, 6)
}

// Members lists the members of a chat by name, beginning after a name ("" for the first page): at
// most limit (0: the default) and at most 1,000. The caller is a member; if member is "", the
// caller need not be one. Errors: not_found, not_a_member, and those of Redis.
func (s *Store) Members(ctx context.Context, chat, member, after string, limit int) ([]api.ChatMember, error) {
	if limit <= 0 {
		limit = api.DefaultPageSize
	}
	members, status, err := s.members(ctx, chat, member, after, min(limit, maxNames))
	if err == nil {
		err = refusal(status, chat, member)
	}
	return members, err
}

// maxNames is the largest page of members.
const maxNames = 1000

// MemberNames lists the names of a chat's members in ascending order, beginning after a name, at
// most 1,000. The list is empty if there is no such chat.
func (s *Store) MemberNames(ctx context.Context, chat, after string, limit int) ([]string, error) {
	members, _, err := s.members(ctx, chat, "", after, min(limit, maxNames))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.User
	}
	return names, nil
}

// members lists the members. With a status that is a refusal, the list is empty.
func (s *Store) members(ctx context.Context, chat, member, after string, limit int) (members []api.ChatMember, status int64, err error) {
	reply, err := s.db.List(ctx, redisdb.Read, s.chatCmd(ctx, s.listScript, chat, after, limit, member))
	if err != nil {
		return nil, 0, fmt.Errorf("list members of chat %s: %w", chat, err)
	}
	if status = redisdb.Number(reply[0]); status != statusDone {
		return nil, status, nil
	}
	joins, positions := redisdb.ListAt(reply, 1), redisdb.ListAt(reply, 2)
	members = make([]api.ChatMember, len(joins))
	for i := range joins {
		if members[i], err = readMember(redisdb.Text(joins[i])); err != nil {
			return nil, 0, err
		}
		members[i].Acked = redisdb.Number(positions[i])
	}
	return members, status, nil
}

// readMember reads "<name> <stamp>", which ends with the stamp of the join if that is another one.
func readMember(join string) (api.ChatMember, error) {
	parts := strings.Split(join, " ")
	made, err := strconv.ParseInt(parts[len(parts)-1], 10, 64)
	if err != nil {
		return api.ChatMember{}, fmt.Errorf("read join %q: %w", join, err)
	}
	return api.ChatMember{User: parts[0], JoinedAt: api.AtMillis(time.UnixMicro(made).UnixMilli())}, nil
}
