package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
)

// Statuses of dead_retry.lua.
const (
	deadUnknown  = 0
	deadQueued   = 1
	deadReplayed = 2
	deadReused   = 3
	deadTaken    = 4
	deadAlready  = 5
)

// DeadID is the public id of a dead letter: queue, shard and job.
func (q *Queue) DeadID(shard int, id string) string {
	return q.o.Name + "." + strconv.Itoa(shard) + "." + id
}

// parseDead reads a public id; one of another queue is not found.
func (q *Queue) parseDead(dead string) (shard int, id string, err error) {
	rest, ok := strings.CutPrefix(dead, q.o.Name+".")
	number, id, ok2 := strings.Cut(rest, ".")
	shard, numberErr := strconv.Atoi(number)
	if !ok || !ok2 || numberErr != nil || shard < 0 || shard >= q.o.Shards || id == "" {
		return 0, "", errNoDead(dead)
	}
	return shard, id, nil
}

func errNoDead(id string) error { return api.Errorf(api.CodeNotFound, "no dead letter %s", id) }

// DeadLetters lists dead letters of all shards, newest first. The cursor is the
// Next of the list before; limit is at most api.MaxPageSize.
func (q *Queue) DeadLetters(ctx context.Context, cursor string, limit int) (*api.DeadLetterList, error) {
	if limit <= 0 {
		limit = api.DefaultPageSize
	}
	limit = min(limit, api.MaxPageSize)
	before, err := parseDeadCursor(cursor)
	if err != nil {
		return nil, err
	}
	found, err := q.deadBefore(ctx, before, limit+1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b deadEntry) int { return b.position.compare(a.position) })
	list := &api.DeadLetterList{Items: []api.DeadLetter{}}
	for _, d := range found[:min(limit, len(found))] {
		list.Items = append(list.Items, q.deadLetter(d))
	}
	if len(found) > limit {
		list.Next = found[limit-1].position.String()
	}
	return list, nil
}

// deadPosition orders dead letters of all shards: by time, then by shard.
type deadPosition struct {
	ms, seq int64
	shard   int
}

func (p deadPosition) String() string { return fmt.Sprintf("%d-%d-%d", p.ms, p.seq, p.shard) }

func (p deadPosition) compare(o deadPosition) int {
	return slices.Compare([]int64{p.ms, p.seq, int64(p.shard)}, []int64{o.ms, o.seq, int64(o.shard)})
}

func parseDeadCursor(cursor string) (p deadPosition, err error) {
	if cursor == "" {
		return deadPosition{ms: 1 << 50}, nil
	}
	n, _ := fmt.Sscanf(cursor, "%d-%d-%d", &p.ms, &p.seq, &p.shard)
	if n != 3 || p.String() != cursor || min(p.ms, p.seq, int64(p.shard)) < 0 {
		return p, api.Invalid("cursor", "cursor", "is not one that this list gave")
	}
	return p, nil
}

type deadEntry struct {
	position deadPosition
	values   map[string]any
}

// deadBefore reads the newest of each shard below a position.
func (q *Queue) deadBefore(ctx context.Context, before deadPosition, limit int) ([]deadEntry, error) {
	cmds := make([]redis.Cmder, q.o.Shards)
	for shard := range cmds {
		end := fmt.Sprintf("%d-%d", before.ms, before.seq)
		cmds[shard] = redis.NewXMessageSliceCmd(ctx, "xrevrange", q.shards[shard].DeadKey(), end, "-", "count", limit+1)
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	var found []deadEntry
	for shard, cmd := range cmds {
		messages, err := cmd.(*redis.XMessageSliceCmd).Result()
		if err != nil && err != redis.Nil {
			return nil, fmt.Errorf("list dead letters of %s: %w", q.o.Name, err)
		}
		for _, m := range messages {
			d := deadEntry{position: deadPosition{shard: shard}, values: m.Values}
			if n, _ := fmt.Sscanf(m.ID, "%d-%d", &d.position.ms, &d.position.seq); n == 2 && d.position.compare(before) < 0 {
				found = append(found, d)
			}
		}
	}
	return found, nil
}

func (q *Queue) deadLetter(d deadEntry) api.DeadLetter {
	get := func(name string) string { return redisdb.Text(d.values[name]) }
	attempts, _ := strconv.Atoi(get("attempts"))
	payload := json.RawMessage(get("p"))
	if q.o.Show != nil {
		payload = q.o.Show(get("g"), payload)
	}
	if !json.Valid(payload) {
		payload, _ = json.Marshal(get("p")) // a string always marshals
	}
	return api.DeadLetter{ID: q.DeadID(d.position.shard, get("i")), Kind: strings.TrimSuffix(q.o.Name, "s"), Reason: get("reason"),
		Attempts: attempts, LastError: get("err"), FailedAt: api.AtMillis(d.position.ms), Payload: payload}
}

// RetryDead queues a dead letter again: its attempts start at 0, its fence goes
// on rising. With once.Key it is idempotent over calls; retrying one that is
// queued already is no error.
func (q *Queue) RetryDead(ctx context.Context, dead string, once Once) (replayed bool, stored string, err error) {
	n, id, err := q.parseDead(dead)
	if err != nil {
		return false, "", err
	}
	args := append([]any{id, shard.MS(q.o.GroupRetention), shard.MS(q.common.ReportTTL())}, shard.OnceArgs(once)...)
	if once.Key == "" {
		args[3] = ""
	}
	value, err := q.db.Eval(ctx, redisdb.Write, q.common.Scripts.DeadRetry, q.shards[n].Keys(), args...)
	if err != nil {
		return false, "", err
	}
	answer := value.([]any)
	switch redisdb.Number(answer[0]) {
	case deadQueued, deadAlready:
		q.shards[n].CheckSoon(context.WithoutCancel(ctx))
		return false, once.Answer, nil
	case deadReplayed:
		return true, redisdb.Text(answer[1]), nil
	case deadReused:
		return false, "", api.IdempotencyReused()
	case deadTaken:
		return false, "", api.Errorf(api.CodeConflict, "another live job has the unique id of dead letter %s", dead)
	}
	return false, "", errNoDead(dead)
}

// DeleteDead forgets a dead letter.
func (q *Queue) DeleteDead(ctx context.Context, dead string) error {
	n, id, err := q.parseDead(dead)
	if err != nil {
		return err
	}
	value, err := q.db.Eval(ctx, redisdb.Write, q.common.Scripts.DeadDelete, q.shards[n].Keys(), id)
	if err != nil {
		return err
	}
	if redisdb.Number(value) == 0 {
		return errNoDead(dead)
	}
	return nil
}
