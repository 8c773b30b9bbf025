package broadcasts

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// sentTimes are the times of updates that this process has not written yet.
type sentTimes struct {
	mu      sync.Mutex
	waiting map[string]int64 // by object, Unix ms
}

// sentEvery is how often the times of updates are written.
const sentEvery = time.Second

// NoteSent notes that APNs took an update of an object. RunSent writes it.
func (s *Store) NoteSent(object string, at time.Time) {
	s.sent.mu.Lock()
	defer s.sent.mu.Unlock()
	if s.sent.waiting == nil {
		s.sent.waiting = map[string]int64{}
	}
	s.sent.waiting[object] = max(s.sent.waiting[object], at.UnixMilli())
}

// RunSent writes the times of updates, all of a second at once, until ctx ends.
func (s *Store) RunSent(ctx context.Context) error {
	for every := time.NewTicker(sentEvery); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			s.writeSent(context.WithoutCancel(ctx))
			return nil
		case <-every.C:
			s.writeSent(ctx)
		}
	}
}

// writeSent writes what waits, but nothing of broadcasts that were deleted meanwhile. What cannot be written is dropped: the next update
// brings a newer time.
func (s *Store) writeSent(ctx context.Context) {
	s.sent.mu.Lock()
	waiting := s.sent.waiting
	s.sent.waiting = nil
	s.sent.mu.Unlock()
	maps.DeleteFunc(waiting, func(object string, _ int64) bool { return s.Known(object) == nil })
	if len(waiting) == 0 {
		return
	}
	args := []any{"hset", keySent}
	for object, ms := range waiting {
		args = append(args, object, ms)
	}
	err := s.o.DB.Pipeline(ctx, redisdb.Write, redis.NewIntCmd(ctx, args...), redis.NewBoolCmd(ctx, "pexpire", keySent, keepSent.Milliseconds()))
	if err != nil {
		s.o.Logger.DebugContext(ctx, "the times of updates were not written", "error", err)
	}
}

// forgetSent removes the time of an object's last update.
func (s *Store) forgetSent(ctx context.Context, object string) error {
	return s.o.DB.Do(ctx, redisdb.Write, redis.NewIntCmd(ctx, "hdel", keySent, object))
}

// tellSent fills in when APNs took the last update. If Redis cannot tell, it is left out.
func (s *Store) tellSent(ctx context.Context, all ...*api.Broadcast) {
	if len(all) == 0 {
		return
	}
	args := []any{"hmget", keySent}
	for _, b := range all {
		args = append(args, b.Object)
	}
	values, err := redisdb.Value(ctx, s.o.DB, redisdb.Read, redis.NewSliceCmd(ctx, args...))
	if err != nil {
		s.o.Logger.DebugContext(ctx, "the times of updates were not read", "error", err)
		return
	}
	for i, v := range values {
		text, _ := v.(string)
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			all[i].SentAt = new(api.AtMillis(ms))
		}
	}
}
