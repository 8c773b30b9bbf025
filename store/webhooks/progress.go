package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Progress is how far a webhook has come in a lane.
type Progress struct {
	// After is the position up to which facts were taken; "": the oldest there is.
	After string
	// Replays is how often the position was set by a replay.
	Replays int64
	// Last is the last answer, nil if there was none, and At when it came.
	Last *api.WebhookAnswer
	At   time.Time
	// FailingSince is since when nothing was taken; zero: the last facts were taken.
	FailingSince time.Time
	// Gap is how many facts went unsent because they were kept no longer.
	Gap int64
}

// Progress reads how far a webhook has come in some lanes, in one round trip.
func (s *Store) Progress(ctx context.Context, series string, lanes ...int) ([]Progress, error) {
	cmds := make([]redis.Cmder, len(lanes))
	for i, lane := range lanes {
		cmds[i] = redis.NewMapStringStringCmd(ctx, "hgetall", s.key(series, lane))
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	all := make([]Progress, len(lanes))
	for i, cmd := range cmds {
		found, err := cmd.(*redis.MapStringStringCmd).Result()
		if err == nil {
			all[i], err = progressOf(found)
		}
		if err != nil {
			return nil, fmt.Errorf("read the progress of a webhook in lane %d: %w", lanes[i], err)
		}
	}
	return all, nil
}

func progressOf(found map[string]string) (p Progress, err error) {
	p.After, p.At, p.FailingSince = found["pos"], timeOf(found["at"]), timeOf(found["since"])
	p.Replays, _ = strconv.ParseInt(found["replays"], 10, 64)
	p.Gap, _ = strconv.ParseInt(found["gap"], 10, 64)
	if last := found["last"]; last != "" {
		p.Last = &api.WebhookAnswer{}
		err = json.Unmarshal([]byte(last), p.Last)
	}
	return p, err
}

// timeOf reads milliseconds, which are none or a number that a script wrote.
func timeOf(ms string) time.Time {
	n, _ := strconv.ParseInt(ms, 10, 64)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// Step is what has become of the facts between two positions of a lane.
type Step struct {
	Series string
	Lane   int
	// From is where the facts were read from, and To the position after them if they were taken or given up, else From.
	From, To string
	// Replays is what Progress had when the position was read.
	Replays int64
	// Answer is the receiver's answer; nil: there was no request.
	Answer *api.WebhookAnswer
	// Taken says that the receiver has taken the facts.
	Taken bool
	// Gap is how many facts before these were kept no longer.
	Gap int64
}

// Note notes a step. It is false, and changes nothing, if the position is another one by now, or was set by a replay since.
func (s *Store) Note(ctx context.Context, step Step) (bool, error) {
	answer, taken := "", 0
	if step.Answer != nil {
		text, _ := json.Marshal(step.Answer) // numbers and texts always marshal
		answer = string(text)
	}
	if step.Taken {
		taken = 1
	}
	reply, err := s.o.DB.Eval(ctx, redisdb.Write, s.step, []string{s.key(step.Series, step.Lane)},
		step.From, step.To, answer, taken, step.Gap, progressTTL.Milliseconds(), step.Replays)
	if err != nil {
		return false, fmt.Errorf("note the progress of a webhook in lane %d: %w", step.Lane, err)
	}
	return redisdb.Number(reply) == 1, nil
}
