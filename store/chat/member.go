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

// slowJoin is how long a join may take between its entry in the index and the
// membership before it looks at the index again: well before a reader may take
// the entry for one that a crash left.
const slowJoin = repairAge / 4

// Join makes a user a member of a chat. A new one begins with the next message,
// or from the start: with the first that is kept. Who is a member already keeps
// his position, and joined is false. Errors: not_found, with no key made, and
// those of Redis.
func (s *Store) Join(ctx context.Context, chat, user string, fromStart bool) (joined bool, err error) {
	info, stamp, err := s.look(ctx, chat, user)
	if err != nil {
		return false, err
	}
	if info == nil {
		return false, refusal(statusUnknown, chat, user)
	}
	if stamp != "" {
		s.keep(ctx, chat, user, stamp)
		return false, nil
	}
	begun := time.Now()
	stamps, err := s.enter(ctx, chat, user)
	if err != nil {
		return false, err
	}
	cmd := s.chatCmd(ctx, s.joinScript, chat, user, stamps[0], flag(fromStart))
	reply, err := s.ask(ctx, stepJoin, redisdb.Write, cmd)
	if err != nil {
		return false, fmt.Errorf("join chat %s: %w", chat, err)
	}
	status, stands := number(reply[0]), text(reply[1])
	if status == statusUnknown {
		s.unindex(ctx, chat, user, stamps[0])
		return false, refusal(status, chat, user)
	}
	if stands != stamps[0] || time.Since(begun) > slowJoin {
		s.keep(ctx, chat, user, stands)
	}
	return status == statusDone, nil
}

// Leave ends a user's membership, also one that is not there; what he sent stays for
// the others. The last one to leave deletes the chat.
func (s *Store) Leave(ctx context.Context, chat, user string) error {
	reply, err := s.ask(ctx, stepLeave, redisdb.Write, s.chatCmd(ctx, s.leaveScript, chat, user))
	if err != nil {
		return fmt.Errorf("leave chat %s: %w", chat, err)
	}
	s.unindex(ctx, chat, user, text(reply[1]))
	return nil
}

// unindex takes the chat out of a user's index if it still has the stamp of the
// join that ended. What fails is left to the repair.
func (s *Store) unindex(ctx context.Context, chat, user, stamp string) {
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return // he was no member
	}
	if err := s.trip(ctx, stepUnindex, s.db.Share, redisdb.Write, s.dropCmd(ctx, user, 0, entry{chat, n})); err != nil {
		s.o.Logger.DebugContext(ctx, "a chat that was left waits for the user's next read", "error", err)
	}
}

// keep sees to a member's entry in his index.
func (s *Store) keep(ctx context.Context, chat, user, stamp string) {
	if n, err := strconv.ParseInt(stamp, 10, 64); err == nil {
		s.keepEntries(ctx, user, []entry{{chat, n}})
	}
}

// Chat looks at a chat. Errors: not_found, and those of Redis.
func (s *Store) Chat(ctx context.Context, chat string) (*api.ChatInfo, error) {
	info, _, err := s.look(ctx, chat, "")
	if err == nil && info == nil {
		err = refusal(statusUnknown, chat, "")
	}
	return info, err
}

// look reads a chat, nil when there is none, and the stamp of a user's join, ""
// when he is no member.
func (s *Store) look(ctx context.Context, chat, user string) (info *api.ChatInfo, stamp string, err error) {
	reply, err := s.ask(ctx, stepLook, redisdb.Read, s.chatCmd(ctx, s.lookScript, chat, user))
	if err != nil {
		return nil, "", fmt.Errorf("look at chat %s: %w", chat, err)
	}
	if number(reply[0]) == statusUnknown {
		return nil, "", nil
	}
	return &api.ChatInfo{
		ID: chat, Epoch: text(reply[1]), LastID: number(reply[2]), FirstID: number(reply[3]),
		MemberCount: number(reply[4]), CreatedAt: api.AtMillis(number(reply[5])),
	}, text(reply[6]), nil
}

// Members lists a chat's members by name, those after a name ("" for the
// first). Errors: not_found, and those of Redis.
func (s *Store) Members(ctx context.Context, chat, after string, limit int) ([]api.ChatMember, error) {
	members, known, err := s.members(ctx, chat, after, pageSize(limit))
	if err == nil && !known {
		err = refusal(statusUnknown, chat, "")
	}
	return members, err
}

// maxNames bounds one page of MemberNames.
const maxNames = 1000

// MemberNames lists the names of a chat's members in ascending order, those
// after a name, at most 1,000; none of a chat that is not there.
func (s *Store) MemberNames(ctx context.Context, chat, after string, limit int) ([]string, error) {
	members, _, err := s.members(ctx, chat, after, min(limit, maxNames))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.User
	}
	return names, nil
}

func (s *Store) members(ctx context.Context, chat, after string, limit int) (members []api.ChatMember, known bool, err error) {
	reply, err := s.ask(ctx, stepRead, redisdb.Read, s.chatCmd(ctx, s.listScript, chat, after, limit))
	if err != nil {
		return nil, false, fmt.Errorf("list members of chat %s: %w", chat, err)
	}
	if number(reply[0]) == statusUnknown {
		return nil, false, nil
	}
	joins, positions := list(reply[1]), list(reply[2])
	members = make([]api.ChatMember, len(joins))
	for i := range joins {
		if members[i], err = readMember(text(joins[i])); err != nil {
			return nil, true, err
		}
		members[i].Acked = number(positions[i])
	}
	return members, true, nil
}

// readMember reads "<name> <stamp>"; the join's own stamp, if another, is last.
func readMember(join string) (api.ChatMember, error) {
	parts := strings.Split(join, " ")
	made, err := strconv.ParseInt(parts[len(parts)-1], 10, 64)
	if err != nil {
		return api.ChatMember{}, fmt.Errorf("read join %q: %w", join, err)
	}
	return api.ChatMember{User: parts[0], JoinedAt: api.AtMillis(time.UnixMicro(made).UnixMilli())}, nil
}
