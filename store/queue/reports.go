package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// The letters that the queue itself writes at the begin of a report: that of a job
// that is queued, also of a dead letter that is retried, of one that became a dead
// letter, and of one that did because it was older than MaxAge.
const (
	StateQueued  = 'Q'
	StateDead    = 'X'
	StateExpired = 'E'
)

// Report reads the report of a job that was enqueued with one; "": nobody knows of
// such a job any more.
func (q *Queue) Report(ctx context.Context, shard int, id string) (string, error) {
	key, field := q.shards[shard].ReportKey(id)
	cmd := redis.NewStringCmd(ctx, "hget", key, field)
	if err := q.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return "", err
	}
	text, err := cmd.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read report in %s shard %d: %w", q.o.Name, shard, err)
	}
	return text, nil
}

// Reported is a job with its report.
type Reported struct {
	ID, Report string
	// At is when the job's id was made, to a 32nd of a second.
	At time.Time

	part int64 // the number of that 32nd
}

// newer tells whether a report is before another one in a list.
func (r *Reported) newer(o *Reported) bool {
	return cmp.Or(cmp.Compare(r.part, o.part), cmp.Compare(r.ID, o.ID)) > 0
}

// maxParts is how many parts of time one step of a list looks at in a shard.
const maxParts = 1000

// reportList is what was read of a shard's reports and not yet listed, and where the shard goes on.
type reportList struct {
	found []Reported
	more  bool
	part  int64
	below string // rest of an id: reports of the part are read below it
}

// Reports lists reports, newest first by the 32nd of a second in which the ids of their jobs were made,
// and within one by the id. The list begins behind the job with the id after, "": at its begin. It has n
// reports, fewer at its end. It has those of the latest 10,000 parts of time of a shard in which jobs
// with reports were enqueued. All shards are read in one pipeline, and those of which more is needed in
// further ones.
func (q *Queue) Reports(ctx context.Context, after string, n int) ([]Reported, error) {
	now := time.Now()
	begin := reportList{more: true, part: 1 << 52, below: ""}
	if after != "" {
		part, ok := partOf(after, now)
		if !ok {
			return nil, fmt.Errorf("list reports of %s after %q, which is no id", q.o.Name, after)
		}
		begin.part, begin.below = part, after[6:]
	}
	lists := make([]reportList, q.o.Shards)
	for i := range lists {
		lists[i] = begin
	}
	var out []Reported
	for len(out) < n {
		if err := q.readReports(ctx, lists, now, 2*n/q.o.Shards+16); err != nil {
			return nil, err
		}
		var next *reportList
		for i := range lists {
			if l := &lists[i]; len(l.found) > 0 && (next == nil || l.found[0].newer(&next.found[0])) {
				next = l
			}
		}
		if next == nil {
			break
		}
		out, next.found = append(out, next.found[0]), next.found[1:]
	}
	return out, nil
}

// readReports reads on in all shards of which nothing is left, until each has something or is at its
// end.
func (q *Queue) readReports(ctx context.Context, lists []reportList, now time.Time, most int) error {
	for {
		var read []*reportList
		var cmds []redis.Cmder
		for shard := range lists {
			if l := &lists[shard]; l.more && len(l.found) == 0 {
				read = append(read, l)
				cmds = append(cmds, q.common.Scripts.ListReports.Cmd(ctx, q.shards[shard].Keys(), l.part, l.below, most, maxParts))
			}
		}
		if len(cmds) == 0 {
			return nil
		}
		if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
			return err
		}
		for i, cmd := range cmds {
			v, err := cmd.(*redis.Cmd).Slice()
			if err != nil {
				return fmt.Errorf("list reports of %s: %w", q.o.Name, err)
			}
			read[i].add(v, now)
		}
	}
}

// add takes the answer of reports_list.lua.
func (l *reportList) add(v []any, now time.Time) {
	l.more, l.part, l.below = redisdb.NumberAt(v, 0) == 1, redisdb.NumberAt(v, 1), redisdb.TextAt(v, 2)
	for i := 3; i+1 < len(v); i += 2 {
		r := Reported{ID: redisdb.Text(v[i]), Report: redisdb.Text(v[i+1])}
		if part, ok := partOf(r.ID, now); ok {
			r.part, r.At = part, idEpoch.Add(time.Duration(part)*partTime)
			l.found = append(l.found, r)
		}
	}
}
