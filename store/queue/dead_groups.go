package queue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// countStep is how many dead letters of a shard one script looks at, which takes some 5 ms of Redis' time.
	countStep = 1000
	// deadNewest is how many dead letters of a queue DeadGroups tells apart, of all shards together.
	deadNewest = 10_000
)

// DeadGroups counts the dead letters by reason, type and app, the largest groups first. Only the newest
// letters are told apart: 10,000, the same number of each shard. All others are in the group with the reason
// api.DeadLetterRest and without type and app.
func (q *Queue) DeadGroups(ctx context.Context) ([]api.DeadLetterGroup, error) {
	stats, err := q.Stats(ctx)
	if err != nil {
		return nil, err
	}
	rest, counts := stats.DeadLetters, map[api.DeadLetterGroup]int64{}
	err = q.lookAtDead(ctx, DeadFilter{}, deadSearch{newest: "+", look: deadNewest / q.o.Shards, what: deadGroup}, func(_ int64, groups []any) {
		rest -= int64(len(groups))
		for _, name := range groups {
			counts[q.readGroup(redisdb.Text(name))]++
		}
	})
	if rest > 0 {
		counts[api.DeadLetterGroup{Kind: q.DeadKind(), Reason: api.DeadLetterRest}] = rest
	}
	list := make([]api.DeadLetterGroup, 0, len(counts))
	for g, n := range counts {
		g.Count = n
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b api.DeadLetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Type, b.Type), cmp.Compare(a.App, b.App))
	})
	return list, err
}

// lookAtDead looks at the dead letters of each shard that a filter chooses, newest first, in pages. found gets
// the number of those that fit, and what the search asks of them.
func (q *Queue) lookAtDead(ctx context.Context, f DeadFilter, s deadSearch, found func(n int64, letters []any)) error {
	from := make(map[int]string, q.o.Shards)
	for n := range q.o.Shards {
		from[n] = s.newest
	}
	for ; len(from) > 0 && s.look > 0; s.look -= countStep {
		shards, step := slices.Sorted(maps.Keys(from)), min(s.look, countStep)
		cmds := make([]redis.Cmder, len(shards))
		for i, n := range shards {
			cmds[i] = q.findDead(ctx, n, f, deadSearch{newest: from[n], look: step, most: step, what: s.what})
		}
		if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
			return err
		}
		for i, cmd := range cmds {
			answer, err := cmd.(*redis.Cmd).Slice()
			if err != nil {
				return fmt.Errorf("look at dead letters of %s: %w", q.o.Name, err)
			}
			found(redisdb.NumberAt(answer, 0), redisdb.ListAt(answer, 2))
			if from[shards[i]] = "(" + redisdb.TextAt(answer, 1); from[shards[i]] == "(" {
				delete(from, shards[i])
			}
		}
	}
	return nil
}

// DeadKind is what the dead letters of the queue are called.
func (q *Queue) DeadKind() string { return strings.TrimSuffix(q.o.Name, "s") }

// readGroup reads the name of a group (dead_find.lua).
func (q *Queue) readGroup(name string) api.DeadLetterGroup {
	reason, class, _ := strings.Cut(name, classSep)
	kind, app, _ := strings.Cut(class, classSep)
	return api.DeadLetterGroup{Kind: q.DeadKind(), Reason: reason, Type: kind, App: app}
}

// What findDead answers of each letter that it finds, beside their number.
const (
	deadWhole  = "w"
	deadIDs    = "i"
	deadGroup  = "g"
	deadNumber = ""
)

// deadSearch is where to look for dead letters of a shard, from the newest id on: at most look letters, until
// most are found.
type deadSearch struct {
	newest     string
	look, most int
	what       string
}

func (q *Queue) findDead(ctx context.Context, n int, f DeadFilter, s deadSearch) redis.Cmder {
	return q.common.Scripts.DeadFind.Cmd(ctx, q.shards[n].Keys(), s.newest, s.look, s.most, f.Reason, f.Type, f.App, s.what, max(1, deadPageBytes/q.o.Shards))
}

// foundDead reads the answer of findDead: what it found, and the id of the last letter that it looked
// at, "" if that was the oldest.
func foundDead(cmd redis.Cmder) (last string, letters []any, err error) {
	answer, err := cmd.(*redis.Cmd).Slice()
	return redisdb.TextAt(answer, 1), redisdb.ListAt(answer, 2), err
}

// ClassOf makes the class of a job of an event of a type and, if it is a notification, its app.
func ClassOf(eventType, app string) string { return eventType + classSep + app }

// classSep separates the two, and a reason from both in the groups of dead letters.
const classSep = "\x1f"
