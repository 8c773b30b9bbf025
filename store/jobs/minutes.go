package jobs

import (
	"context"
	"fmt"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// minutesKept is how many minutes a queue remembers beside the present one (part_queue.lua).
const minutesKept = 60

// mark is what a queue had counted before a minute.
type mark struct {
	minute int64 // since 1970, by Redis' clock
	before api.JobCounts
}

// Minutes tells what a queue counted in each of the last 60 minutes that are over, the oldest first; api.CodeNotFound if there
// is none.
func (s *Store) Minutes(ctx context.Context, queue string) (*api.JobQueueSeries, error) {
	answer, err := s.listed(ctx, queue, minutesKept+1)
	if err != nil {
		return nil, err
	}
	present, total, marks, err := readMarks(answer)
	if err != nil {
		return nil, err
	}
	series := &api.JobQueueSeries{Items: make([]api.JobMinute, minutesKept)}
	for i := range series.Items {
		m := &series.Items[i]
		minute := present - minutesKept + int64(i)
		m.At = api.At(time.Unix(minute*60, 0))
		if len(marks) == 0 || marks[0].minute != minute {
			continue
		}
		until, before := total, marks[0].before
		if marks = marks[1:]; len(marks) > 0 {
			until = marks[0].before
		}
		m.JobCounts = less(until, before)
	}
	return series, nil
}

// readMarks reads what queues_list.lua tells of a queue's minutes: the present one, what the queue has counted in all, and the
// marks, the oldest first.
func readMarks(answer []any) (present int64, total api.JobCounts, marks []mark, err error) {
	n := func(i int) int64 { return redisdb.NumberAt(answer, i) }
	present, total = n(8), api.JobCounts{Enqueued: n(9), Done: n(10), Retries: n(11), Recovered: n(12), Dead: n(13)}
	texts := redisdb.ListAt(answer, 14)
	marks = make([]mark, len(texts))
	for i := range texts {
		m, text := &marks[i], redisdb.TextAt(texts, i)
		b := &m.before
		if _, err := fmt.Sscan(text, &m.minute, &b.Enqueued, &b.Done, &b.Retries, &b.Recovered, &b.Dead); err != nil {
			return 0, total, nil, fmt.Errorf("%.100q is no mark of a minute: %w", text, err)
		}
	}
	return present, total, marks, nil
}

// since is what a queue has counted since the first mark.
func since(total api.JobCounts, marks []mark) api.JobCounts {
	if len(marks) == 0 {
		return api.JobCounts{}
	}
	return less(total, marks[0].before)
}

// less is what was counted between two times.
func less(until, from api.JobCounts) api.JobCounts {
	return api.JobCounts{
		Enqueued: until.Enqueued - from.Enqueued, Done: until.Done - from.Done, Retries: until.Retries - from.Retries,
		Recovered: until.Recovered - from.Recovered, Dead: until.Dead - from.Dead,
	}
}
