package queue

import (
	"context"
	"time"

	"fanfare/store/redisdb"
)

// maxUnpark is the most jobs that one step moves.
const maxUnpark = 100

// toldNames is how many parked names wait to be read from ParkedNames.
const toldNames = 256

// Now is the time by Redis' clock, which decides when the jobs of a shard are due: see
// redisdb.DB.Now.
func (q *Queue) Now(ctx context.Context, shard int) (time.Time, error) {
	return q.db.Now(ctx, q.shards[shard].deadKey())
}

// Unpark lets at most most (100) of the jobs parked under a name in a shard go
// on, the oldest first, and tells how many those were; 0: none is left.
func (q *Queue) Unpark(ctx context.Context, shard int, name string, most int) (int, error) {
	value, err := q.db.Eval(ctx, redisdb.Write, q.common.scripts.unpark, q.shards[shard].keys(), name, min(most, maxUnpark))
	if err != nil {
		return 0, err
	}
	q.shards[shard].checkSoon(context.WithoutCancel(ctx))
	answer, _ := value.([]any)
	q.shards[shard].parked.tell(redisdb.NumberAt(answer, 1))
	return int(redisdb.NumberAt(answer, 0)), nil
}

// ParkedName says that jobs are parked under a name in a shard.
type ParkedName struct {
	Shard int
	Name  string
}

// ParkedNames gives what the regular looks at the shards that this process
// works on find parked, some names each time and sooner or later all. Names are
// left out while nobody reads. The parked streams themselves are asked, so that
// no lost message and no ended process can hide a job.
func (q *Queue) ParkedNames() <-chan ParkedName { return q.common.names }

// tellParked passes on what a look found.
func (s *shard) tellParked(names []any) {
	for _, name := range names {
		select {
		case s.names <- ParkedName{s.n, redisdb.Text(name)}:
		default:
		}
	}
}

// LookAgain has the shard's regular look, if this process works on the shard,
// come after d at the latest.
func (q *Queue) LookAgain(shard int, after time.Duration) { q.shards[shard].wakeMaintainer(after) }
