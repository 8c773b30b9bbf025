package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// trimEvery is how often old facts are dropped, and trimStep how many at once at most, of each stream. Without a number of
	// its own Redis drops 10,000.
	trimEvery, trimStep = 10 * time.Second, 200_000
	// trimAtRest is how often they are dropped while no type is on: then none are written, except by a process that cannot read which
	// types are on.
	trimAtRest = time.Minute
	// unlimited is what all lanes may take of a Redis without maxmemory.
	unlimited = 512 << 20
)

// RunUpkeep drops facts that are too old or take too much room, until ctx ends.
func (s *Store) RunUpkeep(ctx context.Context) error {
	var trimmed time.Time
	for ctx.Err() == nil {
		var err error
		if s.trimDue(trimmed) {
			err, trimmed = s.Trim(ctx), time.Now()
		}
		if err != nil && ctx.Err() == nil {
			s.o.Logger.DebugContext(ctx, "old facts were not dropped", "error", err)
		}
		redisdb.Sleep(ctx, trimEvery)
	}
	return nil
}

// trimDue reports whether it is time to drop facts, if they were last dropped at a time.
func (s *Store) trimDue(last time.Time) bool { return s.tells() || time.Since(last) >= trimAtRest }

// tells reports whether facts of any type are written.
func (s *Store) tells() bool { return slices.ContainsFunc(api.FactTypes, s.o.On) }

// Trim drops the facts that are older than they are kept, and the oldest of lanes that have too many, or that together take more
// than their share of Redis' memory. Lanes whose master is away stay as they are, and are the reason of the error.
func (s *Store) Trim(ctx context.Context) error {
	oldest := fmt.Sprintf("%d-0", max(0, s.o.DB.Clock().Add(-s.o.Retention).UnixMilli()))
	var cmds []redis.Cmder
	for n := range s.Lanes() {
		cmds = append(cmds,
			redis.NewIntCmd(ctx, "xtrim", s.lane(n), "minid", "~", oldest, "limit", trimStep), redis.NewIntCmd(ctx, "xtrim", s.lane(n), "maxlen", "~", s.o.Most, "limit", trimStep))
	}
	_ = s.o.DB.Pipeline(ctx, redisdb.Write, cmds...) // each command has its error
	return errors.Join(redisdb.FirstError(cmds), s.trimBytes(ctx))
}

// trimBytes trims all lanes by the same part if they take more than their share of Redis' memory.
func (s *Store) trimBytes(ctx context.Context) error {
	room, sum := s.room(), int64(0)
	if room <= 0 {
		return nil
	}
	var cmds []redis.Cmder
	for n := range s.Lanes() {
		cmds = append(cmds, redis.NewIntCmd(ctx, "memory", "usage", s.lane(n)), redis.NewIntCmd(ctx, "xlen", s.lane(n)))
	}
	_ = s.o.DB.Pipeline(ctx, redisdb.Read, cmds...) // a lane that cannot be read counts as empty
	for n := range s.Lanes() {
		sum += cmds[2*n].(*redis.IntCmd).Val()
	}
	if sum <= room {
		return nil
	}
	var trims []redis.Cmder
	for n := range s.Lanes() {
		length := float64(cmds[2*n+1].(*redis.IntCmd).Val())
		trims = append(trims, redis.NewIntCmd(ctx, "xtrim", s.lane(n), "maxlen", "~", int64(length*trimTo*float64(room)/float64(sum)), "limit", trimStep))
	}
	_ = s.o.DB.Pipeline(ctx, redisdb.Write, trims...) // each command has its error
	return redisdb.FirstError(trims)
}

// trimTo is the part of their room to which lanes are trimmed that take more.
const trimTo = 0.9

// room is how many bytes all lanes may take; 0: it is not known yet.
func (s *Store) room() int64 {
	if s.o.Bytes > 0 {
		return s.o.Bytes
	}
	if r := s.o.DB.Reading(); r != nil {
		return cmp.Or(r.Limit/share, unlimited)
	}
	return 0
}

// Kept are figures of the facts that are kept.
type Kept struct {
	Facts  int64
	Age    time.Duration // of the oldest, by Redis' clock; 0: there is none
	Left   int64         // entries in outboxes
	Missed int64         // facts that were gone before readers of this process came to them, since it was started
}

// Kept counts the facts that are kept, in one pipeline.
func (s *Store) Kept(ctx context.Context) (k Kept, err error) {
	k.Missed = s.missed.Load()
	now := s.o.DB.Clock()
	var cmds []redis.Cmder
	for n := range s.Lanes() {
		cmds = append(cmds, redis.NewIntCmd(ctx, "xlen", s.lane(n)), redis.NewXMessageSliceCmd(ctx, "xrange", s.lane(n), "-", "+", "COUNT", 1))
	}
	for _, o := range s.o.Outboxes {
		cmds = append(cmds, redis.NewIntCmd(ctx, "xlen", o.Key))
	}
	if err := s.o.DB.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return k, fmt.Errorf("count facts: %w", err)
	}
	for n, cmd := range cmds {
		switch cmd := cmd.(type) {
		case *redis.IntCmd:
			if n < 2*s.Lanes() {
				k.Facts += cmd.Val()
			} else {
				k.Left += cmd.Val()
			}
		case *redis.XMessageSliceCmd:
			for _, m := range cmd.Val() {
				p, _ := parsePosition(m.ID)
				k.Age = max(k.Age, now.Sub(time.UnixMilli(p.ms)))
			}
		}
	}
	return k, nil
}
