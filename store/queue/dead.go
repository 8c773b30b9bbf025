package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
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

// DeadFilter chooses dead letters. A field that is "" does not restrict the choice.
type DeadFilter struct {
	Reason string `json:"reason,omitempty"`
	// Type is the type of the event, and App the whole name of an app or its topic, as Claimed.Class has
	// them.
	Type string `json:"type,omitempty"`
	App  string `json:"app,omitempty"`
}

// DeadPage is a page of dead letters.
type DeadPage struct {
	Items []api.DeadLetter
	// Next is the cursor of the next page; "": this is the last.
	Next string
	// Seen is when the letter died up to which the page looked, if there is a next page.
	Seen time.Time
}

// deadLook is how many dead letters of a queue a page with a filter looks at, of all shards together.
// There are three queues.
const deadLook = 10_000 / 3

// DeadLetters lists dead letters of all shards that a filter chooses, newest first. The cursor is the
// Next of the list before; limit is at most api.MaxPageSize. With a filter, a list may be short, or even
// empty, although it has a Next: it looks at some 3,000 letters at most.
func (q *Queue) DeadLetters(ctx context.Context, f DeadFilter, cursor string, limit int) (*DeadPage, error) {
	if limit <= 0 {
		limit = api.DefaultPageSize
	}
	limit = min(limit, api.MaxPageSize)
	before, err := parseDeadCursor(cursor)
	if err != nil {
		return nil, err
	}
	look := limit + 1
	if f != (DeadFilter{}) {
		look = max(1, deadLook/q.o.Shards)
	}
	found, seen, err := q.deadBefore(ctx, f, before, look, limit)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b deadEntry) int { return b.position.compare(a.position) })
	// A shard may have letters that nobody looked at yet, older than seen.
	n := slices.IndexFunc(found, func(d deadEntry) bool { return d.position.compare(seen) < 0 })
	if n < 0 {
		n = len(found)
	}
	if n > limit {
		n, seen = limit, found[limit-1].position
	}
	list := &DeadPage{}
	for _, d := range found[:n] {
		list.Items = append(list.Items, q.deadLetter(d))
	}
	if seen != (deadPosition{}) {
		list.Next, list.Seen = seen.String(), api.AtMillis(seen.ms).Time
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

// deadAt is the position of an entry of a shard.
func deadAt(eid string, shard int) (p deadPosition) {
	_, _ = fmt.Sscanf(eid, "%d-%d", &p.ms, &p.seq) // Redis made it
	p.shard = shard
	return p
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

// deadBefore finds the newest letters of each shard below a position: at most most of each, among
// the newest look. All letters from seen on were looked at; if all of all shards were, seen is the zero
// position.
func (q *Queue) deadBefore(ctx context.Context, f DeadFilter, before deadPosition, look, most int) (found []deadEntry, seen deadPosition, err error) {
	cmds := make([]redis.Cmder, q.o.Shards)
	for n := range cmds {
		newest := fmt.Sprintf("%d-%d", before.ms, before.seq)
		if n >= before.shard {
			newest = "(" + newest
		}
		cmds[n] = q.findDead(ctx, n, f, deadSearch{newest: newest, look: look, most: most, what: deadWhole})
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, seen, err
	}
	for n, cmd := range cmds {
		last, letters, err := foundDead(cmd)
		if err != nil {
			return nil, seen, fmt.Errorf("list dead letters of %s: %w", q.o.Name, err)
		}
		if last != "" {
			if p := deadAt(last, n); p.compare(seen) > 0 {
				seen = p
			}
		}
		for _, l := range letters {
			l, _ := l.([]any)
			d := deadEntry{position: deadAt(redisdb.TextAt(l, 0), n), values: map[string]any{}}
			values := redisdb.ListAt(l, 1)
			for i := 0; i+1 < len(values); i += 2 {
				d.values[redisdb.Text(values[i])] = values[i+1]
			}
			found = append(found, d)
		}
	}
	return found, seen, nil
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
	kind, app, _ := strings.Cut(get("class"), classSep)
	return api.DeadLetter{ID: q.DeadID(d.position.shard, get("i")), Kind: q.DeadKind(), Reason: get("reason"), Type: kind, App: app,
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
	value, err := q.db.Eval(ctx, redisdb.Write, q.common.Scripts.DeadRetry, q.shards[n].Keys(), append(q.retryArgs(id, once), "")...)
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
	value, err := q.db.Eval(ctx, redisdb.Write, q.common.Scripts.DeadDelete, q.shards[n].Keys(), id, "")
	if err != nil {
		return err
	}
	if redisdb.Number(value) == 0 {
		return errNoDead(dead)
	}
	return nil
}
