package queue

import (
	"strconv"
	"strings"
	"time"

	"fanfare/api"
)

// entries checks jobs and gives each an id and a shard.
func (q *Queue) entries(jobs []Job) ([]*entry, error) {
	now := time.Now()
	all := make([]entry, len(jobs))
	out := make([]*entry, len(jobs))
	for i := range jobs {
		e := &all[i]
		e.job, e.failures, out[i] = jobs[i], jobs[i].Failures, e
		j := &e.job
		if err := q.check(j); err != nil {
			return nil, err
		}
		fresh := j.Fresh || j.ID == ""
		if j.ID == "" {
			j.Shard = q.shardOf(j)
			j.ID = NewID(j.Shard, now)
		}
		switch {
		case !fresh:
			e.named = namedForGood
		case j.Key != "" || j.Unique != "" || j.Cancellable:
			e.named = namedWhileItLive
		}
		if e.report = j.Report != ""; len(j.Attachment) > 0 {
			e.attachments = strconv.Itoa(len(j.Attachment))
		}
	}
	return out, nil
}

// shardOf is where a job without an id goes.
func (q *Queue) shardOf(j *Job) int {
	switch {
	case j.Key != "":
		return q.Route(j.Key)
	case j.Unique != "":
		return q.Route(j.Unique)
	}
	return q.Route(randomText(9))
}

// check refuses what would not fit, or would break a job's text.
func (q *Queue) check(j *Job) error {
	names := [...]struct{ field, value, forbidden string }{
		{"id", j.ID, " :{}\x1f\x00"}, {"type", j.Type, "{}\x1f\x00"}, {"key", j.Key, "{}\x1f\x00"},
		{"unique", j.Unique, "{}\x1f\x00"}, {"group", j.Group, " {}\x1f\x00"}, {"guard", j.Guard, "{}\x1f\x00"},
	}
	for i := range names {
		n := &names[i]
		if n.value == "" {
			continue
		}
		if len(n.value) > MaxName {
			return api.Invalid(n.field, "max", "of a job must be at most %d bytes", MaxName)
		}
		if strings.ContainsAny(n.value, n.forbidden) {
			return api.Invalid(n.field, "identifier", "of a job must not contain any of %q", n.forbidden)
		}
	}
	if len(j.Payload) > MaxPayload {
		return api.Invalid("payload", "max", "of a job must be at most %d bytes", MaxPayload)
	}
	if j.ID != "" && (j.Shard < 0 || j.Shard >= q.o.Shards) {
		return api.Invalid("shard", "max", "%d does not exist: queue %s has %d", j.Shard, q.o.Name, q.o.Shards)
	}
	return nil
}

// ms is a duration in milliseconds; what is positive is at least 1.
func ms(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}
