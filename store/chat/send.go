package chat

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Outgoing is a message to send.
type Outgoing struct {
	// Chat and Sender are identifiers; the sender must be a member.
	Chat, Sender string
	// Text is kept byte for byte.
	Text string
	// Push says that members who are not there should get a push: the
	// message is due until PushDone.
	Push bool
	// Once makes the call safe to repeat; its scope need not name the sender.
	Once api.Idempotency
}

// Send adds a message to a chat, in one step. Ids of a chat are 1, 2, 3 ...
// without holes; id and time are the server's. replayed: the answer is that of
// an earlier request with the same key. Errors: not_found, not_a_member,
// idempotency_key_reused, and those of Redis.
func (s *Store) Send(ctx context.Context, m Outgoing) (sent *api.ChatMessageSent, replayed bool, err error) {
	if err := s.db.Overloaded(); err != nil {
		return nil, false, err
	}
	r := recordOf(m.Once, m.Chat, m.Sender)
	keys := append(chatKeys(m.Chat), recordKey(m.Chat, r.name))
	cmd := s.chatCmdWith(ctx, s.sendScript, keys, m.Sender, m.Text, r.request, r.digest, r.ttl, MessageChannel(m.Chat), flag(m.Push))
	missing, err := s.call(ctx, memberCall{step: stepSend, mode: redisdb.Write, user: m.Sender, chats: []string{m.Chat}, cmds: cmds(cmd)})
	if err != nil {
		return nil, false, err
	}
	reply, err := answer(cmd)
	if err != nil {
		return nil, false, fmt.Errorf("send to chat %s: %w", m.Chat, err)
	}
	status := redisdb.Number(reply[0])
	if err := refusal(status, m.Chat, m.Sender); err != nil {
		return nil, false, err
	}
	s.addMissing(ctx, m.Sender, missing)
	return &api.ChatMessageSent{ID: redisdb.Number(reply[1]), SentAt: api.AtMillis(redisdb.Number(reply[2]))}, status == statusReplayed, nil
}

// record is how a request is remembered, so that a second run of it has no
// second effect: by its Idempotency-Key, or by a random name.
type record struct {
	name, request, digest string
	ttl                   int64 // ms
}

// noDigest stands where a request without a key has no body to compare.
const noDigest = "-"

func recordOf(once api.Idempotency, chat, sender string) record {
	r := record{request: newRequest()}
	if once.Key == "" {
		r.name, r.digest, r.ttl = r.request, noDigest, requestTTL.Milliseconds()
		return r
	}
	r.name, r.digest, r.ttl = once.Name(chat, sender), digestOf(once), keyTTL.Milliseconds()
	return r
}

func digestOf(once api.Idempotency) string { return base64.RawURLEncoding.EncodeToString(once.Body[:]) }

// newRequest names one request: a repeat by the client of Redis is the same.
func newRequest() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// flag is a truth as scripts read it.
func flag(v bool) string {
	if v {
		return "1"
	}
	return ""
}
