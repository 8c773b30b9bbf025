package chat

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Statuses of chat_create.lua, in addition to those that scripts share.
const (
	createExists = 5
	createFree   = 6
)

// creation is one request to make a chat.
type creation struct {
	chat    api.Chat // its epoch names the request
	once    api.Idempotency
	message string
	push    bool
	tells   bool // facts tell of the message
	stamps  []string
}

// Create makes a chat of the creator and the listed members, each once. The creator's first message
// is sent in the same step, and is due for a push if push is set. Without an id the chat gets one,
// which is derived from the idempotency key if there is one. replayed says that the answer is from
// an earlier request with the same key. Errors: conflict if the id exists, idempotency_key_reused,
// and those of Redis.
func (s *Store) Create(ctx context.Context, r *api.ChatRequest, once api.Idempotency, push bool) (c *api.Chat, replayed bool, err error) {
	if err := s.db.Overloaded(); err != nil {
		return nil, false, err
	}
	n := newCreation(r, once, push)
	if once.Key != "" {
		if err := s.claim(ctx, once); err != nil {
			return nil, false, err
		}
	}
	status := int64(createFree)
	if r.ID != "" || once.Key != "" {
		if status, err = s.create(ctx, n); err != nil {
			return nil, false, err
		}
	}
	if status == createFree {
		if n.stamps, err = s.addToIndexes(ctx, n.chat.ID, n.chat.Members...); err != nil {
			return nil, false, err
		}
		if status, err = s.create(ctx, n); err != nil {
			return nil, false, err
		}
	}
	if status == createExists {
		s.release(ctx, once)
		return nil, false, api.Errorf(api.CodeConflict, "there is a chat %s already", n.chat.ID)
	}
	return &n.chat, status == statusReplayed, refusal(status, n.chat.ID, "")
}

func newCreation(r *api.ChatRequest, once api.Idempotency, push bool) *creation {
	n := &creation{chat: api.Chat{ID: r.ID, Epoch: newID(), Members: distinct(r.Creator, r.Members)}, once: once, push: push}
	if r.Message != nil {
		n.message = *r.Message
	}
	switch {
	case r.ID != "":
	case once.Key != "":
		sum := once.Digest()
		n.chat.ID = strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:17]))
	default:
		n.chat.ID = newID()
	}
	return n
}

// newID is 130 random bits.
func newID() string { return strings.ToLower(rand.Text()) }

// distinct returns the creator and the others, each once, in their order.
func distinct(creator string, others []string) []string {
	out, seen := []string{creator}, map[string]bool{creator: true}
	for _, name := range others {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// create runs chat_create.lua. Without stamps the script only tells what the outcome would be. The
// chat gets the epoch from the script's reply.
func (s *Store) create(ctx context.Context, n *creation) (status int64, err error) {
	digest := ""
	if n.once.Key != "" {
		digest = digestOf(n.once)
	}
	n.tells = n.message != "" && s.o.Tells(api.FactChatMessage)
	var members strings.Builder
	for i, stamp := range n.stamps {
		members.WriteString(n.chat.Members[i] + " " + stamp + " ")
	}
	args := []any{
		n.chat.Epoch, digest, keyTTL.Milliseconds(), members.String(), membershipChannels,
		n.chat.Members[0], n.message, s.MessageChannel(n.chat.ID), flag(n.push), flag(n.tells),
	}
	keys := append(chatKeys(n.chat.ID), recordKey(n.chat.ID, n.once.Name()))
	reply, err := s.db.List(ctx, redisdb.Write, s.chatCmdWith(ctx, s.createScript, keys, args...))
	if err != nil {
		return 0, fmt.Errorf("create chat %s: %w", n.chat.ID, err)
	}
	if status = redisdb.Number(reply[0]); status == statusDone || status == statusReplayed {
		n.chat.Epoch = redisdb.Text(reply[1])
	}
	if status == statusDone && n.tells {
		s.o.Left(bucketOf(n.chat.ID))
	}
	return status, nil
}

// claim reserves the idempotency key for this body. A request with another body may name a chat in
// another slot, where the key is not known.
func (s *Store) claim(ctx context.Context, once api.Idempotency) error {
	cmd := s.claimScript.Cmd(ctx, []string{claimKey(once.Name())}, digestOf(once), keyTTL.Milliseconds())
	held, err := redisdb.Value(ctx, s.db, redisdb.Write, cmd)
	if err != nil {
		return fmt.Errorf("claim an idempotency key: %w", err)
	}
	if redisdb.Number(held) == 0 {
		return refusal(statusKeyReused, "", "")
	}
	return nil
}

// release frees the key after a refusal. If that fails, the key expires by itself.
func (s *Store) release(ctx context.Context, once api.Idempotency) {
	if once.Key == "" {
		return
	}
	cmd := redisdb.DeleteIf(ctx, claimKey(once.Name()), digestOf(once))
	if err := s.db.Share(ctx, redisdb.Write, cmd); err != nil {
		s.o.Logger.DebugContext(ctx, "an idempotency key of a refusal is kept", "error", err)
	}
}
