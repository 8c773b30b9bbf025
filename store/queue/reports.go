package queue

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
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

// ReportKey names the hash with the report of a job of a shard, and its field there, for scripts of other packages.
func (q *Queue) ReportKey(shard int, id string) (key, field string) {
	return q.shards[shard].ReportKey(id)
}

// ReportsOf reads the reports of some jobs that were enqueued with one, and their marks of MarkCancelled, in one pipeline. Jobs of which
// nobody knows any more, and texts that are no ids, are left out.
func (q *Queue) ReportsOf(ctx context.Context, ids []string) ([]Reported, error) {
	var known []string
	var cmds []redis.Cmder
	for _, id := range ids {
		if shard, ok := ParseID(id); ok && shard < q.o.Shards {
			key, field := q.shards[shard].ReportKey(id)
			known, cmds = append(known, id), append(cmds, redis.NewSliceCmd(ctx, "hmget", key, field, field+cancelMark))
		}
	}
	if len(cmds) == 0 {
		return nil, nil
	}
	send := q.db.Pipeline
	if len(cmds) == 1 {
		send = q.db.Share // several would be for several slots
	}
	if err := send(ctx, redisdb.Read, cmds...); err != nil {
		return nil, fmt.Errorf("read reports of %s: %w", q.o.Name, err)
	}
	var read []Reported
	for i, cmd := range cmds {
		values, err := cmd.(*redis.SliceCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("read report of %s: %w", known[i], err)
		}
		mark, _ := strconv.ParseInt(redisdb.Text(values[1]), 10, 64)
		if text := redisdb.Text(values[0]); text != "" {
			read = append(read, Reported{ID: known[i], Report: text, Cancelled: CancelMark(mark)})
		}
	}
	return read, nil
}

// cancelMark ends the name of a cancelled report's mark, which is beside the report and lives as long:
// report_cancel.lua and reports_list.lua have the same. Builds that do not know the mark take it for no
// report, and leave it as it is.
const cancelMark = "!"

// CancelMark is how far a job's cancel has come.
type CancelMark int64

// The marks, each of which replaces those before it.
const (
	NotCancelled        CancelMark = iota
	CancelBegun                    // it is not known to everybody yet
	CancelledEverywhere            // it is
)

// What MarkCancelled answers: the results of report_cancel.lua.
const (
	CancelUnknown      = iota // nobody knows of such a job any more
	CancelMarked              // it has the mark now
	CancelTooLate             // the job is over and has no mark, and nothing was changed
	CancelMarkedBefore        // it had the mark, or a later one
)

// MarkCancelled marks a job's report as cancelled for as long as the report is kept, unless it has no mark and
// its letter is one of over. Nothing else happens to the job: its handler has to ask elsewhere.
func (q *Queue) MarkCancelled(ctx context.Context, shard int, id, over string, m CancelMark) (int64, error) {
	value, err := q.db.Eval(ctx, redisdb.Write, q.common.Scripts.CancelReport, q.shards[shard].Keys(), id, over, int64(m))
	if err != nil {
		return 0, fmt.Errorf("cancel in %s shard %d: %w", q.o.Name, shard, err)
	}
	return redisdb.Number(value), nil
}

// Reported is a job with its report.
type Reported struct {
	ID, Report string
	Cancelled  CancelMark
	// At is when the job's id was made, to a 32nd of a second.
	At time.Time

	part int64 // the number of that 32nd
}

// newer reports whether a report is before another one in a list.
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
	for i := 3; i+2 < len(v); i += 3 {
		r := Reported{ID: redisdb.Text(v[i]), Report: redisdb.Text(v[i+1]), Cancelled: CancelMark(redisdb.Number(v[i+2]))}
		if part, ok := partOf(r.ID, now); ok {
			r.part, r.At = part, idEpoch.Add(time.Duration(part)*partTime)
			l.found = append(l.found, r)
		}
	}
}

// Groups adds a group's counts up over all shards, in one pipeline. There are none when
// no shard knows the group.
func (q *Queue) Groups(ctx context.Context, group string) (map[string]int64, error) {
	sums, err := q.GroupsOf(ctx, []string{group})
	if err != nil {
		return nil, err
	}
	return sums[0][0], nil
}

// GroupsOf reads the counts of several groups as Groups does, in one pipeline. With each group it also reads the
// groups of the same name with one of these endings, and lists their counts after its own, in this order.
func (q *Queue) GroupsOf(ctx context.Context, groups []string, endings ...string) ([][]map[string]int64, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	var cmds []redis.Cmder
	for _, group := range groups {
		for _, shard := range q.shards {
			key, field := shard.GroupKey(group)
			args := []any{"hmget", key, field}
			for _, ending := range endings {
				args = append(args, field+ending)
			}
			cmds = append(cmds, redis.NewSliceCmd(ctx, args...))
		}
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	all := make([][]map[string]int64, len(groups))
	for i := range all {
		var err error
		if all[i], err = sumsOf(cmds[i*len(q.shards):(i+1)*len(q.shards)], 1+len(endings)); err != nil {
			return nil, fmt.Errorf("read group %s: %w", groups[i], err)
		}
	}
	return all, nil
}

// sumsOf adds n records up over the answers of all shards.
func sumsOf(cmds []redis.Cmder, n int) ([]map[string]int64, error) {
	sums := make([]map[string]int64, n)
	for i := range sums {
		sums[i] = map[string]int64{}
	}
	for _, cmd := range cmds {
		records, err := cmd.(*redis.SliceCmd).Result()
		for i := 0; err == nil && i < len(records); i++ {
			if record, ok := records[i].(string); ok {
				err = addCounts(sums[i], record)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// shortNames are the counts that scripts write as a letter (part_group.lua).
var shortNames = map[string]string{"c": "created", "d": "delivered", "e": "expired", "f": "failed", "r": "retrying", "u": "unknown_outcome"}

// addCounts adds the counts of a group's record.
func addCounts(sums map[string]int64, record string) error {
	for _, one := range strings.Fields(record) {
		name, number, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return err
		}
		if whole, ok := shortNames[name]; ok {
			name = whole
		}
		sums[name] += n
	}
	return nil
}
