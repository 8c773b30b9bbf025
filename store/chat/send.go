package chat

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Outgoing is a message to send.
type Outgoing struct {
	// Chat and Sender are identifiers; the sender must be a member.
	Chat, Sender string
	// Text is kept byte for byte, and so are the strings of Data, which may be nil. Both must be
	// UTF-8.
	Text string
	Data map[string]string
	// Push says that members without a stream should get a push: the message is due until PushDone.
	Push bool
	// Once makes the call safe to repeat. Its scope need not name the sender.
	Once api.Idempotency
}

// sending is a message that is being sent. Messages that arrive while a script runs share the next
// run.
type sending struct {
	Outgoing
	content        string               // the text with the data, as the log has them
	record, digest string               // of the Idempotency-Key; "" if there is none
	indexed        *redis.FloatSliceCmd // whether the sender's index has the chat; nil on a Cluster

	// The outcome.
	answer string // the script's line for this message
	err    error
}

// Send adds a message to a chat in one step. The ids in a chat are 1, 2, 3 and so on without holes.
// Redis decides id and time. replayed says that an earlier request with the same key sent the
// message. Errors: not_found, not_a_member, idempotency_key_reused, and those of Redis.
func (s *Store) Send(ctx context.Context, m Outgoing) (sent *api.ChatMessageSent, replayed bool, err error) {
	if err := s.db.Overloaded(); err != nil {
		return nil, false, err
	}
	one := &sending{Outgoing: m}
	if one.content, err = encodeContent(m.Text, m.Data); err != nil {
		return nil, false, err
	}
	if m.Once.Key != "" {
		one.record, one.digest = recordKey(m.Chat, m.Once.Name(m.Chat, m.Sender)), digestOf(m.Once)
	}
	missing, err := s.hand(ctx, one)
	if err != nil {
		return nil, false, err
	}
	status, id, at, err := readSent(one.answer)
	if err != nil {
		return nil, false, fmt.Errorf("send to chat %s: %w", m.Chat, err)
	}
	if err := refusal(status, m.Chat, m.Sender); err != nil {
		return nil, false, err
	}
	s.addMissing(ctx, m.Sender, missing)
	return &api.ChatMessageSent{ID: id, SentAt: api.AtMillis(at)}, status == statusReplayed, nil
}

// readSent reads a line "<status> <id> <time in ms>" or "<status>".
func readSent(line string) (status, id, at int64, err error) {
	var numbers [3]int64
	for i := range numbers {
		number, rest, more := strings.Cut(line, " ")
		if numbers[i], err = strconv.ParseInt(number, 10, 64); err != nil || !more {
			break
		}
		line = rest
	}
	return numbers[0], numbers[1], numbers[2], err
}

// hand hands a message in and waits for its answer. missing is the chat if the sender's index lacks
// it.
func (s *Store) hand(ctx context.Context, one *sending) (missing []string, err error) {
	chats := []string{one.Chat}
	wait := func() error {
		if err := s.crowdOf(one.Chat).Do(ctx, one); err != nil {
			return err
		}
		return one.err
	}
	if s.clustered {
		return s.beside(ctx, one.Sender, chats, wait)
	}
	one.indexed = indexedCmd(ctx, one.Sender, chats)
	if err := wait(); err != nil {
		return nil, err
	}
	return missingOf(one.indexed, chats), nil
}

// crowdOf is the crowd of a chat's senders. On a Cluster each bucket, which is one slot, has its
// own crowd.
func (s *Store) crowdOf(chat string) *redisdb.Crowd[*sending] {
	if s.clustered {
		return s.crowds[bucketOf(chat)]
	}
	return s.crowds[0]
}

// newCrowds makes the crowds of senders.
func (s *Store) newCrowds() []*redisdb.Crowd[*sending] {
	crowds := make([]*redisdb.Crowd[*sending], 1)
	if s.clustered {
		crowds = make([]*redisdb.Crowd[*sending], buckets)
	}
	for i := range crowds {
		crowds[i] = redisdb.NewCrowd(s.db, 0, s.sendAll)
	}
	return crowds
}

// sendAll sends the messages of a crowd. In the same round trip it reads whether the senders'
// indexes have the chats, except on a Cluster, where the indexes may be on other masters.
func (s *Store) sendAll(ctx context.Context, messages []*sending) {
	slices.SortStableFunc(messages, func(a, b *sending) int { return strings.Compare(a.Chat, b.Chat) })
	tells := s.o.Tells(api.FactChatMessage)
	cmd := s.sendCmd(ctx, messages, tells)
	cmds := []redis.Cmder{cmd}
	for _, m := range messages {
		if m.indexed != nil {
			cmds = append(cmds, m.indexed)
		}
	}
	err := s.db.Share(ctx, redisdb.Write, cmds...)
	var answers []string
	if err == nil {
		var lines string
		lines, err = cmd.Text()
		answers = strings.Split(lines, "\n")
	}
	if err == nil && len(answers) != len(messages) {
		err = fmt.Errorf("send to chats: %d answers to %d messages", len(answers), len(messages))
	}
	for i, m := range messages {
		if m.err = err; err == nil {
			m.answer = answers[i]
			m.err = s.sendError(m)
			if tells && (i == 0 || m.Chat != messages[i-1].Chat) {
				s.o.Left(bucketOf(m.Chat))
			}
		}
	}
}

// sendCmd makes the command that runs the script with the messages, in the order of their chats, and tells of them if tells is set.
func (s *Store) sendCmd(ctx context.Context, messages []*sending, tells bool) *redis.Cmd {
	call, channels := recordKey(messages[0].Chat, newRequest()), s.messageChannels(messages[0].Chat)
	keys := make([]string, 0, 3*len(messages)+1)
	args := make([]any, 0, 5*len(messages))
	chats := 0
	for ; len(messages) > 0; chats++ {
		chat := messages[0].Chat
		n := slices.IndexFunc(messages, func(m *sending) bool { return m.Chat != chat })
		if n < 0 {
			n = len(messages)
		}
		keys = append(keys, chatKeys(chat)...)
		args = appendMessages(args, messages[:n])
		for _, m := range messages[:n] {
			if m.record != "" {
				keys = append(keys, m.record)
			}
		}
		messages = messages[n:]
	}
	common := []any{requestTTL.Milliseconds(), keyTTL.Milliseconds(), channels, flag(tells), chats}
	return s.chatCmdWith(ctx, s.sendScript, append(keys, call), append(common, args...)...)
}

// appendMessages appends the script's arguments for the messages of one chat.
func appendMessages(args []any, messages []*sending) []any {
	push, records := false, 0
	for _, m := range messages {
		push = push || m.Push
		if m.record != "" {
			records++
		}
	}
	args = append(args, len(messages), records, flag(push))
	for _, m := range messages {
		args = append(args, m.Sender)
	}
	for _, m := range messages {
		args = append(args, m.content)
	}
	for i := 0; i < len(messages) && records > 0; i++ {
		args = append(args, messages[i].digest)
	}
	return args
}

// sendError is the error that the script reported for one message.
func (s *Store) sendError(m *sending) error {
	what, failed := strings.CutPrefix(m.answer, "-1 ")
	if !failed {
		return nil
	}
	return fmt.Errorf("send to chat %s: %w", m.Chat, s.db.Err(redisdb.ScriptError(what), redisdb.Write))
}

func digestOf(once api.Idempotency) string { return base64.RawURLEncoding.EncodeToString(once.Body[:]) }

// newRequest makes the id of a call. A repeat by the client of Redis has the same id.
func newRequest() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// flag is a bool in the form for scripts.
func flag(v bool) string {
	if v {
		return "1"
	}
	return ""
}
