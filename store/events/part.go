package events

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/store/queue"
)

// A large audience is split, page by page, into parts: jobs of the queue of events with some users
// each, which are targeted and sent like small events. All parts of a page are stored in one step,
// which is remembered under the page's cursor. If the page is read again, perhaps with other users,
// nothing is stored, and the event continues where the first read ended. When a part ends, its
// counts are added to the event's group.

// countFailed is the name of a part's failed notifications in its event's group.
const countFailed = "sent_failed"

// Event is the id of the event that a job with this id belongs to.
func (j *Job) Event(id string) string {
	if j.Of != "" {
		return j.Of
	}
	return id
}

// eachCount visits the counts of a part with their names in its event's group: those of users, those of the notifications of
// all platforms, and those of each of the OtherPlatforms.
func eachCount(c *Counts, s *Sent, visit func(name string, n *int64)) {
	visit("recipients", &c.Recipients)
	visit("is_actor", &c.IsActor)
	visit("opted_out", &c.OptedOut)
	visit("muted", &c.Muted)
	visit("no_device", &c.NoDevice)
	visit("live", &c.Live)
	ends := func(e *Ends, ending string) {
		visit("sent_delivered"+ending, &e.Delivered)
		visit(countFailed+ending, &e.Failed)
		visit("sent_expired"+ending, &e.Expired)
		visit("sent_cancelled"+ending, &e.Cancelled)
		visit("sent_superseded"+ending, &e.Superseded)
	}
	ends(&s.Ends, "")
	for i, ending := range groupEndings {
		ends(&s.Others[i], ending)
	}
}

// PartCounts are the counts that a part adds to its event's group.
func PartCounts(c Counts, s Sent) map[string]int64 {
	all := map[string]int64{}
	eachCount(&c, &s, func(name string, n *int64) {
		if *n > 0 {
			all[name] = *n
		}
	})
	for why, n := range s.Why {
		all[countFailed+reasonMark+why] = n
	}
	return all
}

// addParts adds the counts of an event's parts.
func (p *progress) addParts(sums map[string]int64) {
	eachCount(&p.counts, &p.sent, func(name string, n *int64) { *n += sums[name] })
	p.sent.addReasons(countFailed, sums)
}

// Split stores the users of a page of an event as parts. It returns the cursor of the next page and
// the number of parts, both from the first call for this page.
func Split(ctx context.Context, q *queue.Queue, id string, j *Job, users []string, next string, keep time.Duration) (string, int64, error) {
	shard := q.Route(id + j.Cursor)
	var jobs []queue.Job
	for from := 0; from < len(users); from += PartSize {
		part := *j
		part.Of, part.Parts, part.Cursor, part.Counted, part.Lacks = id, 0, "", Counts{}, nil
		part.Audience = Audience{Users: users[from:min(from+PartSize, len(users))], Chat: j.Audience.Chat}
		jobs = append(jobs, queue.Job{ID: queue.NewID(shard, time.Now()), Fresh: true, Shard: shard, Group: id, Payload: part.Encode()})
	}
	if len(jobs) == 0 {
		if was, n, found, err := SplitBefore(ctx, q, id, j.Cursor); found || err != nil {
			return was, n, err
		}
		return next, 0, nil
	}
	once := pageRecord(id, j.Cursor)
	once.Answer, once.TTL = strconv.Itoa(len(jobs))+" "+next, keep
	replayed, stored, err := q.EnqueueOnce(ctx, once, jobs...)
	if err != nil || !replayed {
		return next, int64(len(jobs)), err
	}
	return splitAs(stored)
}

// SplitBefore reports whether the page at a cursor was split, and how.
func SplitBefore(ctx context.Context, q *queue.Queue, id, cursor string) (next string, parts int64, found bool, err error) {
	stored, found, err := q.Replay(ctx, q.Route(id+cursor), pageRecord(id, cursor))
	if err != nil || !found {
		return "", 0, false, err
	}
	next, parts, err = splitAs(stored)
	return next, parts, true, err
}

func pageRecord(id, cursor string) queue.Once { return queue.Once{Key: "page:" + id + ":" + cursor} }

// splitAs reads how a page was split.
func splitAs(stored string) (next string, parts int64, err error) {
	count, next, _ := strings.Cut(stored, " ")
	if parts, err = strconv.ParseInt(count, 10, 64); err != nil {
		return "", 0, fmt.Errorf("read the parts of a page: %w", err)
	}
	return next, parts, nil
}
