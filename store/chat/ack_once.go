package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Statuses of lua/ack_claim.lua.
const (
	ackOther    = 0
	ackGoOn     = 1
	ackAnswered = 2
)

// releaseTime bounds the giving back of a key.
const releaseTime = time.Second

// AckOnce is Ack under an Idempotency-Key: the first answer again, and
// idempotency_key_reused for another body. Refusals are not kept, nor is an answer in which
// a chat was away: said again, it acknowledges there.
func (s *Store) AckOnce(ctx context.Context, user string, acks map[string]int64, once api.Idempotency) (a *api.Acks, replayed bool, err error) {
	if once.Key == "" {
		a, err = s.Ack(ctx, user, acks)
		return a, false, err
	}
	key := ackKey(user, once)
	if a, err = s.claimAck(ctx, key, once); a != nil || err != nil {
		return a, err == nil, err
	}
	if a, err = s.Ack(ctx, user, acks); err != nil {
		s.releaseAck(ctx, key, once)
		return nil, false, err
	}
	if isTemporary(a) {
		s.releaseAck(ctx, key, once)
		return a, false, nil
	}
	answer, err := json.Marshal(a)
	if err != nil {
		return nil, false, fmt.Errorf("keep the answer to acks: %w", err)
	}
	keep := redis.NewStatusCmd(ctx, "set", key, append(once.Body[:], answer...), "px", api.IdempotencyTTL.Milliseconds())
	return a, false, s.db.Share(ctx, redisdb.Write, keep)
}

// isTemporary tells that some chat may be acknowledged in when the call is repeated.
func isTemporary(a *api.Acks) bool {
	for _, refused := range a.Errors {
		if api.MeaningOf(refused.Code).Retryable {
			return true
		}
	}
	return false
}

// claimAck holds the key for this body; it returns the answer if there is one.
func (s *Store) claimAck(ctx context.Context, key string, once api.Idempotency) (*api.Acks, error) {
	value, err := s.db.Eval(ctx, redisdb.Write, s.ackClaimScript, []string{key}, once.Body[:], api.IdempotencyTTL.Milliseconds())
	if err != nil {
		return nil, err
	}
	found, _ := value.([]any)
	switch {
	case len(found) == 1 && found[0] == int64(ackGoOn):
		return nil, nil
	case len(found) == 1 && found[0] == int64(ackOther):
		return nil, api.IdempotencyReused()
	case len(found) != 2 || found[0] != int64(ackAnswered):
		return nil, fmt.Errorf("claim a key for acks: %v", value)
	}
	a := &api.Acks{}
	text, _ := found[1].(string)
	if err := json.Unmarshal([]byte(text), a); err != nil {
		return nil, fmt.Errorf("read the answer to acks: %w", err)
	}
	return a, nil
}

// releaseAck gives the key back; if that fails it only stays for this body.
func (s *Store) releaseAck(ctx context.Context, key string, once api.Idempotency) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	_ = s.db.Share(ctx, redisdb.Write, redisdb.DeleteIf(ctx, key, once.Body[:]))
}
