package queue

import (
	"cmp"
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

// retryFull is when a caller may try again to retry a letter of a queue that is full.
const retryFull = 10 * time.Second

// Statuses of dead_retry.lua.
const (
	deadUnknown  = 0
	deadQueued   = 1
	deadReplayed = 2
	deadReused   = 3
	deadTaken    = 4
	deadAlready  = 5
	deadFull     = 6 // of Options.Retry alone
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
	// Queue is the name of a callers' queue, whose letters are of the kind api.DeadJob. Type is the type of the job
	// then. Letters with a queue have no app.
	Queue string `json:"queue,omitempty"`
}

// DeadShards lists the shards that can have dead letters which a filter chooses.
func (q *Queue) DeadShards(f DeadFilter) (shards []int) {
	switch callers := q.o.Kind == api.DeadJob; {
	case callers && f.App != "" || !callers && f.Queue != "":
		return nil
	case f.Queue != "":
		return []int{q.Route(f.Queue)}
	}
	for n := range q.o.Shards {
		shards = append(shards, n)
	}
	return shards
}

// deadLook is how many dead letters a page with a filter looks at, of all queues together. Each queue has an equal
// share of them, which shareOut divides among its shards, but for the bound of countStep.
const deadLook = 10_000

// lookFor is how many dead letters of each of DeadShards a page of a list looks at, by queue.
func lookFor(ctx context.Context, f DeadFilter, limit int, queues []*Queue) ([][]int64, error) {
	look, asked := make([][]int64, len(queues)), int64(0)
	for i, q := range queues {
		look[i] = make([]int64, len(q.DeadShards(f)))
		if len(look[i]) > 0 {
			asked++
		}
	}
	for i, q := range queues {
		if len(look[i]) > 0 && f != (DeadFilter{}) {
			lengths, err := q.deadLengths(ctx, q.DeadShards(f))
			if err != nil {
				return nil, err
			}
			look[i] = shareOut(deadLook/asked, lengths)
		}
		for n := range look[i] {
			// A look that finds fewer letters than it may look at has seen the oldest.
			if look[i][n] = min(look[i][n]+1, countStep); f == (DeadFilter{}) {
				look[i][n] = int64(limit) + 1
			}
		}
	}
	return look, nil
}

// deadPageBytes bounds the letters of a queue that a page reads, of all shards together. Each shard gives one at
// least.
const deadPageBytes = 4 << 20

// DeadLetters lists dead letters of some queues that a filter chooses, newest first. The cursor is the
// Next of the list before, over the same queues; limit is at most api.MaxPageSize. A list with
// large letters may be short although it has a Next, and one with a filter even empty: it looks at 10,000 letters at most.
func DeadLetters(ctx context.Context, f DeadFilter, cursor string, limit int, queues ...*Queue) (*api.DeadLetterList, error) {
	before, err := parseDeadCursor(cursor)
	if err != nil {
		return nil, err
	}
	var found []deadEntry
	var seen deadPosition // there may be older letters that nobody looked at yet
	look, err := lookFor(ctx, f, limit, queues)
	if err != nil {
		return nil, err
	}
	for n, q := range queues {
		more, last, err := q.deadBefore(ctx, n, f, before, look[n], limit)
		if err != nil {
			return nil, err
		}
		if last.compare(seen) > 0 {
			seen = last
		}
		found = append(found, more...)
		slices.SortFunc(found, func(a, b deadEntry) int { return b.position.compare(a.position) })
		found = found[:min(len(found), limit+1)]
	}
	n := slices.IndexFunc(found, func(d deadEntry) bool { return d.position.compare(seen) < 0 })
	if n < 0 {
		n = len(found)
	}
	if n > limit {
		n, seen = limit, found[limit-1].position
	}
	list := &api.DeadLetterList{}
	for _, d := range found[:n] {
		list.Items = append(list.Items, queues[d.position.queue].deadLetter(d))
	}
	if seen != (deadPosition{}) {
		list.Next = seen.String()
	}
	return list, nil
}

// deadPosition orders dead letters of all shards of some queues: by time, then by shard and queue.
type deadPosition struct {
	ms, seq int64
	shard   int
	queue   int // its index among the queues
}

func (p deadPosition) String() string {
	return fmt.Sprintf("%d-%d-%d-%d", p.ms, p.seq, p.shard, p.queue)
}

func (p deadPosition) compare(o deadPosition) int {
	return cmp.Or(
		cmp.Compare(p.ms, o.ms), cmp.Compare(p.seq, o.seq),
		cmp.Compare(p.shard, o.shard), cmp.Compare(p.queue, o.queue),
	)
}

// deadAt is the position of an entry of a shard.
func deadAt(eid string, shard, queue int) deadPosition {
	p := deadPosition{shard: shard, queue: queue}
	_, _ = fmt.Sscanf(eid, "%d-%d", &p.ms, &p.seq) // Redis made it
	return p
}

func parseDeadCursor(cursor string) (p deadPosition, err error) {
	if cursor == "" {
		return deadPosition{ms: 1 << 50}, nil
	}
	n, _ := fmt.Sscanf(cursor, "%d-%d-%d-%d", &p.ms, &p.seq, &p.shard, &p.queue)
	if n != 4 || p.String() != cursor || min(p.ms, p.seq, int64(p.shard), int64(p.queue)) < 0 {
		return p, api.Invalid("cursor", "cursor", "is not a cursor that a list gave as next")
	}
	return p, nil
}

type deadEntry struct {
	position deadPosition
	values   map[string]any
}

// deadBefore finds the newest letters of each shard below a position: at most most of each, among
// the newest look. The queue is queue number at. All letters from seen on were looked at; if all of all
// shards were, seen is the zero position.
func (q *Queue) deadBefore(ctx context.Context, at int, f DeadFilter, before deadPosition, look []int64, most int) (found []deadEntry, seen deadPosition, err error) {
	shards := q.DeadShards(f)
	cmds := make([]redis.Cmder, len(shards))
	for i, n := range shards {
		newest := fmt.Sprintf("%d-%d", before.ms, before.seq)
		if n > before.shard || n == before.shard && at >= before.queue {
			newest = "(" + newest
		}
		cmds[i] = q.findDead(ctx, n, f, deadSearch{newest: newest, look: int(look[i]), most: most, what: deadWhole})
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, seen, err
	}
	for i, cmd := range cmds {
		n := shards[i]
		last, letters, err := foundDead(cmd)
		if err != nil {
			return nil, seen, fmt.Errorf("list dead letters of %s: %w", q.o.Name, err)
		}
		if last != "" {
			if p := deadAt(last, n, at); p.compare(seen) > 0 {
				seen = p
			}
		}
		for _, l := range letters {
			l, _ := l.([]any)
			d := deadEntry{position: deadAt(redisdb.TextAt(l, 0), n, at), values: map[string]any{}}
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
	if len(payload) > 0 && !json.Valid(payload) {
		payload, _ = json.Marshal(get("p")) // a string always marshals
	}
	kind, app, queue := q.readClass(get("class"))
	return api.DeadLetter{ID: q.DeadID(d.position.shard, get("i")), Group: cmp.Or(get("g"), get("i")), Kind: q.o.Kind, Reason: get("reason"), Type: kind, App: app,
		Queue: queue, Attempts: attempts, LastError: get("err"), FailedAt: api.AtMillis(d.position.ms), Payload: payload}
}

// Letter names a dead letter of a shard of a queue by its own id there.
type Letter struct {
	Queue *Queue
	Shard int
	ID    string
}

// Letters reads dead letters, of one queue or several on the same Redis, in one pipeline. One that is gone is nil.
func Letters(ctx context.Context, letters ...Letter) ([]*api.DeadLetter, error) {
	if len(letters) == 0 {
		return nil, nil
	}
	cmds, found := make([]redis.Cmder, len(letters)), make([]*api.DeadLetter, len(letters))
	for i, l := range letters {
		cmds[i] = redis.NewXMessageSliceCmd(ctx, "xrange", l.Queue.shards[l.Shard].DeadKey(), l.ID, l.ID)
	}
	if err := letters[0].Queue.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	for i, l := range letters {
		entries, err := cmds[i].(*redis.XMessageSliceCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("read a dead letter of %s: %w", l.Queue.o.Name, err)
		}
		if len(entries) > 0 {
			found[i] = new(l.Queue.deadLetter(deadEntry{position: deadAt(l.ID, l.Shard, 0), values: entries[0].Values}))
		}
	}
	return found, nil
}

// ToldLetter is the dead letter with an id in a shard as it was left for the relay of facts (part_facts.lua): without its payload and
// its last error. failed reports whether its job counts as failed.
func (q *Queue) ToldLetter(shard int, id, text string) (l *api.DeadLetter, failed bool) {
	var told struct{ I, G, Reason, Label, Attempts, Class string }
	_ = json.Unmarshal([]byte(text), &told) // a script wrote it
	l = new(q.deadLetter(deadEntry{position: deadAt(id, shard, 0), values: map[string]any{
		"i": told.I, "g": told.G, "reason": told.Reason, "attempts": told.Attempts, "class": told.Class}}))
	return l, told.Label == "failed"
}

// RetryDead queues a dead letter again: its attempts start at 0, its fence goes
// on rising. With once.Key it is idempotent over calls; retrying one that is
// queued already is no error. Errors are api.CodeNotFound, api.CodeConflict if another job has its unique id,
// api.CodeIdempotencyReused, and api.CodeQueueFull for a letter of a callers' queue.
func (q *Queue) RetryDead(ctx context.Context, dead string, once Once) (replayed bool, stored string, err error) {
	n, id, err := q.parseDead(dead)
	if err != nil {
		return false, "", err
	}
	value, err := q.db.Eval(ctx, redisdb.Write, q.retryScript(), q.shards[n].Keys(), append(q.retryArgs(id, once), "")...)
	if err != nil {
		return false, "", err
	}
	answer := value.([]any)
	switch redisdb.Number(answer[0]) {
	case deadQueued, deadAlready:
		q.lookAfterRetried(ctx, n)
		return false, once.Answer, nil
	case deadReplayed:
		return true, redisdb.Text(answer[1]), nil
	case deadReused:
		return false, "", api.IdempotencyReused()
	case deadFull:
		e := api.Errorf(api.CodeQueueFull, "the queue of dead letter %s has as many jobs as it may have", dead)
		e.RetryAfter = retryFull
		return false, "", e
	case deadTaken:
		return false, "", api.Errorf(api.CodeConflict, "another live job has the unique id of dead letter %s", dead)
	}
	return false, "", errNoDead(dead)
}

// retryScript queues a dead letter again.
func (q *Queue) retryScript() *redisdb.Script { return cmp.Or(q.o.Retry, q.common.Scripts.DeadRetry) }

// lookAfterRetried makes sure that somebody claims what was queued again in a shard. A script of the caller's own
// does that itself.
func (q *Queue) lookAfterRetried(ctx context.Context, shard int) {
	if q.o.Retry == nil {
		q.shards[shard].CheckSoon(context.WithoutCancel(ctx))
	}
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
