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

// DeadGroups counts the dead letters by reason, type and app or queue, the largest groups first. Only the newest
// letters are told apart: 10,000, the same number of each shard that has so many, and more if other shards have
// fewer. All others are in the group with the reason api.DeadLetterRest and without type, app and queue.
func (q *Queue) DeadGroups(ctx context.Context) ([]api.DeadLetterGroup, error) {
	lengths, err := q.deadLengths(ctx, q.DeadShards(DeadFilter{}))
	if err != nil {
		return nil, err
	}
	rest, counts := int64(0), map[api.DeadLetterGroup]int64{}
	for _, n := range lengths {
		rest += n
	}
	err = q.lookAtDead(ctx, DeadFilter{}, deadSearch{newest: "+", what: deadGroup}, shareOut(deadNewest, lengths), func(_ int64, groups []any) {
		rest -= int64(len(groups))
		for _, name := range groups {
			counts[q.readGroup(redisdb.Text(name))]++
		}
	})
	if rest > 0 {
		counts[api.DeadLetterGroup{Kind: q.o.Kind, Reason: api.DeadLetterRest}] = rest
	}
	list := make([]api.DeadLetterGroup, 0, len(counts))
	for g, n := range counts {
		g.Count = n
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b api.DeadLetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Type, b.Type), cmp.Compare(a.App, b.App), cmp.Compare(a.Queue, b.Queue))
	})
	return list, err
}

// deadLengths is how many dead letters each of some shards has.
func (q *Queue) deadLengths(ctx context.Context, shards []int) ([]int64, error) {
	cmds := make([]redis.Cmder, len(shards))
	for i, n := range shards {
		cmds[i] = redis.NewIntCmd(ctx, "xlen", q.shards[n].DeadKey())
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	lengths := make([]int64, len(cmds))
	for i, cmd := range cmds {
		var err error
		if lengths[i], err = cmd.(*redis.IntCmd).Result(); err != nil {
			return nil, fmt.Errorf("count dead letters of %s shard %d: %w", q.o.Name, shards[i], err)
		}
	}
	return lengths, nil
}

// shareOut divides most among shards with these lengths. A shard gets no more than its length, and what it leaves of
// an equal share goes to longer ones.
func shareOut(most int64, lengths []int64) []int64 {
	order, shares := make([]int, len(lengths)), make([]int64, len(lengths))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(lengths[a], lengths[b]) })
	for i, n := range order {
		shares[n] = min(lengths[n], most/int64(len(order)-i))
		most -= shares[n]
	}
	return shares
}

// lookAtDead looks at the dead letters of each shard that a filter chooses, newest first, in pages: at most at as many
// of a shard as look says. found gets the number of those that fit, and what the search asks of them.
func (q *Queue) lookAtDead(ctx context.Context, f DeadFilter, s deadSearch, look []int64, found func(n int64, letters []any)) error {
	from := make(map[int]string, q.o.Shards)
	for n, most := range look {
		if most > 0 {
			from[n] = s.newest
		}
	}
	for len(from) > 0 {
		shards := slices.Sorted(maps.Keys(from))
		cmds := make([]redis.Cmder, len(shards))
		for i, n := range shards {
			step := min(look[n], countStep)
			look[n] -= step
			cmds[i] = q.findDead(ctx, n, f, deadSearch{newest: from[n], look: int(step), most: int(step), what: s.what})
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
			n, last := shards[i], redisdb.TextAt(answer, 1)
			if from[n] = "(" + last; last == "" || look[n] == 0 {
				delete(from, n)
			}
		}
	}
	return nil
}

// DeadKind is what the dead letters of the queue are called.
func (q *Queue) DeadKind() string { return q.o.Kind }

// readGroup reads the name of a group (dead_find.lua).
func (q *Queue) readGroup(name string) api.DeadLetterGroup {
	reason, class, _ := strings.Cut(name, classSep)
	kind, app, queue := q.readClass(class)
	return api.DeadLetterGroup{Kind: q.o.Kind, Reason: reason, Type: kind, App: app, Queue: queue}
}

// readClass reads the class of a letter: the type, and the app or the callers' queue.
func (q *Queue) readClass(class string) (kind, app, queue string) {
	kind, app, _ = strings.Cut(class, classSep)
	if q.o.Kind == api.DeadJob {
		return kind, "", app
	}
	return kind, app, ""
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
	return q.common.Scripts.DeadFind.Cmd(ctx, q.shards[n].Keys(), s.newest, s.look, s.most, f.Reason, f.Type, f.App, f.Queue, s.what, max(1, deadPageBytes/max(1, len(q.DeadShards(f)))))
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
