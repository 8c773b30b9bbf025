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
	shards, err := q.shardGroups(ctx, "")
	if err != nil {
		return nil, err
	}
	counts := map[api.DeadLetterGroup]int64{}
	for i := range shards {
		for g, n := range shards[i].groups {
			counts[g] += n
		}
		counts[api.DeadLetterGroup{Kind: q.DeadKind(), Reason: api.DeadLetterRest}] += max(0, shards[i].rest)
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

// shardGroups are the groups of a shard's dead letters.
type shardGroups struct {
	groups map[api.DeadLetterGroup]int64
	// all is the number of letters, and rest that of those which are in none of the groups. It is negative
	// while the groups have letters that a process of an earlier version took away.
	all, rest int64
	// unknown says that nothing else is known, because too many letters were to be left out.
	unknown bool
}

// Statuses of dead_groups.lua.
const (
	groupsMore    = 1
	groupsUnknown = 2
)

// shardGroups reads the groups of each shard, without the letters from an id on; "": of all letters.
func (q *Queue) shardGroups(ctx context.Context, from string) ([]shardGroups, error) {
	all, shards := make([]shardGroups, q.o.Shards), make([]int, q.o.Shards)
	for n := range shards {
		shards[n] = n
	}
	for step := 1; len(shards) > 0; step++ {
		cmds := make([]redis.Cmder, len(shards))
		for i, n := range shards {
			cmds[i] = q.common.Scripts.DeadGroups.Cmd(ctx, q.shards[n].Keys(), countStep, from)
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
			status := redisdb.NumberAt(answer, 0)
			if status == groupsMore && step < countSteps {
				again = append(again, shards[i])
				continue
			}
			all[shards[i]] = q.readGroups(answer)
			// Letters that are not counted yet may be some that are to be left out.
			all[shards[i]].unknown = status == groupsUnknown || status == groupsMore && from != ""
		}
		shards = again
	}
	return all, nil
}

func (q *Queue) readGroups(answer []any) shardGroups {
	s := shardGroups{groups: map[api.DeadLetterGroup]int64{}, all: redisdb.NumberAt(answer, 1)}
	s.rest = s.all
	named := redisdb.ListAt(answer, 2)
	for i := 0; i+1 < len(named); i += 2 {
		name := redisdb.Text(named[i])
		if name == "" { // the rest (part_dead.lua)
			continue
		}
		n, _ := strconv.ParseInt(redisdb.TextAt(named, i+1), 10, 64) // Redis counted
		s.groups[q.deadGroup(name)] += n
		s.rest -= n
	}
	return s
}

// DeadKind is what the dead letters of the queue are called.
func (q *Queue) DeadKind() string { return strings.TrimSuffix(q.o.Name, "s") }

// deadGroup reads the name of a group (part_dead.lua).
func (q *Queue) deadGroup(name string) api.DeadLetterGroup {
	reason, class, _ := strings.Cut(name, classSep)
	kind, app, _ := strings.Cut(class, classSep)
	return api.DeadLetterGroup{Kind: q.DeadKind(), Reason: reason, Type: kind, App: app}
}

// What findDead answers of each letter that it finds, beside their number.
const (
	deadWhole  = "w"
	deadIDs    = "i"
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
	return q.common.Scripts.DeadFind.Cmd(ctx, q.shards[n].Keys(), s.newest, s.look, s.most, f.Reason, f.Type, f.App, s.what)
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
