package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// MaxFailures is how many failures of a group a shard keeps (part_group.lua).
const MaxFailures = 200

// letterMark begins a failure that is a dead letter, followed by the letter's own id (part_end.lua).
const letterMark = "L"

// FailureList has the failures of a group in a shard, or those of a job without a group.
type FailureList struct {
	q     *Queue
	shard int
	group string
}

// FailureLists are the lists of some groups in the given shards, or in all. They are always in the same order.
func (q *Queue) FailureLists(groups []string, shards ...int) (lists []FailureList) {
	if len(shards) == 0 {
		for n := range q.shards {
			shards = append(shards, n)
		}
	}
	for _, n := range shards {
		for _, group := range groups {
			lists = append(lists, FailureList{q, n, group})
		}
	}
	return lists
}

func (l FailureList) key() string { return l.q.shards[l.shard].FailedKey(l.group) }

// Failure is one failure: a line of Result.Failures, or a dead letter.
type Failure struct {
	Line   string
	Letter *api.DeadLetter
}

// FailurePage is a part of several FailureLists.
type FailurePage struct {
	Found []Failure
	// List and At are where the next page begins: behind the first At failures of a list. At the end List is the
	// number of lists.
	List, At int
	// Kept is how many failures all lists have, and Full tells that one of them has no room for more.
	Kept int64
	Full bool
}

// Failures reads the next failures of some lists, list by list and in each the oldest first, from a place on that
// FailurePage has. A page looks at n: dead letters that were retried or deleted since are left out. It takes at most
// three pipelines. The lists must be of queues in one Redis.
func Failures(ctx context.Context, lists []FailureList, list, at, n int) (p FailurePage, err error) {
	p.List, p.At = list, at
	lengths, err := failureLengths(ctx, lists)
	if err != nil {
		return p, err
	}
	for _, length := range lengths {
		p.Kept, p.Full = p.Kept+length, p.Full || length >= MaxFailures
	}
	var of []FailureList
	var cmds []redis.Cmder
	for ; p.List < len(lists); p.List, p.At = p.List+1, 0 {
		left := int(lengths[p.List]) - p.At
		if left <= 0 {
			continue
		}
		if n == 0 {
			break
		}
		l, take := lists[p.List], min(n, left)
		of, cmds = append(of, l), append(cmds, redis.NewStringSliceCmd(ctx, "lrange", l.key(), p.At, p.At+take-1))
		if n -= take; take < left {
			p.At += take
			break
		}
	}
	p.Found, err = readFailures(ctx, of, cmds)
	return p, err
}

func failureLengths(ctx context.Context, lists []FailureList) ([]int64, error) {
	cmds, lengths := make([]redis.Cmder, len(lists)), make([]int64, len(lists))
	for i, l := range lists {
		cmds[i] = redis.NewIntCmd(ctx, "llen", l.key())
	}
	if err := lists[0].q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	for i, cmd := range cmds {
		var err error
		if lengths[i], err = cmd.(*redis.IntCmd).Result(); err != nil {
			return nil, fmt.Errorf("count the failures of %s: %w", lists[i].group, err)
		}
	}
	return lengths, nil
}

// readFailures reads what commands find in some lists, and the dead letters among it.
func readFailures(ctx context.Context, of []FailureList, cmds []redis.Cmder) ([]Failure, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	if err := of[0].q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	var all []Failure
	var letters []Letter
	var places []int
	for i, cmd := range cmds {
		texts, err := cmd.(*redis.StringSliceCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("read the failures of %s: %w", of[i].group, err)
		}
		for _, text := range texts {
			if eid, is := strings.CutPrefix(text, letterMark); is {
				letters, places = append(letters, Letter{of[i].q, of[i].shard, eid}), append(places, len(all))
				text = ""
			}
			all = append(all, Failure{Line: text})
		}
	}
	found, err := Letters(ctx, letters...)
	if err != nil {
		return nil, err
	}
	for i, letter := range found {
		all[places[i]].Letter = letter
	}
	return present(all), nil
}

// present leaves out the dead letters that are gone.
func present(all []Failure) []Failure {
	kept := all[:0]
	for _, f := range all {
		if f.Line != "" || f.Letter != nil {
			kept = append(kept, f)
		}
	}
	return kept
}

// failedMark is in the keys of lists (FailedKey), before the group.
const failedMark = ":failed:"

// failuresAtOnce is how many lists one pipeline reads: some 5 MB, if all are full.
const failuresAtOnce = 64

// DropFailures forgets those of the failures under some keys of Redis that drop chooses among their lines, and counts
// them. Keys that have no failures of this queue are left as they are. It takes a pipeline for each 64 lists, and another
// one if some of their lines go.
func (q *Queue) DropFailures(ctx context.Context, keys []string, drop func(group, line string) bool) (dropped int64, err error) {
	shards := make(map[string]int, len(q.shards)) // by what their keys begin with
	for n, s := range q.shards {
		shards[s.FailedKey("")] = n
	}
	var lists []FailureList
	for _, key := range keys {
		begin, group, is := strings.Cut(key, failedMark)
		if n, ours := shards[begin+failedMark]; is && ours {
			lists = append(lists, FailureList{q, n, group})
		}
	}
	for some := range slices.Chunk(lists, failuresAtOnce) {
		n, err := q.dropFrom(ctx, some, drop)
		if dropped += n; err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

// dropFrom is DropFailures for a few lists.
func (q *Queue) dropFrom(ctx context.Context, lists []FailureList, drop func(group, line string) bool) (dropped int64, err error) {
	reads := make([]redis.Cmder, len(lists))
	for i, l := range lists {
		reads[i] = redis.NewStringSliceCmd(ctx, "lrange", l.key(), 0, -1)
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, reads...); err != nil {
		return 0, err
	}
	var drops []redis.Cmder
	for i, cmd := range reads {
		lines, err := cmd.(*redis.StringSliceCmd).Result()
		if err != nil {
			return 0, fmt.Errorf("read the failures of %s: %w", lists[i].group, err)
		}
		for _, line := range lines {
			if !strings.HasPrefix(line, letterMark) && drop(lists[i].group, line) {
				drops = append(drops, redis.NewIntCmd(ctx, "lrem", lists[i].key(), 0, line))
			}
		}
	}
	if err := q.db.Pipeline(ctx, redisdb.Write, drops...); err != nil {
		return 0, err
	}
	if err := redisdb.FirstError(drops); err != nil {
		return 0, fmt.Errorf("forget failures: %w", err)
	}
	for _, cmd := range drops {
		dropped += cmd.(*redis.IntCmd).Val()
	}
	return dropped, nil
}
