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

// The names of a part's counts in its event's group.
const (
	countDelivered = "sent_delivered"
	countFailed    = "sent_failed"
	countExpired   = "sent_expired"
	countCancelled = "sent_cancelled"

	countSuperseded = "sent_superseded"
)

// Event is the id of the event that a job with this id belongs to.
func (j *Job) Event(id string) string {
	if j.Of != "" {
		return j.Of
	}
	return id
}

// PartCounts are the counts that a part adds to its event's group.
func PartCounts(c Counts, s Sent) map[string]int64 {
	all := map[string]int64{}
	for name, n := range map[string]int64{
		"recipients": c.Recipients, "is_actor": c.IsActor, "opted_out": c.OptedOut, "muted": c.Muted, "no_device": c.NoDevice, "live": c.Live,
	} {
		if n > 0 {
			all[name] = n
		}
	}
	eachEnds(&s, func(ending string, e *Ends) {
		for name, n := range map[string]int64{countDelivered: e.Delivered, countFailed: e.Failed, countExpired: e.Expired, countCancelled: e.Cancelled, countSuperseded: e.Superseded} {
			if n > 0 {
				all[name+ending] = n
			}
		}
	})
	for why, n := range s.Why {
		all[countFailed+reasonMark+why] = n
	}
	return all
}

// eachEnds visits the numbers of all platforms, and then those of each of the OtherPlatforms with the
// ending of their names.
func eachEnds(s *Sent, visit func(ending string, e *Ends)) {
	visit("", &s.Ends)
	for i, ending := range groupEndings {
		visit(ending, &s.Others[i])
	}
}

// addParts adds the counts of an event's parts.
func (p *progress) addParts(sums map[string]int64) {
	p.counts = p.counts.Plus(Counts{Recipients: sums["recipients"], IsActor: sums["is_actor"], OptedOut: sums["opted_out"],
		Muted: sums["muted"], NoDevice: sums["no_device"], Live: sums["live"]})
	eachEnds(&p.sent, func(ending string, e *Ends) {
		e.Delivered += sums[countDelivered+ending]
		e.Failed += sums[countFailed+ending]
		e.Expired += sums[countExpired+ending]
		e.Cancelled += sums[countCancelled+ending]
		e.Superseded += sums[countSuperseded+ending]
	})
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
