package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// The steps of the calls, as faults know them.
const (
	stepClaim   = "claim"
	stepCheck   = "check"
	stepIndex   = "index"
	stepCreate  = "create"
	stepLook    = "look"
	stepJoin    = "join"
	stepLeave   = "leave"
	stepUnindex = "unindex"
	stepSend    = "send"
	stepRead    = "read"
	stepAck     = "ack"
	stepHeal    = "heal"
	stepPush    = "push"
)

// trip sends the commands of one step.
func (s *Store) trip(ctx context.Context, step string, send redisdb.Sender, m redisdb.Mode, cmds ...redis.Cmder) error {
	return s.fault.Send(ctx, step, send, m, cmds...)
}

// chatCmd is a chat's script with what all of them take first.
func (s *Store) chatCmd(ctx context.Context, script *redisdb.Script, chat string, args ...any) *redis.Cmd {
	return s.chatCmdWith(ctx, script, chatKeys(chat), args...)
}

func (s *Store) chatCmdWith(ctx context.Context, script *redisdb.Script, keys []string, args ...any) *redis.Cmd {
	all := make([]any, 0, 2+len(args))
	all = append(all, s.o.MaxMessages, s.o.MaxAge.Milliseconds())
	return script.Cmd(ctx, keys, append(all, args...)...)
}

// ask runs one script that answers with a list.
func (s *Store) ask(ctx context.Context, step string, m redisdb.Mode, cmd *redis.Cmd) ([]any, error) {
	if err := s.trip(ctx, step, s.db.Share, m, cmd); err != nil {
		return nil, err
	}
	return answer(cmd)
}

// answer is a script's list.
func answer(cmd *redis.Cmd) ([]any, error) {
	list, err := cmd.Slice()
	if err == nil && len(list) == 0 {
		err = errors.New("an empty answer")
	}
	if err != nil {
		return nil, fmt.Errorf("run %v: %w", cmd.Args()[1], err)
	}
	return list, nil
}

// indexPatience is how long a call waits on a Cluster for the look at its
// user's index once it has its own answer: the index may be on a master that is
// away.
const indexPatience = 50 * time.Millisecond

// memberCall is what a user asks of his chats.
type memberCall struct {
	step  string
	mode  redisdb.Mode
	user  string
	chats []string
	cmds  []redis.Cmder // one for each chat
}

// call makes a member's call and, on the way, a look at his index: it returns
// what is not in there. For several chats every command has its own outcome,
// also after an error.
func (s *Store) call(ctx context.Context, c memberCall) (missing []string, err error) {
	look, send := lookCmd(ctx, c.user, c.chats), s.db.Share
	if len(c.cmds) > 1 {
		send = s.db.Pipeline
	}
	if s.clustered {
		return s.callApart(ctx, c, look, send)
	}
	if err := s.trip(ctx, c.step, send, c.mode, append(c.cmds[:len(c.cmds):len(c.cmds)], look)...); err != nil {
		return nil, err
	}
	return absent(look, c.chats), nil
}

// callApart is call with the look beside it, as it may go to another master.
func (s *Store) callApart(ctx context.Context, c memberCall, look *redis.FloatSliceCmd, send redisdb.Sender) (missing []string, err error) {
	looked := make(chan []string, 1)
	go func() {
		var missing []string
		if s.db.Share(ctx, redisdb.Read, look) == nil {
			missing = absent(look, c.chats)
		}
		looked <- missing
	}()
	if err := s.trip(ctx, c.step, send, c.mode, c.cmds...); err != nil {
		return nil, err
	}
	patience := time.NewTimer(indexPatience)
	defer patience.Stop()
	select {
	case missing = <-looked:
	case <-patience.C:
	}
	return missing, nil
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
