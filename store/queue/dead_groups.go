package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// countStep is how many new dead letters of a shard one script counts, and countSteps how often
	// DeadGroups asks. The regular looks at the shards count letters, too, so that mostly few are left.
	countStep, countSteps = 1000, 10
)

// DeadGroups counts the dead letters by reason, type and app, the largest groups first. Of each shard
// at most 1,000 groups are told apart. All other letters are in the group with the reason
// api.DeadLetterRest and without type and app: also those that are not counted yet, for seconds after an
// update or while a process of an earlier version deletes and retries letters.
func (q *Queue) DeadGroups(ctx context.Context) ([]api.DeadLetterGroup, error) {
	counts := map[api.DeadLetterGroup]int64{}
	rest := api.DeadLetterGroup{Kind: q.deadKind(), Reason: api.DeadLetterRest}
	shards := make([]int, q.o.Shards)
	for n := range shards {
		shards[n] = n
	}
	for step := 1; len(shards) > 0; step++ {
		cmds := make([]redis.Cmder, len(shards))
		for i, n := range shards {
			cmds[i] = q.common.Scripts.DeadGroups.Cmd(ctx, q.shards[n].Keys(), countStep)
		}
		if err := q.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
			return nil, err
		}
		var again []int
		for i, cmd := range cmds {
			answer, err := cmd.(*redis.Cmd).Slice()
			if err != nil {
				return nil, fmt.Errorf("count dead letters of %s: %w", q.o.Name, err)
			}
			if redisdb.NumberAt(answer, 0) == 1 && step < countSteps {
				again = append(again, shards[i])
				continue
			}
			left, groups := redisdb.NumberAt(answer, 1), redisdb.ListAt(answer, 2)
			for j := 0; j+1 < len(groups); j += 2 {
				n, _ := strconv.ParseInt(redisdb.TextAt(groups, j+1), 10, 64) // Redis counted
				counts[q.deadGroup(redisdb.Text(groups[j]))] += n
				left -= n
			}
			counts[rest] += max(0, left)
		}
		shards = again
	}
	list := make([]api.DeadLetterGroup, 0, len(counts))
	for g, n := range counts {
		if g.Count = n; n > 0 {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b api.DeadLetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Type, b.Type), cmp.Compare(a.App, b.App))
	})
	return list, nil
}

// deadKind is what the dead letters of the queue are called.
func (q *Queue) deadKind() string { return strings.TrimSuffix(q.o.Name, "s") }

// deadGroup reads the name of a group (part_dead.lua).
func (q *Queue) deadGroup(name string) api.DeadLetterGroup {
	if name == "" {
		return api.DeadLetterGroup{Kind: q.deadKind(), Reason: api.DeadLetterRest}
	}
	reason, class, _ := strings.Cut(name, classSep)
	kind, app, _ := strings.Cut(class, classSep)
	return api.DeadLetterGroup{Kind: q.deadKind(), Reason: reason, Type: kind, App: app}
}

// findDead looks at dead letters of a shard, from the newest id on: at most look, until it has found most.
func (q *Queue) findDead(ctx context.Context, n int, f DeadFilter, newest, oldest string, look, most int, whole bool) redis.Cmder {
	return q.common.Scripts.DeadFind.Cmd(ctx, q.shards[n].Keys(), newest, oldest, look, most, f.Reason, f.Type, f.App, whole)
}

// foundDead reads the answer of findDead: what it found, and the id of the last letter that it looked
// at, "" if that was the oldest.
func foundDead(cmd redis.Cmder) (last string, letters []any, err error) {
	answer, err := cmd.(*redis.Cmd).Slice()
	return redisdb.TextAt(answer, 1), redisdb.ListAt(answer, 2), err
}
